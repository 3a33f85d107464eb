//! The thread that owns a lane's log.
//!
//! It keeps its own pace: take all that waits, append it as one frame, sync once, answer
//! everyone. There is no timer, so an idle server adds no latency; while one sync runs, the next
//! group gathers by itself.
//!
//! A failed append or sync is never retried, as the second sync may report success for pages that
//! were dropped: nothing of the group is acknowledged, the lane takes nothing more, and
//! [`crate::Pipeline::failed`] tells the process to end. What is on disk is decided by recovery.

use crate::Refusal;
use crate::group::{Group, Submission};
use crate::join::Joiner;
use crate::tally::SharedTally;
use crate::threads::{AtomicBool, Builder, JoinHandle, Receiver, Sender};
use metrics::{Counter, Histogram, counter, histogram};
use millrace_log::fail_point::{FailPoint, pass};
use millrace_log::{AppendError, Log, Position};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio::sync::watch;

/// Rows gathered into one group; a group ends with the batch that passes it. It bounds the time
/// that the first of a group waits, and keeps a section below what one insert may hold.
const GROUP_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of requests that keep the thread busy: one group that it syncs, and another one that gathers
/// meanwhile. They are a quarter of it once compressed, which disks take at almost the speed of more; all
/// that is beyond only waits, in the order it came and not by turns.
pub const BUSY_BYTES: usize = 8 * 1024 * 1024;

/// Percent of the room of both logs from which on a log whose rows are all shipped gives back the
/// segment that it writes to, which one large frame can make as large as that. Requests are refused
/// before appends are, so no append would do it; and twice as much refuses none.
const SHIPPED_PERCENT_MAX: u64 = 40;

/// What the thread works with.
pub struct Lane {
    pub lane: millrace_rows::Lane,
    pub log: Log,
    pub receiver: Receiver<Submission>,
    pub stop: Sender<Submission>,
    pub synced: watch::Sender<Position>,
    pub tally: SharedTally,
    pub failed: Arc<AtomicBool>,
    /// Whether the thread has ended as it was told to, with an answer to all that came before.
    pub ended_well: Arc<AtomicBool>,
    /// Whether the last group found no room.
    pub has_no_room: Arc<AtomicBool>,
    pub failure: Arc<watch::Sender<Option<String>>>,
}

/// A running commit thread.
pub struct CommitThread {
    stop: Sender<Submission>,
    thread: JoinHandle<()>,
}

impl CommitThread {
    /// Commits what was submitted before the call and ends the thread. Blocks.
    pub fn stop(self) {
        // The send fails only when the thread has ended by itself.
        let _ = self.stop.send(Submission::Stop);
        if self.thread.join().is_err() {
            tracing::error!("the commit thread panicked");
        }
    }
}

/// Starts the thread of a lane.
///
/// # Errors
/// When the system has no thread left.
pub fn start(lane: Lane) -> std::io::Result<CommitThread> {
    let stop = lane.stop.clone();
    let name = format!("commit-{}", lane.lane.name());
    let (failed, failure) = (Arc::clone(&lane.failed), Arc::clone(&lane.failure));
    let run = move || {
        let committer = AssertUnwindSafe(|| Committer::new(lane).run());
        if catch_unwind(committer).is_err() {
            // Without its thread a lane takes requests that nobody will ever commit.
            failed.store(true, Ordering::Release);
            failure.send_replace(Some("the commit thread panicked".to_owned()));
        }
    };
    let thread = Builder::new().name(name).spawn(run)?;
    Ok(CommitThread { stop, thread })
}

struct Committer {
    lane: Lane,
    joiner: Joiner,
    requests_committed: Counter,
    bytes_committed: Counter,
    group_requests: Histogram,
    sync_seconds: Histogram,
    /// Whether the last group found no room: said once, not for every group.
    is_full: bool,
}

impl Committer {
    fn new(lane: Lane) -> Self {
        let name = lane.lane.name();
        Self {
            joiner: Joiner::default(),
            requests_committed: counter!("millrace_log_requests_total", "lane" => name),
            bytes_committed: counter!("millrace_log_row_bytes_total", "lane" => name),
            group_requests: histogram!("millrace_log_group_requests", "lane" => name),
            sync_seconds: histogram!("millrace_log_sync_seconds", "lane" => name),
            is_full: false,
            lane,
        }
    }

    fn run(mut self) {
        let mut group = Group::default();
        while let Ok(first) = self.lane.receiver.recv() {
            let mut go_on = group.take(first);
            while go_on && group.bytes < GROUP_BYTES_MAX {
                let Ok(next) = self.lane.receiver.try_recv() else {
                    break;
                };
                go_on = group.take(next);
            }
            self.commit(&mut group);
            self.answer_marks(&mut group);
            if !go_on {
                // Before the receiver goes, with what came behind the order.
                self.lane.ended_well.store(true, Ordering::Release);
                return;
            }
        }
    }

