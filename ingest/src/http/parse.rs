//! From a body's JSON to rows: on the core, or beside it where that takes long.

use super::Call;
use super::beside::Beside;
use super::payload::is_blank;
use crate::core::Core;
use crate::keys::Keys;
use crate::metrics::Stage;
use http::StatusCode;
use millrace_encoding::{Unwrapper, Whole};
use millrace_parse::{
    ApiError, ErrorType, Facts, Footprint, KeyLookup, ParseError, Parsed, Parser, Protocol,
};
use millrace_rows::TeamId;
use tokio::sync::OwnedSemaphorePermit;

/// Keys that one request may make us look up; a request has one, and more is a mistake of ours.
pub const LOOKUPS_MAX: usize = 4;

/// A request that was understood.
pub struct Taken {
    pub parsed: Parsed,
    /// Its project, if it is not noted of it that it has events.
    pub unnoted: Option<FirstEvents>,
}

/// A project that has events, and the key by which it is known.
pub struct FirstEvents {
    pub key: Box<str>,
    pub team_id: TeamId,
}

/// Parses, and looks up the key when it is not in the cache.
pub async fn parse(
    call: &Call<'_>,
    json: Whole,
    facts: &Facts<'_>,
    beside: Option<Beside>,
) -> Result<Taken, ApiError> {
    if let Some(beside) = beside {
        // Boxed, as few requests come here and all would carry its room.
        return Box::pin(parse_beside(call, json, facts, beside)).await;
    }
    let keys = &call.core.shared.deps.keys;
    let mut looked_up = LookedUp::default();
    let mut unnoted = None;
    loop {
        let mut find = |key: &str| {
            let lookup = looked_up.find(keys, key);
            call.conn.was_of(key);
            unnoted = first_events(key, lookup);
            lookup
        };
        let started = call.now();
        let result = call.core.parser.borrow_mut().parse(&json, facts, &mut find);
        call.took(Stage::Parse, started);
        if let Some(parsed) = looked_up.after(call.core, result).await? {
            json.recycle(&call.core.buffers);
            return Ok(Taken { parsed, unnoted });
        }
    }
}

/// The same for a body that would keep the core too long.
#[cold]
async fn parse_beside(
    call: &Call<'_>,
    json: Whole,
    facts: &Facts<'_>,
    beside: Beside,
) -> Result<Taken, ApiError> {
    let core = call.core;
    let (mut beside, (json, footprint)) = beside
        .run(core, move || {
            let footprint = (!is_blank(&json)).then(|| Footprint::of(&json));
            (json, footprint)
        })
        .await?;
    let footprint = footprint.ok_or_else(Unwrapper::empty_body)?;
    let bytes = footprint.bytes_max(facts.limits.events_max);
    let memory = beside.memory(core, bytes).await?;
    let mut work = Work {
        json,
        footprint,
        _memory: memory.ok_or_else(too_complex)?,
        facts: OwnedFacts::of(facts),
        keys: core.shared.deps.keys.clone(),
        looked_up: LookedUp::default(),
        asked: None,
    };
    loop {
        let started = call.now();
        let result;
        (beside, (work, result)) = beside.run(core, move || work.run()).await?;
        call.took(Stage::Parse, started);
        if let Some(parsed) = work.looked_up.after(core, result).await? {
            if let Some((key, _)) = &work.asked {
                call.conn.was_of(key);
            }
            let unnoted = work
                .asked
                .and_then(|(key, lookup)| first_events(&key, lookup));
            return Ok(Taken { parsed, unnoted });
        }
        // To be parsed again, with a key that was found.
        beside.is_of_known_project();
    }
}

/// 413 for a body that has more structure than there is ever memory for.
fn too_complex() -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        ErrorType::InvalidRequest,
        "body_too_complex",
        "The body has more values than can be read at once. Send fewer events per request.",
    )
}

