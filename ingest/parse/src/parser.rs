//! Parser of bodies to rows: the steps in order.

use crate::characters::Refused;
use crate::index::Index;
use crate::person::{self, PersonUpdateScratch};
use crate::report::Rejection;
use crate::reporter::Reporter;
use crate::rows::Rows;
use crate::slow::{self, Repaired};
use crate::span::{BodyShape, Document, Event, Kind};
use crate::splice::Splicer;
use crate::validate::{Accepted, Rules, Scratch, TOO_LARGE};
use crate::walk;
use crate::{
    ApiError, ErrorType, KeyLookup, Limits, ParseContext, ParseError, Parsed, Project, Protocol,
};
use crate::{Footprint, fingerprint, key, skew, v1};
use http::StatusCode;
use millrace_rows::{EventRow, Lane, Micros, RejectedRow};
use std::borrow::Cow;

/// Bytes that are kept of the JSON of an event that is too large. Anyone with the public key of a
/// project can send such events of a whole body each: kept whole they fill the disk, and the memory
/// of their readers. The beginning shows which client sent it; up to this size, the event can still
/// be mended and sent again.
const REJECTED_BYTES_MAX: usize = 4 << 20;

/// Bytes of an event, at least, on average of all of a body: the shortest that can be stored has
/// some thirty. Shorter ones are refused, and a report on each costs many times what was sent.
const EVENT_BYTES_MIN: usize = 24;
/// Events of any length that every body may have.
const SHORT_EVENTS_MAX: usize = 1_000;

/// Parser from bodies to rows. Its buffers are reused and keep the size of the largest body: a core
/// has one for its small bodies, and a large body gets one of its own.
#[derive(Debug, Default)]
pub struct Parser {
    index: Index,
    document: Document,
    repaired: Repaired,
    scratch: Scratch,
    splicer: Splicer,
    rows: Rows,
    person_scratch: PersonUpdateScratch,
}

impl Parser {
    #[cfg(feature = "testing")]
    pub(crate) fn with_index(index: Index) -> Self {
        Self {
            index,
            ..Self::default()
        }
    }

    /// Returns a parser for a large body, whose memory is taken at once.
    #[must_use]
    pub fn with_capacity_for(footprint: &Footprint) -> Self {
        Self {
            index: Index::with_capacity_for(footprint),
            ..Self::default()
        }
    }

    /// Parses a decoded body: JSON text. `find` looks into the key cache without waiting.
    pub fn parse(
        &mut self,
        body: &[u8],
        context: &ParseContext<'_>,
        find: &mut dyn FnMut(&str) -> KeyLookup,
    ) -> Result<Parsed, ParseError> {
        self.repaired.nulls.clear();
        if self.read(body, context.limits).is_ok() {
            return self.request(body, context, find);
        }
        let mut repaired = std::mem::take(&mut self.repaired);
        let result = self.parse_repaired(body, &mut repaired, context, find);
        self.repaired = repaired;
        result
    }

    /// Takes back buffers of rows for reuse.
    pub fn recycle(&mut self, buffers: impl IntoIterator<Item = Vec<u8>>) {
        self.rows.recycle(buffers);
    }

    /// Reads a body into `document`.
    fn read(&mut self, body: &[u8], limits: Limits) -> Result<(), Refused> {
        self.index.build(body)?;
        walk::walk(
            body,
            &self.index,
            limits.depth_max,
            events_max(body, limits),
            &mut self.document,
        )
    }

    #[cold]
    fn parse_repaired(
        &mut self,
        body: &[u8],
        repaired: &mut Repaired,
        context: &ParseContext<'_>,
        find: &mut dyn FnMut(&str) -> KeyLookup,
    ) -> Result<Parsed, ParseError> {
        slow::repair(body, context.limits.depth_max, repaired)?;
        self.read(&repaired.text, context.limits)
            .map_err(|Refused| slow::invalid_json(0))?;
        self.repaired.nulls.clone_from(&repaired.nulls);
        self.request(&repaired.text, context, find)
    }

