//! The loop of a lane: read, plan, store the checkpoint, send, release.

mod open;
mod read;
mod send;

#[cfg(test)]
mod tests;

use super::attempt::{Context, Verdict};
use super::options::ShipOptions;
use super::pace::Pace;
use super::plan::{Now, Plan, UnitId};
use super::retries::Troubled;
use super::sink::Sink;
use crate::LaneOutput;
use crate::retention::Retention;
use metrics::Gauge;
use millrace_log::{FrameSection, Position, Reader};
use millrace_rows::{Clock, Micros, Month};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use uuid::Uuid;

/// Months count as recent until they have been over for so long.
const RECENT_MICROS: i64 = 30 * 86_400 * 1_000_000;
/// From one look at the log to the next: groups are committed hundreds of times a second, and to be woken
/// for each cost more than sending its rows. What comes first after a rest is read at once.
const READ_EVERY: Duration = Duration::from_millis(50);
/// Pause after a failure of the disk.
const PAUSE: Duration = Duration::from_millis(500);

/// Why a shipper ended before it was told to.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// The checkpoint cannot be loaded: without it rows would be sent twice.
    #[error("the shipper cannot start: {0}")]
    Checkpoint(String),
    /// The log is poisoned; the process must restart.
    #[error("the shipper stopped: {0}")]
    Log(String),
    /// A task panicked, so that what it had would never be settled; the process must restart.
    #[error("the shipper stopped, as one of its tasks failed: {0}")]
    Task(String),
}

/// Ships a lane until `shutdown`, then what is left for as long as that says. To be called on a
/// tokio runtime with time and I/O.
///
/// # Errors
/// If the checkpoint cannot be loaded or the log stops for good. ClickHouse being away is not an
/// error: the log grows until it is back.
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
    context: Arc<Context<K>>,
    plan: Plan<FrameSection>,
    clock: Arc<dyn Clock>,
    started: Instant,
    synced: watch::Receiver<Position>,
    shipped: watch::Sender<Position>,
    /// What the last checkpoint that was stored has as settled: that of a full disk is tried again.
    stored_low: Position,
    retention: Arc<Retention>,
    reader: Option<Reader>,
    /// Up to where the log was read to its end; `None` if there may be more.
    has_read: Option<Position>,
    /// New frames are not looked for before.
    read_not_before: Instant,
    /// The server's run as last seen; asked again after every failure.
    run: Option<Uuid>,
    tasks: JoinSet<Event>,
    /// Who of them is in trouble.
    troubled: mpsc::Receiver<Troubled>,
    is_asking: bool,
    is_draining: bool,
    is_log_ended: bool,
    /// Of questions that were not answered.
    pace: Pace,
    /// Nothing is read or stored before.
    not_before: Instant,
    /// The server is not asked for its run before.
    ask_not_before: Instant,
    targets: HashSet<Arc<str>>,
    oldest: Gauge,
}

/// What a task of the lane reports.
enum Event {
    Unit(UnitId, Verdict),
    /// The server's run, or the pause until it is asked again.
    Run(Result<Uuid, Duration>),
}

/// When the loop goes on.
struct Wake {
    at: Option<Instant>,
    /// Whether new frames are a reason.
    on_frames: bool,
}

// === impl Shipper ===

impl<K: Sink> Shipper<K> {
    async fn run(mut self, shutdown: impl Future<Output = Duration>) -> Result<(), ShipError> {
        let mut shutdown = std::pin::pin!(shutdown);
        let mut deadline = None;
        loop {
            let is_more = self.turn().await?;
            let is_over = deadline.is_some_and(|at| Instant::now() >= at);
            if self.is_draining && (is_over || (!is_more && self.plan.is_idle())) {
                break;
            }
            if is_more {
                continue;
            }
            let wake = self.wake();
            tokio::select! {
                grace = &mut shutdown, if !self.is_draining => {
                    self.is_draining = true;
                    deadline = Some(Instant::now() + grace);
                }
                Some(event) = self.tasks.join_next() => self.take(event)?,
                Some(it) = self.troubled.recv() => self.plan.troubled(it.id, it.is_away),
                changed = self.synced.changed(), if wake.on_frames => {
                    // The commit thread has ended: what it left is all there will be.
                    self.is_log_ended = changed.is_err();
                }
                () = until(wake.at) => {}
                () = until(deadline) => {}
            }
        }
        // What is under way stays in the checkpoint and is asked about after the next start.
        self.tasks.shutdown().await;
        self.remember().await?;
        Ok(())
    }

