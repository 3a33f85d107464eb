//! Parses a body's JSON to rows: on the core, or in the offload pool where that takes long.

use super::body::is_blank;
use super::context::RequestContext;
use super::live::{WatchedKey, observe};
use super::report::stores;
use crate::admission::rejection::Rejection;
use crate::core::Core;
use crate::keys::Keys;
use crate::metrics::Stage;
use crate::offload::{OffloadFailed, OffloadSlot};
use millrace_encoding::{BodyBuf, BodyDecoder};
use millrace_live::Observation;
use millrace_parse::{
    ApiError, Footprint, KeyLookup, ParseContext, ParseError, Parsed, Parser, Protocol,
};
use millrace_rows::ProjectId;
use tokio::sync::OwnedSemaphorePermit;

/// Keys that one request may have looked up; a request has one, and more is a mistake of ours.
pub const LOOKUPS_MAX: usize = 4;

/// Parsed request, with a note for its project if there is one.
pub struct ParsedRequest {
    pub parsed: Parsed,
    /// Project of the request, if the catalog has not noted yet that it has events.
    pub unnoted: Option<FirstEventNote>,
    /// Copy of the rows, if anybody watches the project.
    pub observation: Option<Box<Observation>>,
}

/// Project that has events, and the key by which it is known.
pub struct FirstEventNote {
    pub key: Box<str>,
    pub project_id: ProjectId,
}

/// Parses a body, and looks up the key when it is not in the cache. Rows of the offload pool get
/// the time at which they are complete, and the request an epoch of that time.
pub async fn parse(
    request: &RequestContext<'_>,
    json: BodyBuf,
    context: &ParseContext<'_>,
    offload: Option<OffloadSlot>,
) -> Result<ParsedRequest, ApiError> {
    if let Some(offload) = offload {
        // Boxed, as few requests come here and all would carry its size.
        return Box::pin(parse_offloaded(request, json, context, offload)).await;
    }
    let keys = &request.core.process.deps.keys;
    let mut lookups = KeyLookups::default();
    let (mut unnoted, mut watched_key) = (None, None);
    loop {
        let mut find = |key: &str| {
            let lookup = lookups.find(keys, key);
            request.conn.note_project(key, lookup);
            unnoted = first_events(key, lookup);
            if request.is_watched {
                watched_key = WatchedKey::of(key, lookup);
            }
            lookup
        };
        let started = request.now();
        let result = request
            .core
            .parser
            .borrow_mut()
            .parse(&json, context, &mut find);
        request.took(Stage::Parse, started);
        if let Some(parsed) = lookups.after(request.core, result).await? {
            json.recycle(&request.core.buffers);
            return Ok(ParsedRequest {
                observation: watched_key.and_then(|key| observe(request, &parsed, key)),
                parsed,
                unnoted,
            });
        }
    }
}

/// Parses a body that would keep the core too long.
#[cold]
async fn parse_offloaded(
    request: &RequestContext<'_>,
    json: BodyBuf,
    context: &ParseContext<'_>,
    offload: OffloadSlot,
) -> Result<ParsedRequest, ApiError> {
    let core = request.core;
    let failed = |OffloadFailed| core.admission.overloaded();
    let measured = offload.run(move || {
        let footprint = (!is_blank(&json)).then(|| Footprint::of(&json));
        (json, footprint)
    });
    let (mut offload, (json, footprint)) = measured.await.map_err(failed)?;
    let footprint = footprint.ok_or_else(BodyDecoder::empty_body)?;
    let bytes = footprint.bytes_max(context.limits.events_max, context.protocol);
    let memory = offload.reserve_memory(bytes).await.map_err(failed)?;
    let mut work = ParseJob {
        json,
        footprint,
        _memory: memory.ok_or_else(|| core.admission.error(Rejection::BodyTooComplex))?,
        context: OwnedParseContext::of(context),
        keys: core.process.deps.keys.clone(),
        lookups: KeyLookups::default(),
        asked: None,
    };
    loop {
        let started = request.now();
        let result;
        (offload, (work, result)) = offload.run(move || work.run()).await.map_err(failed)?;
        request.took(Stage::Parse, started);
        if let Some(parsed) = work.lookups.after(core, result).await? {
            if let Some((key, lookup)) = &work.asked {
                request.conn.note_project(key, *lookup);
            }
            let parsed = match stores(&parsed) {
                true => restamp(request, parsed, offload).await?,
                false => parsed,
            };
            let asked = work.asked.as_ref();
            let unnoted = asked.and_then(|(key, lookup)| first_events(key, *lookup));
            let watched = asked.filter(|_| request.is_watched);
            let watched_key = watched.and_then(|(key, lookup)| WatchedKey::of(key, *lookup));
            return Ok(ParsedRequest {
                observation: watched_key.and_then(|key| observe(request, &parsed, key)),
                parsed,
                unnoted,
            });
        }
        // The body is parsed again, with a key that was found.
        offload.mark_project_known();
    }
}