    /// Validates and encodes the request in `document`, whose text is `body`.
    fn request(
        &mut self,
        body: &[u8],
        context: &ParseContext<'_>,
        find: &mut dyn FnMut(&str) -> KeyLookup,
    ) -> Result<Parsed, ParseError> {
        self.check_shape(body, context)?;
        let historical = self.is_historical(context)?;
        let v1_uuids = match context.protocol {
            Protocol::V0 => Vec::new(),
            Protocol::V1 { .. } => v1::uuids(body, &self.document.events)?,
        };
        let project = key::resolve(&self.document, body, context, find)?;
        let is_single = self.document.shape == BodyShape::Single;
        let rules = Rules {
            body,
            received_at: context.received_at,
            request_id: context.request_id,
            project_id: project.id,
            historical,
            shift: skew::shift(&self.document, body, context),
            event_bytes_max: context.limits.event_bytes_max,
            nameless_is_identify: context.engage && is_single,
            is_single,
            is_v1: matches!(context.protocol, Protocol::V1 { .. }),
        };
        self.start_splicer(context, project, historical);
        let mut reporter = Reporter::new(self.document.shape, v1_uuids);
        self.rows.start(body.len());
        let all_named = self.events(&rules, context.created_at, &mut reporter);
        Ok(self.finish(&rules, context, reporter, all_named))
    }

    fn check_shape(&self, body: &[u8], context: &ParseContext<'_>) -> Result<(), ApiError> {
        let document = &self.document;
        let is_v1 = matches!(context.protocol, Protocol::V1 { .. });
        if document.shape == BodyShape::NotABatch || (is_v1 && document.shape != BodyShape::Batch) {
            return Err(slow::invalid_body());
        }
        if document.events.is_empty() {
            return Err(ApiError::invalid(
                "empty_batch",
                "The request has no events. Send at least one.",
            ));
        }
        if document.events.len() > events_max(body, context.limits) {
            return Err(too_many_events(document.events.len(), context.limits));
        }
        Ok(())
    }

    fn is_historical(&self, context: &ParseContext<'_>) -> Result<bool, ApiError> {
        let root = self.document.event(&self.document.root);
        match root.rare.historical_migration.kind() {
            Kind::True => Ok(true),
            Kind::Absent | Kind::Null | Kind::False => Ok(context.historical_query),
            _ => Err(ApiError::invalid(
                "invalid_historical_migration",
                "`historical_migration` must be true or false, without quotes.",
            )
            .at("historical_migration")),
        }
    }

    fn start_splicer(&mut self, context: &ParseContext<'_>, project: Project, historical: bool) {
        let ip = context
            .client_ip
            .filter(|_| !historical && !project.anonymize_ips);
        let sdk_info = match context.protocol {
            Protocol::V0 => None,
            Protocol::V1 { sdk_info, .. } => sdk_info,
        };
        self.splicer.start(ip, sdk_info);
    }

    /// Validates and encodes each event. Returns true if every one came with a uuid.
    fn events(&mut self, rules: &Rules<'_>, created_at: Micros, reporter: &mut Reporter) -> bool {
        let document = std::mem::take(&mut self.document);
        let mut all_named = true;
        for (spans, index) in document.events.iter().zip(0_u32..) {
            let spans = document.event(spans);
            match rules.validate(spans, index, &mut self.scratch) {
                Ok(mut accepted) => {
                    let row = EventRow {
                        uuid: accepted.uuid,
                        event: accepted.event,
                        properties: &self.splicer.pieces(rules, spans),
                        timestamp: accepted.timestamp,
                        team_id: rules.project_id,
                        distinct_id: accepted.distinct_id,
                        created_at,
                        historical_migration: rules.historical,
                    };
                    self.rows.push_event(&row);
                    if person::is_touched(spans, accepted.event) {
                        let at = person::RowPosition { created_at, index };
                        let (scratch, rows) = (&mut self.person_scratch, &mut self.rows);
                        accepted.warnings.person_update_too_large =
                            scratch.put(rows, rules, spans, accepted, at);
                    }
                    all_named &= accepted.has_client_uuid;
                    let was_repaired = is_repaired(&self.repaired.nulls, spans);
                    report_warnings(reporter, index, &accepted, was_repaired);
                }
                Err(violation) => {
                    let rejection = reporter.reject(index, violation, rules.event_bytes_max);
                    all_named &= !spans.uuid.is_none();
                    let raw = spans.whole.json(rules.body);
                    let (raw, detail) = kept(&rejection, raw);
                    self.rows.push_rejected(&RejectedRow {
                        team_id: rules.project_id,
                        received_at: created_at,
                        request_id: rules.request_id,
                        index,
                        code: rejection.code,
                        attr: &rejection.attr,
                        detail: &detail,
                        raw,
                        historical_migration: rules.historical,
                    });
                }
            }
        }
        self.document = document;
        all_named
    }