    /// Everything that can be done now. True when there is more to read.
    async fn turn(&mut self) -> Result<bool, ShipError> {
        while let Some(event) = self.tasks.try_join_next() {
            self.take(event)?;
        }
        while let Ok(it) = self.troubled.try_recv() {
            self.plan.troubled(it.id, it.is_away);
        }
        if Instant::now() < self.not_before {
            return Ok(false);
        }
        let is_more = if self.is_draining || Instant::now() >= self.read_not_before {
            self.read().await
        } else {
            false
        };
        self.send().await?;
        self.publish();
        Ok(is_more)
    }

    /// What the next turn waits for, other than a task's report.
    fn wake(&self) -> Wake {
        let now = Instant::now();
        if now < self.not_before {
            return Wake {
                at: Some(self.not_before),
                on_frames: false,
            };
        }
        let due = self
            .plan
            .next_due(self.recent())
            .map(|due| self.started + due);
        // What is due already waits for the server to answer, or for a place, hence for a report.
        let at = if self.plan.can_launch(self.now()) {
            (!self.is_asking).then_some(self.ask_not_before.max(now))
        } else {
            due.filter(|due| *due > now)
        };
        let reads = self.plan.has_room() && !self.is_log_ended;
        let rests = !self.is_draining && now < self.read_not_before;
        // Frames that came meanwhile are read when the rest is over.
        let next_read = (reads && rests).then_some(self.read_not_before);
        Wake {
            at: at.into_iter().chain(next_read).min(),
            on_frames: reads && !rests,
        }
    }

    fn take(&mut self, event: Result<Event, JoinError>) -> Result<(), ShipError> {
        match event {
            Ok(Event::Unit(id, verdict)) => self.judge(id, verdict),
            Ok(Event::Run(run)) => {
                self.is_asking = false;
                self.run = run.ok();
                match run {
                    Ok(_) => self.pace = Pace::new(),
                    Err(pause) => self.ask_not_before = Instant::now() + pause,
                }
            }
            // A task is never cancelled while the loop runs, so it panicked: its unit stays in the
            // checkpoint, and is asked about after the restart.
            Err(error) => return Err(ShipError::Task(error.to_string())),
        }
        Ok(())
    }

    fn judge(&mut self, id: UnitId, verdict: Verdict) {
        match verdict {
            Verdict::Settled => self.plan.settled(id),
            Verdict::Absent => {
                self.run = None;
                self.plan.absent(id);
            }
            Verdict::Restarted => {
                self.run = None;
                self.plan.restarted(id);
            }
            Verdict::Refused => {
                if !self.plan.refused(id) {
                    self.plan.absent(id);
                }
            }
            Verdict::Parted => {
                if !self.plan.parted(id) {
                    self.plan.absent(id);
                }
            }
            Verdict::Unproven { can_halve } => {
                let now = self.started.elapsed();
                if let Some((unit, standing)) = self.plan.take_apart(id, can_halve, now) {
                    self.carry_out(id, unit, standing);
                }
            }
        }
    }

    fn now(&self) -> Now {
        Now {
            elapsed: self.started.elapsed(),
            recent: self.recent(),
            is_draining: self.is_draining,
        }
    }

    fn recent(&self) -> Month {
        Month::of(self.clock.now().plus_micros(-RECENT_MICROS))
    }

    /// Tells what is settled, once a stored checkpoint says so: no later start goes back behind it.
    fn publish(&self) {
        let low = self.stored_low;
        self.shipped.send_if_modified(|shipped| {
            let is_forward = *shipped < low;
            if is_forward {
                *shipped = low;
            }
            is_forward
        });
        let now = self.clock.now();
        let Micros(oldest) = self.plan.oldest_received().unwrap_or(now);
        self.oldest.set((now.0 - oldest).max(0) as f64 / 1e6);
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