/// A body that is parsed on another thread, and all that this needs.
struct Work {
    json: Whole,
    footprint: Footprint,
    /// Held as long as the parser works.
    _memory: OwnedSemaphorePermit,
    facts: OwnedFacts,
    keys: Keys,
    looked_up: LookedUp,
    /// The last key that was asked for.
    asked: Option<(String, KeyLookup)>,
}

impl Work {
    fn run(mut self) -> (Self, Result<Parsed, ParseError>) {
        let (keys, looked_up, asked) = (&self.keys, &self.looked_up, &mut self.asked);
        let mut find = |key: &str| {
            let lookup = looked_up.find(keys, key);
            *asked = Some((key.to_owned(), lookup));
            lookup
        };
        // One of its own: what it grew to is given back.
        let mut parser = Parser::with_room_for(&self.footprint);
        let result = parser.parse(&self.json, &self.facts.facts(), &mut find);
        (self, result)
    }
}

/// Keys that were not in the cache.
#[derive(Default)]
struct LookedUp(Vec<(String, KeyLookup)>);

impl LookedUp {
    fn find(&self, keys: &Keys, key: &str) -> KeyLookup {
        let known = self.0.iter().find(|(known, _)| known == key);
        known.map_or_else(|| keys.cached(key), |(_, lookup)| *lookup)
    }

    /// What was parsed; `None` if it is to be parsed again, with a key that was looked up.
    async fn after(
        &mut self,
        core: &Core,
        result: Result<Parsed, ParseError>,
    ) -> Result<Option<Parsed>, ApiError> {
        match result {
            Ok(parsed) => Ok(Some(parsed)),
            Err(ParseError::Refused(error)) => Err(error),
            Err(ParseError::NeedsKey(key)) if self.0.len() < LOOKUPS_MAX => {
                let found = core.shared.deps.keys.find(&key).await;
                let found = found.map_err(|_| catalog_unavailable(core))?;
                // Parsed again, the body would be refused for just that.
                let project = found.ok_or_else(ApiError::unknown_api_key)?;
                self.0.push((key, KeyLookup::Found(project)));
                Ok(None)
            }
            Err(ParseError::NeedsKey(_)) => Err(catalog_unavailable(core)),
        }
    }
}

/// [`Facts`] that another thread may have.
struct OwnedFacts {
    /// All of it that is not text.
    plain: Facts<'static>,
    sent_at_query: Option<String>,
    v1: Option<OwnedV1>,
}

struct OwnedV1 {
    key: String,
    sent_at: Option<String>,
    sdk_info: Option<String>,
}

impl OwnedFacts {
    fn of(facts: &Facts<'_>) -> Self {
        let v1 = match facts.protocol {
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
            sent_at_query: facts.sent_at_query.map(str::to_owned),
            v1,
            plain: Facts {
                received_at: facts.received_at,
                created_at: facts.created_at,
                request_id: facts.request_id,
                engage: facts.engage,
                sent_at_query: None,
                historical_query: facts.historical_query,
                strict: facts.strict,
                dry_run: facts.dry_run,
                client_ip: facts.client_ip,
                protocol: Protocol::V0,
                limits: facts.limits,
            },
        }
    }

    fn facts(&self) -> Facts<'_> {
        let protocol = self.v1.as_ref().map_or(Protocol::V0, |v1| Protocol::V1 {
            key: &v1.key,
            sent_at: v1.sent_at.as_deref(),
            sdk_info: v1.sdk_info.as_deref(),
        });
        Facts {
            sent_at_query: self.sent_at_query.as_deref(),
            protocol,
            ..self.plain
        }
    }
}

/// A project of which it is to be noted that it has events.
fn first_events(key: &str, lookup: KeyLookup) -> Option<FirstEvents> {
    match lookup {
        KeyLookup::Found(project) if !project.ingested_event => Some(FirstEvents {
            key: key.into(),
            team_id: project.team_id,
        }),
        _ => None,
    }
}

/// 503 for a key that nobody can look up.
pub fn catalog_unavailable(core: &Core) -> ApiError {
    core.later(
        "catalog_unavailable",
        "The project key cannot be looked up at the moment. Send the request again.",
    )
}
