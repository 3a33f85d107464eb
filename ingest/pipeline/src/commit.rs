//! The thread that owns a lane's log.
//!
//! The thread is a group commit: it takes all that waits, appends it as one frame, syncs once and
//! answers every request. There is no timer, so an idle server adds no latency; while one sync
//! runs, the next group gathers by itself.
//!
//! A failed append or sync is never retried, as the second sync may report success for pages that
//! were dropped: nothing of the group is acknowledged, the lane takes nothing more, and
//! [`crate::Pipeline::failed`] tells the process to end. What is on disk is decided by recovery.

use crate::Refusal;
use crate::commit_group::{CommitGroup, PendingCommit, Submission};
use crate::import_count::ImportReservation;
use crate::join::Joiner;
use crate::threads::{AtomicBool, Builder, JoinHandle, Receiver, Sender};
use metrics::{Counter, Histogram, counter, histogram};
use millrace_log::fail_point::{FailPoint, pass};
use millrace_log::panic_point::{self, PanicPoint};
use millrace_log::{AppendError, Log, Position};
use millrace_rows::Lane;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tokio::sync::watch;

/// Rows gathered into one group; a group ends with the batch that passes it. It bounds the time
/// that the first of a group waits, and keeps a section below what one insert may hold.
const GROUP_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of requests that keep the thread busy: one group being synced, and the next one being
/// gathered. Compressed they are a quarter of that, which disks write almost as fast as more;
/// anything beyond only waits, first in, first out, without fairness between projects.
pub const BUSY_BYTES: usize = 8 * 1024 * 1024;

/// Percent of both logs' capacity from which on a log whose rows are all shipped gives up the
/// segment that it writes to, which one large frame can make as large as that. Requests are refused
/// before appends are, so no append would release it; twice as much refuses no request.
const SHIPPED_PERCENT_MAX: u64 = 40;

/// State that a lane's commit thread works on.
pub struct CommitLane {
    pub id: Lane,
    pub log: Log,
    pub receiver: Receiver<Submission>,
    pub stop: Sender<Submission>,
    pub synced: watch::Sender<Position>,
    pub failed: Arc<AtomicBool>,
    /// Set when the thread has ended as ordered, with an answer to all that came before.
    pub ended_well: Arc<AtomicBool>,
    /// Set while the last group did not fit into the log or onto the disk.
    pub is_log_full: Arc<AtomicBool>,
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
pub fn start(lane: CommitLane) -> std::io::Result<CommitThread> {
    let stop = lane.stop.clone();
    let name = format!("commit-{}", lane.id.name());
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
    lane: CommitLane,
    joiner: Joiner,
    requests_committed: Counter,
    bytes_committed: Counter,
    group_requests: Histogram,
    sync_seconds: Histogram,
    /// True while groups do not fit: logged once, not for every group.
    is_full: bool,
}

impl Committer {
    fn new(lane: CommitLane) -> Self {
        let name = lane.id.name();
        // A counter that appears with its first count does not increase.
        counter!("millrace_log_rows_lost_total", "lane" => name).increment(0);
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
        let mut group = CommitGroup::default();
        while let Ok(first) = self.lane.receiver.recv() {
            let mut go_on = group.take(first);
            while go_on && group.bytes < GROUP_BYTES_MAX {
                let Ok(next) = self.lane.receiver.try_recv() else {
                    break;
                };
                go_on = group.take(next);
            }
            self.commit(&mut group);
            self.answer_flush_barriers(&mut group);
            if !go_on {
                // Before the receiver is dropped, and with it what came after the order to stop.
                self.lane.ended_well.store(true, Ordering::Release);
                return;
            }
        }
    }