    fn commit(&mut self, group: &mut Group) {
        if group.batches.is_empty() {
            return;
        }
        let outcome = if self.lane.failed.load(Ordering::Acquire) {
            Err(Refusal::LogFailed)
        } else {
            self.store(group)
        };
        if let Ok(position) = outcome {
            self.requests_committed
                .increment(group.batches.len() as u64);
            self.bytes_committed.increment(group.bytes);
            self.group_requests.record(group.batches.len() as f64);
            if self.lane.lane == millrace_rows::Lane::Historical {
                // Before anyone is answered: what was acknowledged is counted.
                let admissions = group.admissions.drain(..);
                self.lane.tally.count(position, admissions);
            }
            pass(FailPoint::GroupSynced);
            self.lane.synced.send_replace(position);
        }
        if let Err(refusal) = outcome {
            self.tell_lost(group.answered_rows(), refusal);
        }
        // Those of a group that was not stored go back.
        group.admissions.clear();
        group.bytes = 0;
        for batch in group.batches.drain(..) {
            // A client that went away does not change what is stored.
            let _ = batch
                .reply
                .send(outcome.map(|position| (position, batch.groups)));
            pass(FailPoint::RequestAnswered);
        }
    }

    /// Rows that were acknowledged before they were written, and are not.
    fn tell_lost(&self, rows: u64, refusal: Refusal) {
        if rows > 0 {
            let lane = self.lane.lane.name();
            counter!("millrace_log_rows_lost_total", "lane" => lane).increment(rows);
            tracing::error!(
                lane,
                rows,
                "rows that were acknowledged (ack = memory) are lost: {refusal}"
            );
        }
    }

    /// Nothing is said once the lane has failed: where its log ends is not known then.
    fn answer_marks(&mut self, group: &mut Group) {
        if !group.marks.is_empty() && !self.lane.failed.load(Ordering::Acquire) {
            self.leave_shipped();
        }
        for reply in group.marks.drain(..) {
            if !self.lane.failed.load(Ordering::Acquire) {
                // Whoever asked may have ended.
                let _ = reply.send(self.lane.log.handle().synced());
            }
        }
    }

    /// Marks come every second, so this is a good moment.
    fn leave_shipped(&mut self) {
        let usage = self.lane.log.handle().usage();
        let percent = usage.bytes_used.saturating_mul(100) / usage.bytes_max.max(1);
        if percent < SHIPPED_PERCENT_MAX {
            return;
        }
        match self.lane.log.leave_released() {
            // A disk that others filled: the next mark tries again.
            Ok(()) | Err(AppendError::NoRoom { .. }) => {}
            Err(error) => {
                let _ = self.fail(&error);
            }
        }
    }

    fn store(&mut self, group: &Group) -> Result<Position, Refusal> {
        let groups = group.batches.iter().flat_map(|batch| &batch.groups);
        let sections = self.joiner.sections(groups);
        if sections.is_empty() {
            return Ok(self.lane.log.handle().synced());
        }
        match self.lane.log.append(&sections) {
            Ok(_) => {}
            // Nothing was written: the log is as good as before.
            Err(
                error @ (AppendError::Full { .. }
                | AppendError::NoRoom { .. }
                | AppendError::NoReserve { .. }),
            ) => {
                if !self.is_full {
                    let lane = self.lane.lane.name();
                    tracing::warn!(lane, "refusing requests until there is room again: {error}");
                }
                self.is_full = true;
                self.lane.has_no_room.store(true, Ordering::Release);
                return Err(match error {
                    AppendError::Full { .. } => Refusal::LogFull,
                    _ => Refusal::DiskFull,
                });
            }
            Err(error) => return Err(self.fail(&error)),
        }
        if std::mem::take(&mut self.is_full) {
            self.lane.has_no_room.store(false, Ordering::Release);
            tracing::info!(lane = self.lane.lane.name(), "there is room again");
        }
        let started = Instant::now();
        let position = self.lane.log.sync().map_err(|error| self.fail(&error))?;
        self.sync_seconds.record(started.elapsed());
        Ok(position)
    }

    fn fail(&self, error: &dyn std::error::Error) -> Refusal {
        self.lane.failed.store(true, Ordering::Release);
        let reason = format!("the {} log failed: {error}", self.lane.lane.name());
        tracing::error!("{reason}");
        self.lane.failure.send_replace(Some(reason));
        Refusal::LogFailed
    }
}
