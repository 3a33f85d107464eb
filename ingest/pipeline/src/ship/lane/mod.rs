//! The loop of a lane: read, plan, persist the checkpoint, send, release.

mod events;
mod open;
mod read;
mod send;
mod state;

#[cfg(test)]
mod tests;

use super::backoff::RetryBackoff;
use super::execute::InsertContext;
use super::insert_result::InsertResult;
use super::options::ShipOptions;
use super::plan::{BatchId, Now, Plan};
use super::retries::FailureReport;
use super::sink::Sink;
use crate::LaneOutput;
use metrics::Gauge;
use millrace_log::{FrameSection, Position, Reader};
use millrace_rows::{Clock, Micros, Month, Table};
use state::{BootId, Phase, Reading, UnshippedRows};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

/// Time after its end for which a month counts as recent.
const RECENT_MICROS: i64 = 30 * 86_400 * 1_000_000;
/// Interval between two reads of the log: groups are committed hundreds of times a second, and
/// waking up for each cost more than sending its rows. The first frame after a rest is read at
/// once.
const READ_EVERY: Duration = Duration::from_millis(50);
/// Pause after a failure of the disk.
const PAUSE: Duration = Duration::from_millis(500);

/// Reason why a shipper ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// The checkpoint cannot be loaded: without it rows would be sent twice.
    #[error("the shipper cannot start: {0}")]
    Checkpoint(String),
    /// The log is poisoned; the process must restart.
    #[error("the shipper stopped: {0}")]
    Log(String),
    /// A task panicked, so its batch would never be settled, or a read did, so that no other would
    /// be; the process must restart.
    #[error("the shipper stopped, as one of its tasks failed: {0}")]
    Task(String),
}

/// Ships a lane until `shutdown`, then the rest for as long as the returned grace period. To be
/// called on a tokio runtime with time and I/O.
///
/// # Errors
/// If the checkpoint cannot be loaded or the log stops for good. An unreachable ClickHouse is not
/// an error: the log grows until it is back.
pub async fn run(
    options: ShipOptions,
    output: LaneOutput,
    clickhouse: millrace_clickhouse::ClickHouse,
    clock: Arc<dyn Clock>,
    shutdown: impl Future<Output = Duration>,
) -> Result<(), ShipError> {
    let shipper = Shipper::open(options, output, clickhouse, clock).await?;
    shipper.run(shutdown).await
}

struct Shipper<K> {
    context: Arc<InsertContext<K>>,
    plan: Plan<FrameSection>,
    clock: Arc<dyn Clock>,
    started: Instant,
    synced: watch::Receiver<Position>,
    shipped: watch::Sender<Position>,
    updates_shipped: watch::Sender<Position>,
    updates_wanted: watch::Receiver<Position>,
    /// Position below which the last stored checkpoint has everything settled: on a full disk
    /// storing is tried again.
    stored_low: Position,
    reader: Option<Reader>,
    phase: Phase,
    reading: Reading,
    unshipped: UnshippedRows,
    boot_id: BootId,
    tasks: JoinSet<Event>,
    /// Reports of failing batches.
    failing: mpsc::Receiver<FailureReport>,
    /// Backoff of queries that were not answered.
    backoff: RetryBackoff,
    /// Time before which nothing is read or stored, after a failure of the disk.
    paused_until: Instant,
    targets: HashSet<Arc<str>>,
    oldest: Gauge,
}

/// Report of a task of the lane.
enum Event {
    Batch(BatchId, InsertResult),
    /// Boot id of the server, or the pause until it is asked again.
    BootId(Result<Uuid, Duration>),
}

/// Events that wake the loop.
struct Wake {
    at: Option<Instant>,
    /// True if new frames wake it.
    on_frames: bool,
}

// === impl Shipper ===