    fn commit(&mut self, group: &mut CommitGroup) {
        if group.batches.is_empty() {
            return;
        }
        panic_point::pass(PanicPoint::GroupTaken);
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
            // Before any answer: every acknowledged event is counted.
            let reservations = group.reservations.drain(..);
            reservations.for_each(ImportReservation::count);
            pass(FailPoint::GroupSynced);
            self.lane.synced.send_replace(position);
        }
        if let Err(refusal) = outcome {
            self.tell_lost(group.answered_rows(), refusal);
        }
        // The reservations of a group that was not stored are refunded.
        group.reservations.clear();
        group.bytes = 0;
        for batch in group.batches.drain(..) {
            let PendingCommit {
                groups,
                reply,
                unwritten,
            } = batch;
            // A client that went away does not change what is stored.
            let _ = reply.send(outcome.map(|position| (position, groups)));
            // Unwritten rows of a failed group are counted as lost when they are dropped.
            if let (Ok(_), Some(rows)) = (outcome, unwritten) {
                rows.settle();
            }
            pass(FailPoint::RequestAnswered);
        }
    }

    /// Logs that rows were acknowledged before they were written, and then were not written.
    fn tell_lost(&self, rows: u64, refusal: Refusal) {
        if rows > 0 {
            tracing::error!(
                lane = self.lane.id.name(),
                rows,
                "rows that were acknowledged (ack = memory) are lost: {refusal}"
            );
        }
    }

    /// Answers the group's flush barriers with the end of the log. After a failure nobody is
    /// answered: the end of the log is unknown then.
    fn answer_flush_barriers(&mut self, group: &mut CommitGroup) {
        if !group.flush_barriers.is_empty() && !self.lane.failed.load(Ordering::Acquire) {
            self.release_shipped_segment();
        }
        for reply in group.flush_barriers.drain(..) {
            if !self.lane.failed.load(Ordering::Acquire) {
                // The caller may have gone.
                let _ = reply.send(self.lane.log.handle().synced());
            }
        }
    }

    /// Gives up the segment in use if everything in it is shipped and the logs are filling. Flush
    /// barriers come every second, so they are a good moment for it.
    fn release_shipped_segment(&mut self) {
        let usage = self.lane.log.handle().usage();
        let percent = usage.bytes_used.saturating_mul(100) / usage.bytes_max.max(1);
        if percent < SHIPPED_PERCENT_MAX {
            return;
        }
        match self.lane.log.roll_if_released() {
            // The disk is full of other files: the next barrier tries again.
            Ok(()) | Err(AppendError::DiskFull { .. }) => {}
            Err(error) => {
                let _ = self.fail(&error);
            }
        }
    }

    fn store(&mut self, group: &CommitGroup) -> Result<Position, Refusal> {
        let groups = group.batches.iter().flat_map(|batch| &batch.groups);
        let sections = self.joiner.sections(groups);
        if sections.is_empty() {
            return Ok(self.lane.log.handle().synced());
        }
        match self.lane.log.append(&sections) {
            Ok(_) => {}
            // Nothing was written: the log is unchanged.
            Err(
                error @ (AppendError::Full { .. }
                | AppendError::DiskFull { .. }
                | AppendError::NoReserve { .. }),
            ) => {
                if !self.is_full {
                    let lane = self.lane.id.name();
                    tracing::warn!(
                        lane,
                        "refusing requests until there is space again: {error}"
                    );
                }
                self.is_full = true;
                self.lane.is_log_full.store(true, Ordering::Release);
                return Err(match error {
                    AppendError::Full { .. } => Refusal::LogFull,
                    _ => Refusal::DiskFull,
                });
            }
            Err(error) => return Err(self.fail(&error)),
        }
        if std::mem::take(&mut self.is_full) {
            self.lane.is_log_full.store(false, Ordering::Release);
            tracing::info!(lane = self.lane.id.name(), "there is space again");
        }
        let started = Instant::now();
        let position = self.lane.log.sync().map_err(|error| self.fail(&error))?;
        self.sync_seconds.record(started.elapsed());
        Ok(position)
    }

    fn fail(&self, error: &dyn std::error::Error) -> Refusal {
        self.lane.failed.store(true, Ordering::Release);
        let reason = format!("the {} log failed: {error}", self.lane.id.name());
        tracing::error!("{reason}");
        self.lane.failure.send_replace(Some(reason));
        Refusal::LogFailed
    }
}
