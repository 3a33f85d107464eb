//! From body to rows: the steps in order.

use crate::index::Index;
use crate::judge::{Accepted, Rules, Scratch};
use crate::person::{self, Said};
use crate::reporter::Reporter;
use crate::rows::Rows;
use crate::slow::{self, Repaired};
use crate::span::{Document, Event, Kind, Shape};
use crate::splice::Splicer;
use crate::walk::{self, Refused};
use crate::{ApiError, ErrorType, Facts, KeyLookup, Limits, ParseError, Parsed, Project, Protocol};
use crate::{fingerprint, key, skew, v1};
use http::StatusCode;
use millrace_rows::{EventRow, Lane, Micros, RejectedRow};

/// Turns bodies into rows. One per core: all its buffers are reused.
#[derive(Debug, Default)]
pub struct Parser {
    index: Index,
    document: Document,
    repaired: Repaired,
    scratch: Scratch,
    splicer: Splicer,
    rows: Rows,
    said: Said,
}

impl Parser {
    #[cfg(feature = "testing")]
    pub(crate) fn with_index(index: Index) -> Self {
        Self {
            index,
            ..Self::default()
        }
    }

    /// Parses a decoded body: JSON text. `find` looks into the key cache without waiting.
    pub fn parse(
        &mut self,
        body: &[u8],
        facts: &Facts<'_>,
        find: &mut dyn FnMut(&str) -> KeyLookup,
    ) -> Result<Parsed, ParseError> {
        self.repaired.nulls.clear();
        if self.read(body, facts.limits).is_ok() {
            return self.request(body, facts, find);
        }
        let mut repaired = std::mem::take(&mut self.repaired);
        let result = self.parse_repaired(body, &mut repaired, facts, find);
        self.repaired = repaired;
        result
    }

    /// Takes back buffers of rows for reuse.
    pub fn recycle(&mut self, buffers: impl IntoIterator<Item = Vec<u8>>) {
        self.rows.recycle(buffers);
    }

    /// Takes a body apart into `document`.
    fn read(&mut self, body: &[u8], limits: Limits) -> Result<(), Refused> {
        self.index.build(body)?;
        walk::walk(
            body,
            &self.index,
            limits.depth_max,
            limits.events_max,
            &mut self.document,
        )
    }

    #[cold]
    fn parse_repaired(
        &mut self,
        body: &[u8],
        repaired: &mut Repaired,
        facts: &Facts<'_>,
        find: &mut dyn FnMut(&str) -> KeyLookup,
    ) -> Result<Parsed, ParseError> {
        slow::repair(body, facts.limits.depth_max, repaired)?;
        self.read(&repaired.text, facts.limits)
            .map_err(|Refused| slow::invalid_json(0))?;
        self.repaired.nulls.clone_from(&repaired.nulls);
        self.request(&repaired.text, facts, find)
    }

    /// Judges and encodes the request in `document`, whose text is `body`.
    fn request(
        &mut self,
        body: &[u8],
        facts: &Facts<'_>,
        find: &mut dyn FnMut(&str) -> KeyLookup,
    ) -> Result<Parsed, ParseError> {
        self.check_shape(facts)?;
        let historical = self.is_historical(facts)?;
        let v1_uuids = match facts.protocol {
            Protocol::V0 => Vec::new(),
            Protocol::V1 { .. } => v1::uuids(body, &self.document.events)?,
        };
        let project = key::resolve(&self.document, body, facts, find)?;
        let is_single = self.document.shape == Shape::Single;
        let rules = Rules {
            body,
            received_at: facts.received_at,
            request_id: facts.request_id,
            team_id: project.team_id,
            historical,
            shift: skew::shift(&self.document, body, facts),
            event_bytes_max: facts.limits.event_bytes_max,
            nameless_is_identify: facts.engage && is_single,
            is_single,
            is_v1: matches!(facts.protocol, Protocol::V1 { .. }),
        };
        self.start_splicer(facts, project, historical);
        let mut reporter = Reporter::new(self.document.shape, v1_uuids);
        self.rows.start(body.len());
        let all_named = self.events(&rules, facts.created_at, &mut reporter);
        Ok(self.finish(&rules, facts, reporter, all_named))
    }