impl<K: Sink> Shipper<K> {
    async fn run(mut self, shutdown: impl Future<Output = Duration>) -> Result<(), ShipError> {
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let is_more = self.tick().await?;
            let deadline = self.phase.deadline();
            let is_over = deadline.is_some_and(|at| Instant::now() >= at);
            if self.phase.is_draining() && (is_over || (!is_more && self.plan.is_idle())) {
                break;
            }
            if is_more {
                continue;
            }
            let wake = self.wake();
            tokio::select! {
                grace = &mut shutdown, if !self.phase.is_draining() => {
                    let deadline = Instant::now() + grace;
                    self.phase = Phase::Draining { deadline };
                }
                Some(event) = self.tasks.join_next() => self.take(event)?,
                Some(report) = self.failing.recv() => self.take_report(report),
                changed = self.synced.changed(), if wake.on_frames => {
                    // The commit thread has ended: no more frames will come.
                    if changed.is_err() {
                        let synced = *self.synced.borrow();
                        self.reading.log_ended(synced);
                    }
                }
                // An error says that nobody is left who could want any.
                Ok(()) = self.updates_wanted.changed() => {}
                () = until(wake.at) => {}
                () = until(deadline) => {}
            }
        }
        // Batches in flight stay in the checkpoint and are looked up after the next start.
        self.tasks.shutdown().await;
        self.persist_checkpoint().await?;
        Ok(())
    }

    /// Does everything that can be done now. True when there is more to read.
    async fn tick(&mut self) -> Result<bool, ShipError> {
        while let Some(event) = self.tasks.try_join_next() {
            self.take(event)?;
        }
        while let Ok(report) = self.failing.try_recv() {
            self.take_report(report);
        }
        if Instant::now() < self.paused_until {
            return Ok(false);
        }
        let is_more = self.rests_until(Instant::now()).is_none() && self.read().await?;
        if let Some(rows @ 1..) = self.unshipped.once_read(self.plan.read_to()) {
            let lane = self.context.lane;
            tracing::info!(
                lane,
                rows,
                "not known to be shipped of what was found in the log; what ClickHouse lacks is sent"
            );
        }
        let wanted = *self.updates_wanted.borrow_and_update();
        self.plan.want_updates(wanted);
        self.send().await?;
        self.publish();
        Ok(is_more)
    }

    /// Returns the events, other than a task's report, that the next tick waits for.
    fn wake(&self) -> Wake {
        let now = Instant::now();
        if now < self.paused_until {
            return Wake {
                at: Some(self.paused_until),
                on_frames: false,
            };
        }
        let due = self
            .plan
            .next_due(self.recent())
            .map(|due| self.started + due);
        // A batch that is due already waits for the server to answer, or for a permit, hence for a
        // report.
        let at = if self.plan.can_launch(self.now()) {
            self.boot_id.next_step(now)
        } else {
            due.filter(|due| *due > now)
        };
        let reads = self.plan.has_capacity() && !matches!(self.reading, Reading::Over);
        // Frames that came meanwhile are read when the rest is over.
        let next_read = self.rests_until(now).filter(|_| reads);
        Wake {
            at: at.into_iter().chain(next_read).min(),
            on_frames: reads && next_read.is_none(),
        }
    }

    /// Time before which new frames are not looked for, if it is yet to come. A shipper that drains
    /// does not rest.
    fn rests_until(&self, now: Instant) -> Option<Instant> {
        let rest = self.reading.rests_until(now);
        rest.filter(|_| !self.phase.is_draining())
    }

    fn now(&self) -> Now {
        Now {
            elapsed: self.started.elapsed(),
            recent: self.recent(),
            is_draining: self.phase.is_draining(),
        }
    }

    fn recent(&self) -> Month {
        Month::of(self.clock.now().plus_micros(-RECENT_MICROS))
    }

    /// Publishes the settled position, once a stored checkpoint has it: no later start goes back
    /// behind it. That of person updates is published at once, as a checkpoint for it would cost a
    /// sync: a later start may look their rows up once more, and finds them.
    fn publish(&self) {
        raise(
            &self.updates_shipped,
            self.plan.low_of(Table::PersonUpdates),
        );
        raise(&self.shipped, self.stored_low);
        let now = self.clock.now();
        let Micros(oldest) = self.plan.oldest_received().unwrap_or(now);
        self.oldest.set((now.0 - oldest).max(0) as f64 / 1e6);
    }
}

/// Publishes a position if it is behind the last one.
fn raise(published: &watch::Sender<Position>, to: Position) {
    published.send_if_modified(|position| {
        let is_forward = *position < to;
        if is_forward {
            *position = to;
        }
        is_forward
    });
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
