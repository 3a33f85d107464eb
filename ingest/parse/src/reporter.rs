//! Reporter of the rejections and warnings of a request.

use crate::report::{
    EventResult, Outcome, REPORT_ENTRIES_MAX, Rejection, Report, UuidText, Warning,
};
use crate::span::BodyShape;
use crate::validate::{TOO_LARGE, Violation, Warnings};
use millrace_rows::{PERSON_PROPERTIES_BYTES_MAX, PROPERTY_BYTES_BESIDE};
use std::borrow::Cow;

/// Gathers a request's rejections and warnings.
pub struct Reporter {
    shape: BodyShape,
    report: Report,
    results: Vec<EventResult>,
}

impl Reporter {
    /// Starts a report; `uuids` are those of the v1 protocol's events, else nothing.
    pub fn new(shape: BodyShape, uuids: Vec<UuidText>) -> Self {
        let results = uuids.into_iter().map(|uuid| EventResult {
            uuid,
            outcome: Outcome::Ok,
            details: None,
        });
        Self {
            shape,
            report: Report::default(),
            results: results.collect(),
        }
    }

    /// Notes a refused event; returns what was noted. `event_bytes_max` is the limit of an event.
    #[cold]
    pub fn reject(
        &mut self,
        index: u32,
        violation: Violation,
        event_bytes_max: usize,
    ) -> Rejection {
        let detail = match violation.code {
            // Built here, as a violation has no room for it and is passed on for each event.
            TOO_LARGE => format!(
                "The event's JSON is larger than the {event_bytes_max} bytes that one event may \
                 have. Send less with it."
            )
            .into(),
            _ => violation.detail.into(),
        };
        let rejection = Rejection {
            index,
            code: violation.code,
            detail,
            attr: self.attr(index, violation.field),
        };
        self.set_result(index, Outcome::Drop, violation.code);
        self.report.rejected_count += 1;
        if self.report.rejected.len() < REPORT_ENTRIES_MAX {
            self.report.rejected.push(rejection.clone());
        }
        rejection
    }

    /// Notes the warnings about a stored event.
    #[cold]
    pub fn warn(&mut self, index: u32, warnings: Warnings, was_repaired: bool) {
        if was_repaired {
            self.set_result(index, Outcome::Warning, "repaired_json");
            self.add_warning(
                index,
                "repaired_json",
                "NaN and Infinity are not JSON; null was stored in their place.",
            );
        }
        if warnings.missing_timestamp {
            self.set_result(index, Outcome::Warning, "missing_timestamp");
            self.add_warning(
                index,
                "missing_timestamp",
                "A historical event without timestamp: the time of receipt was stored, and sending it again stores it again.",
            );
        }
        if warnings.future_timestamp {
            self.set_result(index, Outcome::Warning, "future_timestamp");
            self.add_warning(
                index,
                "future_timestamp",
                "The timestamp is more than 23 hours ahead: the time of receipt was stored instead.",
            );
        }
        if warnings.person_update_too_large {
            self.set_result(index, Outcome::Warning, "person_update_too_large");
            self.add_warning(index, "person_update_too_large", too_large_detail());
        }
        if warnings.illegal_distinct_id {
            // The v1 protocol has a word of its own for this.
            self.set_result(index, Outcome::Warning, "person_processing_disabled");
            self.add_warning(
                index,
                "illegal_distinct_id",
                "Many clients send this distinct id by mistake: the event was stored, but belongs to no person.",
            );
        }
    }

    /// Returns the report, and the v1 protocol's results.
    pub fn finish(self) -> (Report, Vec<EventResult>) {
        (self.report, self.results)
    }

    fn add_warning(
        &mut self,
        index: u32,
        code: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) {
        self.report.warning_count += 1;
        if self.report.warnings.len() < REPORT_ENTRIES_MAX {
            self.report.warnings.push(Warning {
                index,
                code,
                detail: detail.into(),
            });
        }
    }

    fn set_result(&mut self, index: u32, outcome: Outcome, details: &'static str) {
        if let Some(result) = self.results.get_mut(index as usize) {
            result.outcome = outcome;
            result.details = Some(details);
        }
    }

    fn attr(&self, index: u32, field: &str) -> String {
        attr(self.shape, index, field)
    }
}

/// Explains to the client that a person or group is not changed, as it would become too large.
fn too_large_detail() -> String {
    format!(
        "The event sets more properties than the {PERSON_PROPERTIES_BYTES_MAX} bytes that one \
         person or group may have, where each counts its name, its value and \
         {PROPERTY_BYTES_BESIDE} bytes. The event was stored, but changes no property of the \
         person or group. Set fewer of them."
    )
}

/// Place of an event's field in the request.
pub fn attr(shape: BodyShape, index: u32, field: &str) -> String {
    let place = match shape {
        BodyShape::Single => return field.to_owned(),
        BodyShape::Array => format!("[{index}]"),
        BodyShape::Batch | BodyShape::NotABatch => format!("batch[{index}]"),
    };
    if field.is_empty() {
        return place;
    }
    format!("{place}.{field}")
}
