//! The loop of a lane: read, plan, store the checkpoint, send, release.

use super::attempt::{Context, Verdict};
use super::checkpoint::Checkpoint;
use super::deliver::pauses;
use super::options::ShipOptions;
use super::plan::{Now, Plan, UnitId};
use super::poison::PoisonDir;
use super::section::{Key, Place, Section};
use super::sink::Sink;
use crate::LaneOutput;
use metrics::{Gauge, counter, gauge};
use millrace_log::{Frame, FrameSection, LogHandle, Position, ReadError, Reader};
use millrace_rows::{Clock, Micros, Month, RowKey};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use uuid::Uuid;

/// Frames read from the log before the plan gets its turn.
const FRAMES_MAX: usize = 512;
/// Months count as recent until they have been over for so long.
const RECENT_MICROS: i64 = 30 * 86_400 * 1_000_000;
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
}

/// Ships a lane until `shutdown`, then what is left for as long as
/// [`grace`](ShipOptions::grace) lasts. To be called on a tokio runtime with time and I/O.
///
/// # Errors
/// If the checkpoint cannot be loaded or the log stops for good. ClickHouse being away is not an
/// error: the log grows until it is back.
pub async fn run(
    options: ShipOptions,
    output: LaneOutput,
    clickhouse: millrace_clickhouse::ClickHouse,
    clock: Arc<dyn Clock>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ShipError> {
    let shipper = Shipper::open(options, output, clickhouse, clock).await?;
    shipper.run(shutdown).await
}

struct Shipper<K> {
    options: ShipOptions,
    context: Arc<Context<K>>,
    plan: Plan<FrameSection>,
    clock: Arc<dyn Clock>,
    started: Instant,
    synced: watch::Receiver<Position>,
    shipped: watch::Sender<Position>,
    reader: Option<Reader>,
    /// The server's run as last seen; asked again after every failure.
    run: Option<Uuid>,
    tasks: JoinSet<Event>,
    is_asking: bool,
    is_draining: bool,
    is_log_ended: bool,
    /// Pauses between questions that were not answered.
    pauses: Box<dyn Iterator<Item = Duration> + Send>,
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
    Run(Option<Uuid>),
}

/// When the loop goes on.
struct Wake {
    at: Option<Instant>,
    /// Whether new frames are a reason.
    on_frames: bool,
}

// === impl Shipper: start and end ===

impl<K: Sink> Shipper<K> {
    async fn open(
        options: ShipOptions,
        output: LaneOutput,
        sink: K,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ShipError> {
        let log = output.log;
        let plan = open_plan(&options, &log).await?;
        let lane = output.lane.name();
        let prefix = format!("{}-{:08x}-{lane}", options.node, plan.salt());
        Ok(Self {
            context: Arc::new(Context {
                lane,
                prefix,
                log: log.clone(),
                sink,
                poison_dir: PoisonDir::new(&options.poison_dir),
            }),
            options,
            reader: Some(log.reader(plan.read_to())),
            plan,
            clock,
            started: Instant::now(),
            synced: output.synced,
            shipped: output.shipped,
            run: None,
            tasks: JoinSet::new(),
            is_asking: false,
            is_draining: false,
            is_log_ended: false,
            pauses: Box::new(pauses()),
            not_before: Instant::now(),
            ask_not_before: Instant::now(),
            targets: HashSet::new(),
            oldest: gauge!("millrace_unshipped_age_seconds", "lane" => lane),
        })
    }

    async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), ShipError> {
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
                () = &mut shutdown, if !self.is_draining => {
                    self.is_draining = true;
                    deadline = Some(Instant::now() + self.options.grace);
                }
                Some(event) = self.tasks.join_next() => self.take(event),
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
            self.take(event);
        }
        if Instant::now() < self.not_before {
            return Ok(false);
        }
        let is_more = self.read().await;
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
        Wake {
            at,
            on_frames: self.plan.has_room() && !self.is_log_ended,
        }
    }

    fn take(&mut self, event: Result<Event, JoinError>) {
        match event {
            Ok(Event::Unit(id, verdict)) => self.judge(id, verdict),
            Ok(Event::Run(run)) => {
                self.is_asking = false;
                self.run = run;
                if run.is_some() {
                    self.pauses = Box::new(pauses());
                } else {
                    self.ask_not_before = Instant::now() + self.pauses.next().unwrap_or(PAUSE);
                }
            }
            // A task is never cancelled while the loop runs, so it panicked: its unit stays in
            // the checkpoint, and the process had better restart.
            Err(error) => tracing::error!("an insert's task failed: {error}"),
        }
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

    fn publish(&self) {
        let low = self.plan.low();
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

// === impl Shipper: from the log ===

impl<K: Sink> Shipper<K> {
    /// Takes in the next frames. True when there are more and room for them.
    async fn read(&mut self) -> bool {
        self.synced.borrow_and_update();
        if !self.plan.has_room() {
            return false;
        }
        let Some(reader) = self.reader.take() else {
            return false;
        };
        let read = tokio::task::spawn_blocking(move || read_frames(reader)).await;
        let Ok(batch) = read else {
            self.reader = Some(self.context.log.reader(self.plan.read_to()));
            self.not_before = Instant::now() + PAUSE;
            return false;
        };
        self.reader = Some(batch.reader);
        let count = batch.frames.len();
        for frame in batch.frames {
            self.gather(frame);
        }
        match batch.error {
            None => count == FRAMES_MAX && self.plan.has_room(),
            Some(error) => {
                self.pass_damage(&error);
                false
            }
        }
    }

    fn gather(&mut self, frame: Frame) {
        let now = self.started.elapsed();
        let mut sections = Vec::with_capacity(frame.sections.len());
        for (section, source) in (0_u32..).zip(frame.sections) {
            let place = Place {
                frame: frame.position,
                section,
            };
            sections.push(self.known(place, source));
        }
        self.plan.gather(frame.end, sections, now);
    }

    /// Keeps of a section what the plan needs, and one copy of its insert target for all.
    fn known(&mut self, place: Place, mut source: FrameSection) -> (Key, Section<FrameSection>) {
        let header = std::mem::take(&mut source.header);
        let known = self.targets.get(header.insert_target.as_str()).cloned();
        let insert_target = known.unwrap_or_else(|| {
            let target: Arc<str> = header.insert_target.into();
            self.targets.insert(Arc::clone(&target));
            target
        });
        let key = Key {
            insert_target,
            month: Month(header.month),
        };
        let section = Section {
            place,
            rows: header.rows,
            row_bytes: header.uncompressed_bytes,
            keys: header.keys.into_iter().map(RowKey::from_bytes).collect(),
            is_suspect: false,
            source,
        };
        (key, section)
    }

    /// Damage that arose since the log was opened: what is sound behind it must still ship.
    fn pass_damage(&mut self, error: &ReadError) {
        self.not_before = Instant::now() + PAUSE;
        tracing::error!("the log cannot be read: {error}");
        if let ReadError::Corrupt { .. } = error
            && let Some(reader) = &mut self.reader
            && let Ok(Some(skipped)) = reader.skip_damage()
        {
            counter!("millrace_log_damaged_total", "lane" => self.context.lane).increment(1);
            tracing::error!(
                "passed over damage from {} to {}",
                skipped.start,
                skipped.end
            );
            self.plan.gather(skipped.end, [], self.started.elapsed());
        }
    }
}

// === impl Shipper: to ClickHouse ===

impl<K: Sink> Shipper<K> {
    /// Sends what is due, once the checkpoint says so, and releases what is settled.
    async fn send(&mut self) -> Result<(), ShipError> {
        let mut units = Vec::new();
        if self.plan.can_launch(self.now()) {
            if self.run.is_some() || self.context.sink.tokens_are_atomic() {
                units = self.plan.launch(self.now(), self.run);
            } else {
                self.ask_for_run();
            }
        }
        if (!units.is_empty() || self.has_settled()) && !self.remember().await? {
            // Not stored: nothing may be sent. The units stay launched in the plan only if they
            // are sent, so they go back.
            for (id, _) in units {
                self.plan.restarted(id);
            }
            self.not_before = Instant::now() + PAUSE;
            return Ok(());
        }
        for (id, unit) in units {
            let context = Arc::clone(&self.context);
            self.tasks
                .spawn(async move { Event::Unit(id, context.carry_out(unit).await) });
        }
        Ok(())
    }

    /// Whether segments may be released that the stored checkpoint still needs.
    fn has_settled(&self) -> bool {
        *self.shipped.borrow() < self.plan.low()
    }

    fn ask_for_run(&mut self) {
        if self.is_asking || Instant::now() < self.ask_not_before {
            return;
        }
        self.is_asking = true;
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            match context.sink.server_run(&context.prefix).await {
                Ok(run) => Event::Run(Some(run)),
                Err(error) => {
                    tracing::warn!("ClickHouse does not answer: {error}");
                    if error.schema_is_missing()
                        && let Err(error) = context.sink.migrate().await
                    {
                        tracing::warn!("the missing tables cannot be made: {error}");
                    }
                    Event::Run(None)
                }
            }
        });
    }

    /// Stores the checkpoint, then lets the log go of what it no longer needs. False when there is
    /// no room for it on the disk.
    async fn remember(&mut self) -> Result<bool, ShipError> {
        if !self.plan.take_change() {
            return Ok(true);
        }
        let checkpoint = self.plan.checkpoint();
        let bytes = checkpoint
            .to_bytes()
            .map_err(|error| ShipError::Log(error.to_string()))?;
        let log = self.context.log.clone();
        let stored = tokio::task::spawn_blocking(move || store(&log, &bytes, checkpoint.low)).await;
        match stored {
            Ok(Ok(is_stored)) => {
                if !is_stored {
                    self.plan.mark_changed();
                }
                Ok(is_stored)
            }
            Ok(Err(error)) => Err(ShipError::Log(error)),
            Err(error) => Err(ShipError::Log(error.to_string())),
        }
    }
}

// === blocking parts ===

struct FrameBatch {
    reader: Reader,
    frames: Vec<Frame>,
    error: Option<ReadError>,
}

fn read_frames(mut reader: Reader) -> FrameBatch {
    let mut frames = Vec::new();
    let mut error = None;
    while frames.len() < FRAMES_MAX {
        match reader.next() {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => break,
            Err(failure) => {
                error = Some(failure);
                break;
            }
        }
    }
    FrameBatch {
        reader,
        frames,
        error,
    }
}

fn store(log: &LogHandle, bytes: &[u8], low: Position) -> Result<bool, String> {
    match log.store_checkpoint(bytes) {
        Ok(()) => {}
        Err(error @ millrace_log::CheckpointError::DiskFull) => {
            tracing::error!("the checkpoint cannot be stored, trying again: {error}");
            return Ok(false);
        }
        Err(error) => return Err(error.to_string()),
    }
    log.release(low).map_err(|error| error.to_string())?;
    Ok(true)
}

async fn open_plan(
    options: &ShipOptions,
    log: &LogHandle,
) -> Result<Plan<FrameSection>, ShipError> {
    let to_load = log.clone();
    let loaded = tokio::task::spawn_blocking(move || to_load.load_checkpoint())
        .await
        .map_err(|error| ShipError::Checkpoint(error.to_string()))?
        .map_err(|error| ShipError::Checkpoint(error.to_string()))?;
    let limits = options.limits;
    let Some(bytes) = loaded.filter(|bytes| !bytes.is_empty()) else {
        let salt = Uuid::new_v4().as_fields().0;
        return Ok(Plan::new(limits, salt, log.start(), log.synced()));
    };
    let checkpoint =
        Checkpoint::from_bytes(&bytes).map_err(|error| ShipError::Checkpoint(error.to_string()))?;
    Ok(Plan::restore(limits, checkpoint))
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