    fn finish(
        &mut self,
        rules: &Rules<'_>,
        context: &ParseContext<'_>,
        reporter: Reporter,
        all_named: bool,
    ) -> Parsed {
        let lane = if rules.historical {
            Lane::Historical
        } else {
            Lane::Live
        };
        let events = self.document.events.len();
        let (report, results) = reporter.finish();
        // Events without a uuid may be alike and yet two: they are stored however often they come.
        let fingerprint = all_named
            .then(|| fingerprint::of(&self.document, rules, context, report.rejected_count));
        let accepted = u32::try_from(events).unwrap_or(u32::MAX) - report.rejected_count;
        Parsed {
            batch: self.rows.finish(lane),
            project_id: rules.project_id,
            accepted,
            report,
            fingerprint,
            results,
            strict: context.strict,
            dry_run: context.dry_run,
        }
    }
}

/// Events that a body may have.
fn events_max(body: &[u8], limits: Limits) -> usize {
    let by_length = (body.len() / EVENT_BYTES_MIN).max(SHORT_EVENTS_MAX);
    by_length.min(limits.events_max)
}

/// Builds a 413 for so many events.
#[cold]
fn too_many_events(events: usize, limits: Limits) -> ApiError {
    let (code, detail) = if events > limits.events_max {
        let events_max = limits.events_max;
        let detail = format!("A request may have {events_max} events. Send fewer at a time.");
        ("too_many_events", detail)
    } else {
        let detail = format!(
            "The request has more than {SHORT_EVENTS_MAX} events, of less than {EVENT_BYTES_MIN} bytes each on average: most cannot be events. An event has at least `event` and `distinct_id`."
        );
        ("body_too_complex", detail)
    };
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        ErrorType::InvalidRequest,
        code,
        detail,
    )
}

/// Part of a refused event's JSON that is kept, and the reason with a note on that.
#[cold]
fn kept<'a>(rejection: &'a Rejection, raw: &'a [u8]) -> (&'a [u8], Cow<'a, str>) {
    let whole = (raw, Cow::Borrowed(&*rejection.detail));
    if rejection.code != TOO_LARGE || raw.len() <= REJECTED_BYTES_MAX {
        return whole;
    }
    // A character across the end is left out.
    let is_inside = |at: &usize| raw.get(*at).is_some_and(|byte| byte & 0xC0 == 0x80);
    let end = (0..=REJECTED_BYTES_MAX).rev().find(|at| !is_inside(at));
    let Some(start) = end.and_then(|end| raw.get(..end)) else {
        return whole;
    };
    let detail = rejection.detail.trim_end_matches('.');
    let mib = REJECTED_BYTES_MAX >> 20;
    let detail = format!("{detail}; the first {mib} MiB of it are kept.");
    (start, Cow::Owned(detail))
}

/// Reports the warnings of a stored event.
#[inline]
fn report_warnings(
    reporter: &mut Reporter,
    index: u32,
    accepted: &Accepted<'_>,
    was_repaired: bool,
) {
    if accepted.warnings.any() || was_repaired {
        reporter.warn(index, accepted.warnings, was_repaired);
    }
}

/// Returns true if one of the numbers that became `null` is in an event.
#[inline]
fn is_repaired(nulls: &[u32], spans: Event<'_>) -> bool {
    !nulls.is_empty() && {
        let after = nulls.partition_point(|at| (*at as usize) < spans.whole.start());
        nulls.get(after).is_some_and(|at| spans.whole.contains(*at))
    }
}
