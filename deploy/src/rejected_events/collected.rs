//! Outcomes of a resend, collected for the API's answer.

use super::corrected::CorrectedEvent;
use super::reporter::{EventOutcome, Reporter};
use millrace_admin::rejected_events::{ResendReport, ResentEvent, ResentOutcome};
use millrace_clickhouse::RejectedEvent;
use std::collections::HashMap;

/// Events of a dry run whose JSON is shown.
const SHOWN_MAX: usize = 10;
/// Longest JSON that is shown, in bytes.
const SHOWN_BYTES_MAX: usize = 16 << 10;

/// Outcomes of the events that were tried.
#[derive(Debug)]
pub struct Collected {
    is_dry_run: bool,
    results: Vec<ResentEvent>,
    /// JSON of the first events as they would be sent, by id.
    prepared: HashMap<String, String>,
}

impl Collected {
    /// Collects the outcomes of a dry run, or of another resend.
    #[must_use]
    pub fn new(is_dry_run: bool) -> Self {
        Self {
            is_dry_run,
            results: Vec::new(),
            prepared: HashMap::new(),
        }
    }

    /// Returns true if no event was tried.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// Report of a resend of so many selected and taken events, which was stopped for a reason.
    #[must_use]
    pub fn report(self, selected: u64, taken: usize, stopped: Option<String>) -> ResendReport {
        let count = |outcomes: &[ResentOutcome]| {
            let results = self.results.iter();
            results.filter(|it| outcomes.contains(&it.outcome)).count() as u64
        };
        ResendReport {
            dry_run: self.is_dry_run,
            selected,
            accepted: count(&[ResentOutcome::Accepted]),
            rejected: count(&[ResentOutcome::Rejected, ResentOutcome::Unsendable]),
            not_tried: taken.saturating_sub(self.results.len()) as u64,
            stopped,
            results: self.results,
        }
    }
}

impl Reporter for Collected {
    fn event(&mut self, event: &RejectedEvent, outcome: EventOutcome) {
        let (outcome, detail) = match outcome {
            EventOutcome::Accepted => (ResentOutcome::Accepted, None),
            EventOutcome::Rejected(why) => (ResentOutcome::Rejected, Some(why)),
            EventOutcome::Unsendable(why) => (ResentOutcome::Unsendable, Some(why)),
            EventOutcome::AlreadySent => (
                ResentOutcome::AlreadySent,
                Some("It was sent again meanwhile.".to_owned()),
            ),
            EventOutcome::InDoubt => (
                ResentOutcome::InDoubt,
                Some("The server did not answer.".to_owned()),
            ),
        };
        let id = event_id(&event.request_id, event.index);
        let event = self.prepared.remove(&id);
        self.results.push(ResentEvent {
            id,
            outcome,
            detail,
            event,
        });
    }

    fn prepared(&mut self, event: &CorrectedEvent<'_>) {
        let json = event.json.get();
        let is_first = self.results.len() + self.prepared.len() < SHOWN_MAX;
        if self.is_dry_run && is_first && json.len() <= SHOWN_BYTES_MAX {
            let id = event_id(&event.event.request_id, event.event.index);
            self.prepared.insert(id, json.to_owned());
        }
    }
}

/// Id of an event in the API.
pub fn event_id(request_id: &str, index: u32) -> String {
    format!("{request_id}_{index}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    fn event(index: u32) -> RejectedEvent {
        RejectedEvent {
            team_id: 1,
            received_at: 0,
            request_id: "r".to_owned(),
            index,
            code: String::new(),
            attr: String::new(),
            detail: String::new(),
            historical_migration: false,
            resent_at: 0,
        }
    }

    #[test]
    fn a_report_counts_outcomes_and_shows_the_first_events_of_a_dry_run() {
        for is_dry_run in [true, false] {
            let mut collected = Collected::new(is_dry_run);
            assert!(collected.is_empty());
            for index in 0..20 {
                let event = event(index);
                let json = match index {
                    3 => format!("\"{}\"", "x".repeat(SHOWN_BYTES_MAX)),
                    _ => format!("{{\"n\":{index}}}"),
                };
                collected.prepared(&CorrectedEvent {
                    event: &event,
                    json: RawValue::from_string(json).unwrap(),
                });
                let outcome = match index {
                    0 => EventOutcome::Rejected("c: d".to_owned()),
                    1 => EventOutcome::Unsendable("large".to_owned()),
                    2 => EventOutcome::AlreadySent,
                    _ => EventOutcome::Accepted,
                };
                collected.event(&event, outcome);
            }
            let report = collected.report(50, 25, None);
            assert_eq!((report.selected, report.not_tried), (50, 5));
            assert_eq!((report.accepted, report.rejected), (17, 2));
            assert_eq!(report.results[0].detail.as_deref(), Some("c: d"));
            let shown = report.results.iter().filter_map(|it| it.event.clone());
            let shown: Vec<_> = shown.collect();
            let expected = [0, 1, 2, 4, 5, 6, 7, 8, 9].map(|index| format!("{{\"n\":{index}}}"));
            match is_dry_run {
                true => assert_eq!(shown, expected),
                false => assert!(shown.is_empty(), "{shown:?}"),
            }
        }
    }
}
