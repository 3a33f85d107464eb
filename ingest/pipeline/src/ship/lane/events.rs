//! Reports of the tasks of a lane, and what the plan makes of them.

use super::state::BootId;
use super::{Event, ShipError, Shipper};
use crate::ship::backoff::RetryBackoff;
use crate::ship::insert_result::InsertResult;
use crate::ship::plan::BatchId;
use crate::ship::retries::FailureReport;
use crate::ship::sink::Sink;
use tokio::task::JoinError;
use tokio::time::Instant;

impl<K: Sink> Shipper<K> {
    /// Takes in the report of a task that has ended.
    pub(super) fn take(&mut self, event: Result<Event, JoinError>) -> Result<(), ShipError> {
        match event {
            Ok(Event::Batch(id, result)) => self.apply_result(id, &result),
            Ok(Event::BootId(Ok(boot_id))) => {
                self.boot_id = BootId::Known(boot_id);
                self.backoff = RetryBackoff::new();
            }
            Ok(Event::BootId(Err(pause))) => {
                let ask_not_before = Instant::now() + pause;
                self.boot_id = BootId::Unknown { ask_not_before };
            }
            // A task is never cancelled while the loop runs, so it panicked: its batch stays in the
            // checkpoint, and is looked up after the restart.
            Err(error) => return Err(self.panicked(&error)),
        }
        Ok(())
    }

    /// Takes in the report of a batch that fails.
    pub(super) fn take_report(&mut self, report: FailureReport) {
        match report.is_parked {
            true => self.plan.mark_parked(report.id, report.is_unreachable),
            false => self.plan.mark_failing(report.id, report.is_unreachable),
        }
    }

    /// Error of a task that panicked. It was one of those under way, whose frames are named for who
    /// has to move a segment away.
    fn panicked(&self, error: &JoinError) -> ShipError {
        let under_way = self.plan.frames_in_flight();
        let under_way: Vec<_> = under_way
            .map(|(first, last)| format!("{first} to {last}"))
            .collect();
        ShipError::Task(format!(
            "the {} log: {error}; the inserts under way have the frames {}",
            self.context.lane,
            under_way.join(", ")
        ))
    }

    fn apply_result(&mut self, id: BatchId, result: &InsertResult) {
        match result {
            InsertResult::Stored | InsertResult::DeadLettered | InsertResult::Unknowable(_) => {
                self.plan.settled(id);
            }
            InsertResult::Absent => {
                self.boot_id.forget();
                self.plan.absent(id);
            }
            InsertResult::InDoubt => self.plan.doubted(id),
            InsertResult::Incomplete => {
                self.boot_id.forget();
                self.plan.incomplete(id);
            }
            InsertResult::Restarted => {
                self.boot_id.forget();
                self.plan.restarted(id);
            }
            InsertResult::Refused(_) => {
                if !self.plan.refused(id) {
                    self.plan.absent(id);
                }
            }
            InsertResult::Lost(_) => {
                if !self.plan.lost(id) {
                    self.plan.absent(id);
                }
            }
            InsertResult::Parted => {
                if !self.plan.parted(id) {
                    self.plan.absent(id);
                }
            }
            InsertResult::Unproven { can_halve, .. } => {
                let now = self.started.elapsed();
                if let Some((batch, stage)) = self.plan.take_apart(id, *can_halve, now) {
                    self.execute(id, batch, stage);
                }
            }
        }
    }
}
