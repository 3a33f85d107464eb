//! Traces whose rows are on their way to ClickHouse; no I/O.

use millrace_ingest::trace::{RequestTrace, dropped};
use millrace_pipeline::Position;
use millrace_rows::{Lane, Micros};
use std::time::Duration;

/// Traces that wait for their rows, at most; one more ends the oldest.
const UNSTORED_MAX: usize = 1_024;
/// Traces that wait for the next batch, at most; more are dropped.
const FINISHED_MAX: usize = 4_096;
/// Longest wait for rows to be stored, in microseconds; then the trace ends without that.
const STORE_MICROS_MAX: i64 = 60_000_000;

/// Trace that is complete.
#[derive(Clone, Debug)]
pub struct FinishedTrace {
    pub trace: RequestTrace,
    /// Time from the head to the moment at which the rows were in ClickHouse; `None` if that is not
    /// known.
    pub stored_after: Option<Duration>,
}

/// Traces that wait for their rows, and those that are complete.
#[derive(Debug, Default)]
pub struct WaitingTraces {
    /// Traces in the order in which they came.
    unstored: Vec<RequestTrace>,
    finished: Vec<FinishedTrace>,
}

impl WaitingTraces {
    /// Adds the trace of a request that was answered.
    pub fn add(&mut self, trace: RequestTrace) {
        if trace.logged.is_none() {
            return self.finish(trace, None);
        }
        if self.unstored.len() >= UNSTORED_MAX {
            let oldest = self.unstored.remove(0);
            self.finish(oldest, None);
        }
        self.unstored.push(trace);
    }

    /// Ends the traces whose rows are stored by now, and those that have waited too long.
    pub fn settle(&mut self, shipped: impl Fn(Lane) -> Position, now: Micros) {
        for trace in std::mem::take(&mut self.unstored) {
            let age = now.0.saturating_sub(trace.received_at.0).max(0);
            let is_stored = trace
                .logged
                .is_none_or(|rows| shipped(rows.lane) >= rows.position);
            if is_stored {
                let age = Duration::from_micros(age.unsigned_abs());
                self.finish(trace, Some(age));
            } else if age > STORE_MICROS_MAX {
                self.finish(trace, None);
            } else {
                self.unstored.push(trace);
            }
        }
    }

    /// Takes the traces that are complete.
    pub fn take_finished(&mut self) -> Vec<FinishedTrace> {
        std::mem::take(&mut self.finished)
    }

    fn finish(&mut self, trace: RequestTrace, stored_after: Option<Duration>) {
        if self.finished.len() < FINISHED_MAX {
            self.finished.push(FinishedTrace {
                trace,
                stored_after,
            });
        } else {
            dropped(1);
        }
    }
}

#[cfg(test)]
pub mod testing {
    use super::*;
    use millrace_ingest::trace::{LoggedRows, TracedStage};
    use millrace_rows::ProjectId;
    use uuid::Uuid;

    /// Trace of a request of 5 ms, whose rows end in the second segment of the live log.
    pub fn traced(is_logged: bool) -> RequestTrace {
        let stage = |name, began, took| TracedStage {
            name,
            began: Duration::from_millis(began),
            took: Duration::from_millis(took),
        };
        RequestTrace {
            request_id: Uuid::from_u128(0x0193_0000_0000_7000_8000_0000_0000_0001),
            path: "/batch",
            received_at: Micros(1_000_000),
            took: Duration::from_millis(5),
            status: 200,
            stages: vec![stage("parse", 1, 1), stage("commit", 2, 2)],
            logged: is_logged.then_some(LoggedRows {
                project_id: ProjectId(7),
                events: 3,
                lane: Lane::Live,
                position: at(2),
            }),
        }
    }

    /// Position at the begin of a segment.
    pub fn at(segment: u64) -> Position {
        Position {
            segment,
            ..Position::FIRST
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{at, traced};
    use super::*;

    const SECOND: i64 = 1_000_000;

    /// Times after which the traces that are complete were stored.
    fn ended(waiting: &mut WaitingTraces) -> Vec<Option<Duration>> {
        let finished = waiting.take_finished().into_iter();
        finished.map(|trace| trace.stored_after).collect()
    }

    #[test]
    fn a_trace_ends_once_its_rows_are_stored_or_after_a_minute() {
        let mut waiting = WaitingTraces::default();
        waiting.add(traced(false));
        assert_eq!(ended(&mut waiting), [None], "it has no rows");
        let (other, own) = (at(9), at(2));
        for (live, seconds, expected) in [
            (at(1), 1, vec![]),
            (own, 3, vec![Some(Duration::from_secs(3))]),
            (own, 4, vec![]),
        ] {
            if seconds == 1 {
                waiting.add(traced(true));
            }
            let shipped = |lane| match lane {
                Lane::Live => live,
                Lane::Historical => other,
            };
            waiting.settle(shipped, Micros((1 + seconds) * SECOND));
            assert_eq!(ended(&mut waiting), expected, "{seconds}");
        }
        waiting.add(traced(true));
        waiting.settle(|_| at(1), Micros(61 * SECOND));
        assert_eq!(ended(&mut waiting), []);
        waiting.settle(|_| at(1), Micros(62 * SECOND));
        assert_eq!(ended(&mut waiting), [None]);
    }

    #[test]
    fn both_lists_are_bounded() {
        let mut waiting = WaitingTraces::default();
        for _ in 0..UNSTORED_MAX + FINISHED_MAX + 1 {
            waiting.add(traced(true));
        }
        assert_eq!(waiting.unstored.len(), UNSTORED_MAX);
        assert_eq!(ended(&mut waiting).len(), FINISHED_MAX);
    }
}