/// Enters an epoch, and gives the rows its time: the watermark has not waited for them so far.
async fn restamp(
    request: &RequestContext<'_>,
    mut parsed: Parsed,
    offload: OffloadSlot,
) -> Result<Parsed, ApiError> {
    let epoch = request.core.enter_epoch();
    let created_at = epoch.created_at;
    request.epoch_guard.set(Some(epoch));
    let restamped = offload.run(move || {
        let is_complete = parsed.batch.restamp(created_at);
        (parsed, is_complete)
    });
    match restamped.await {
        Ok((_, (parsed, true))) => Ok(parsed),
        Ok((_, (_, false))) => {
            // A mistake of ours. Sent again as it is, the body would fail again; rows of smaller
            // ones have their time from the beginning, and clients split what is too large.
            let request_id = request.request_id;
            tracing::error!(%request_id, "rows of a large body lack columns of their table");
            Err(request.core.admission.error(Rejection::BodyTooComplex))
        }
        Err(OffloadFailed) => Err(request.core.admission.overloaded()),
    }
}

/// Body that is parsed on another thread, and all that this needs.
struct ParseJob {
    json: BodyBuf,
    footprint: Footprint,
    /// Memory that is held as long as the parser works.
    _memory: OwnedSemaphorePermit,
    context: OwnedParseContext,
    keys: Keys,
    lookups: KeyLookups,
    /// Last key that was asked for.
    asked: Option<(String, KeyLookup)>,
}

impl ParseJob {
    fn run(mut self) -> (Self, Result<Parsed, ParseError>) {
        let (keys, lookups, asked) = (&self.keys, &self.lookups, &mut self.asked);
        let mut find = |key: &str| {
            let lookup = lookups.find(keys, key);
            *asked = Some((key.to_owned(), lookup));
            lookup
        };
        // A parser of its own, whose memory is given back.
        let mut parser = Parser::with_capacity_for(&self.footprint);
        let result = parser.parse(&self.json, &self.context.as_context(), &mut find);
        (self, result)
    }
}

/// Keys that were not in the cache, with the projects found.
#[derive(Default)]
struct KeyLookups(Vec<(String, KeyLookup)>);

impl KeyLookups {
    fn find(&self, keys: &Keys, key: &str) -> KeyLookup {
        let known = self.0.iter().find(|(known, _)| known == key);
        known.map_or_else(|| keys.cached(key), |(_, lookup)| *lookup)
    }

    /// Rows that were parsed; `None` if the body is to be parsed again, with a key that was looked
    /// up.
    async fn after(
        &mut self,
        core: &Core,
        result: Result<Parsed, ParseError>,
    ) -> Result<Option<Parsed>, ApiError> {
        match result {
            Ok(parsed) => Ok(Some(parsed)),
            Err(ParseError::Refused(error)) => Err(error),
            Err(ParseError::NeedsKey(key)) if self.0.len() < LOOKUPS_MAX => {
                let found = core.process.deps.keys.find(&key).await;
                let found = found.map_err(|_| core.admission.error(Rejection::KeyLookupFailed))?;
                // Parsed again, the body would be refused for just that.
                let project = found.ok_or_else(ApiError::unknown_api_key)?;
                self.0.push((key, KeyLookup::Found(project)));
                Ok(None)
            }
            Err(ParseError::NeedsKey(_)) => Err(core.admission.error(Rejection::KeyLookupFailed)),
        }
    }
}

/// [`ParseContext`] that owns its text, for another thread.
struct OwnedParseContext {
    /// Fields that are not text.
    plain: ParseContext<'static>,
    sent_at_query: Option<String>,
    v1: Option<OwnedV1>,
}

struct OwnedV1 {
    key: String,
    sent_at: Option<String>,
    sdk_info: Option<String>,
}

impl OwnedParseContext {
    fn of(context: &ParseContext<'_>) -> Self {
        let v1 = match context.protocol {
            Protocol::V0 => None,
            Protocol::V1 {
                key,
                sent_at,
                sdk_info,
            } => Some(OwnedV1 {
                key: key.to_owned(),
                sent_at: sent_at.map(str::to_owned),
                sdk_info: sdk_info.map(str::to_owned),
            }),
        };
        Self {
            sent_at_query: context.sent_at_query.map(str::to_owned),
            v1,
            plain: ParseContext {
                received_at: context.received_at,
                created_at: context.created_at,
                request_id: context.request_id,
                engage: context.engage,
                sent_at_query: None,
                historical_query: context.historical_query,
                strict: context.strict,
                dry_run: context.dry_run,
                client_ip: context.client_ip,
                protocol: Protocol::V0,
                limits: context.limits,
            },
        }
    }

    fn as_context(&self) -> ParseContext<'_> {
        let protocol = self.v1.as_ref().map_or(Protocol::V0, |v1| Protocol::V1 {
            key: &v1.key,
            sent_at: v1.sent_at.as_deref(),
            sdk_info: v1.sdk_info.as_deref(),
        });
        ParseContext {
            sent_at_query: self.sent_at_query.as_deref(),
            protocol,
            ..self.plain
        }
    }
}

/// Project to be noted as having events, if it is not yet.
fn first_events(key: &str, lookup: KeyLookup) -> Option<FirstEventNote> {
    match lookup {
        KeyLookup::Found(project) if !project.ingested_event => Some(FirstEventNote {
            key: key.into(),
            project_id: project.id,
        }),
        _ => None,
    }
}