    fn check_shape(&self, facts: &Facts<'_>) -> Result<(), ApiError> {
        let document = &self.document;
        let is_v1 = matches!(facts.protocol, Protocol::V1 { .. });
        if document.shape == Shape::NotABatch || (is_v1 && document.shape != Shape::Batch) {
            return Err(slow::invalid_body());
        }
        if document.events.is_empty() {
            return Err(ApiError::invalid(
                "empty_batch",
                "The request has no events. Send at least one.",
            ));
        }
        if document.events.len() > facts.limits.events_max {
            return Err(ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                ErrorType::InvalidRequest,
                "too_many_events",
                format!(
                    "A request may have {} events. Send fewer at a time.",
                    facts.limits.events_max
                ),
            ));
        }
        Ok(())
    }

    fn is_historical(&self, facts: &Facts<'_>) -> Result<bool, ApiError> {
        let root = self.document.event(&self.document.root);
        match root.rare.historical_migration.kind() {
            Kind::True => Ok(true),
            Kind::Absent | Kind::Null | Kind::False => Ok(facts.historical_query),
            _ => Err(ApiError::invalid(
                "invalid_historical_migration",
                "`historical_migration` must be true or false, without quotes.",
            )
            .at("historical_migration")),
        }
    }

    fn start_splicer(&mut self, facts: &Facts<'_>, project: Project, historical: bool) {
        let ip = facts
            .client_ip
            .filter(|_| !historical && !project.anonymize_ips);
        let sdk_info = match facts.protocol {
            Protocol::V0 => None,
            Protocol::V1 { sdk_info, .. } => sdk_info,
        };
        self.splicer.start(ip, sdk_info);
    }

    /// Judges and encodes each event. Gives back whether every one came with a uuid.
    fn events(&mut self, rules: &Rules<'_>, created_at: Micros, reporter: &mut Reporter) -> bool {
        let document = std::mem::take(&mut self.document);
        let mut all_named = true;
        for (spans, index) in document.events.iter().zip(0_u32..) {
            let spans = document.event(spans);
            match rules.judge(spans, index, &mut self.scratch) {
                Ok(accepted) => {
                    let row = EventRow {
                        uuid: accepted.uuid,
                        event: accepted.event,
                        properties: &self.splicer.pieces(rules, spans),
                        timestamp: accepted.timestamp,
                        team_id: rules.team_id,
                        distinct_id: accepted.distinct_id,
                        created_at,
                        historical_migration: rules.historical,
                    };
                    self.rows.push_event(&row);
                    if person::is_touched(spans, accepted.event) {
                        let at = person::Place { created_at, index };
                        self.said.put(&mut self.rows, rules, spans, accepted, at);
                    }
                    all_named &= accepted.has_client_uuid;
                    let was_repaired = is_repaired(&self.repaired.nulls, spans);
                    remark(reporter, index, &accepted, was_repaired);
                }
                Err(fault) => {
                    let rejection = reporter.reject(index, fault);
                    all_named &= !spans.uuid.is_none();
                    self.rows.push_rejected(&RejectedRow {
                        team_id: rules.team_id,
                        received_at: created_at,
                        request_id: rules.request_id,
                        index,
                        code: rejection.code,
                        attr: &rejection.attr,
                        detail: &rejection.detail,
                        raw: spans.whole.json(rules.body),
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
        facts: &Facts<'_>,
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
        let fingerprint =
            all_named.then(|| fingerprint::of(&self.document, rules, facts, report.rejected_count));
        let accepted = u32::try_from(events).unwrap_or(u32::MAX) - report.rejected_count;
        Parsed {
            batch: self.rows.finish(lane),
            team_id: rules.team_id,
            accepted,
            report,
            fingerprint,
            results,
            strict: facts.strict,
            dry_run: facts.dry_run,
        }
    }
}

/// Passes on what is odd about a stored event.
#[inline]
fn remark(reporter: &mut Reporter, index: u32, accepted: &Accepted<'_>, was_repaired: bool) {
    if accepted.remarks.any() || was_repaired {
        reporter.warn(index, accepted.remarks, was_repaired);
    }
}

/// Whether one of the numbers that became `null` is in an event.
#[inline]
fn is_repaired(nulls: &[u32], spans: Event<'_>) -> bool {
    !nulls.is_empty() && {
        let after = nulls.partition_point(|at| (*at as usize) < spans.whole.start());
        nulls.get(after).is_some_and(|at| spans.whole.contains(*at))
    }
}
