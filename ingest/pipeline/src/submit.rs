//! The way into a lane: reserve, submit, wait.

use crate::commit::{self, CommitThread};
use crate::group::Submission;
use crate::retention::Retention;
use crate::room::{Queue, Refusal, log_has_room};
use crate::slot::Slot;
use crate::tally::SharedTally;
use crate::threads::{AtomicBool, Sender, bounded};
use millrace_log::fs::{DiskFs, Fs};
use millrace_log::{Log, LogHandle, LogOptions, OpenError, Position, Recovery};
use millrace_rows::Lane;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thiserror::Error;
use tokio::sync::watch;

/// When a request is answered with success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ack {
    /// After the fdatasync of its group: survives a crash of the process and of the machine.
    #[default]
    Disk,
    /// After ClickHouse stored it: can be queried when the answer arrives.
    ClickHouse,
    /// Once it is queued: a crash of the process loses what was not yet committed.
    Memory,
}

/// What a pipeline is built from.
#[derive(Clone, Debug)]
pub struct PipelineOptions {
    /// The folder of the logs; each lane has a folder of its name in it.
    pub log_dir: PathBuf,
    /// Room for both lanes' logs together, in bytes.
    pub log_bytes_max: u64,
    /// Size of a log segment, in bytes.
    pub segment_bytes: u64,
    /// Requests that may wait for a commit, per lane.
    pub queue_requests_max: usize,
    /// Bytes of requests that may wait for a commit, per lane.
    pub queue_bytes_max: usize,
    /// When a request is answered.
    pub ack: Ack,
}

/// Why a pipeline could not start.
#[derive(Debug, Error)]
pub enum PipelineError {
    /// A lane's log could not be opened.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// A lane's thread could not be started.
    #[error("cannot start the commit thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// What the shipper of a lane works on.
#[derive(Debug)]
pub struct LaneOutput {
    /// Which lane.
    pub lane: Lane,
    /// Its log.
    pub log: LogHandle,
    /// The end of what is synced; changes with every group.
    pub synced: watch::Receiver<Position>,
    /// Where the shipper says below which position everything is in ClickHouse.
    pub shipped: watch::Sender<Position>,
    /// What of the log may go.
    pub retention: Arc<Retention>,
    /// What opening the log found.
    pub recovery: Recovery,
}

/// One lane, as requests see it.
pub(crate) struct LaneInput {
    pub(crate) queue: Arc<Queue>,
    pub(crate) submissions: Sender<Submission>,
    pub(crate) log: LogHandle,
    pub(crate) failed: Arc<AtomicBool>,
    pub(crate) ended_well: Arc<AtomicBool>,
    pub(crate) has_no_room: Arc<AtomicBool>,
    pub(crate) shipped: watch::Receiver<Position>,
    pub(crate) tally: SharedTally,
    pub(crate) retention: Arc<Retention>,
}

/// The way into both lanes; clones share them.
#[derive(Clone)]
pub struct Pipeline(pub(crate) Arc<Lanes>);

pub(crate) struct Lanes {
    live: LaneInput,
    historical: LaneInput,
    log_bytes_max: u64,
    pub(crate) ack: Ack,
    failure: watch::Receiver<Option<String>>,
}

// === impl Pipeline ===

impl Pipeline {
    /// Opens both logs and starts their commit threads.
    ///
    /// # Errors
    /// When a log cannot be opened: another process has it, the folder cannot be written, or a
    /// thread cannot be started.
    pub fn start(options: &PipelineOptions) -> Result<(Self, Running), PipelineError> {
        Self::start_on(&(Arc::new(DiskFs) as Arc<dyn Fs>), options)
    }

    /// The same on any file system.
    pub(crate) fn start_on(
        fs: &Arc<dyn Fs>,
        options: &PipelineOptions,
    ) -> Result<(Self, Running), PipelineError> {
        crate::metrics::describe();
        let (failure_sender, failure) = watch::channel(None);
        let failure_sender = Arc::new(failure_sender);
        let mut threads = Vec::new();
        let mut outputs = Vec::new();
        let mut start_lane = |lane: Lane| -> Result<LaneInput, PipelineError> {
            let failure = Arc::clone(&failure_sender);
            let (input, thread, output) = open_lane(lane, Arc::clone(fs), options, failure)?;
            threads.push(thread);
            outputs.push(output);
            Ok(input)
        };
        let live = start_lane(Lane::Live)?;
        let historical = start_lane(Lane::Historical)?;
        let lanes = Lanes {
            live,
            historical,
            log_bytes_max: options.log_bytes_max,
            ack: options.ack,
            failure,
        };
        let pipeline = Self(Arc::new(lanes));
        Ok((
            pipeline.clone(),
            Running {
                pipeline,
                threads,
                outputs,
            },
        ))
    }

    /// Takes a place for a request of so many bytes; they are bytes of the request's body, as
    /// nothing else is known before it is parsed.
    ///
    /// # Errors
    /// When the request should come again later.
    pub fn reserve(&self, lane: Lane, bytes: usize) -> Result<Slot, Refusal> {
        let lanes = &self.0;
        let queue = &lanes.input(lane).queue;
        self.can_store(lane)?;
        queue.enter(bytes)?;
        Ok(Slot::new(Arc::clone(lanes), lane, bytes))
    }

    /// Whether a request of this lane could be stored at the moment: asked before its body is
    /// read, so that one that will be refused costs little. No place is taken.
    ///
    /// # Errors
    /// When the request should come again later.
    pub fn admits(&self, lane: Lane) -> Result<(), Refusal> {
        self.can_store(lane)?;
        self.0.input(lane).queue.is_open()
    }

    /// Whether the lane's commit thread has less to do than would keep it busy while the next
    /// requests are parsed; requests that are still being read or parsed do not count. What is sent to
    /// it beyond that only waits, in the order it came. With
    /// [`Ack::ClickHouse`] it always has: requests wait for something else then, all the same way.
    #[must_use]
    pub fn keeps_up(&self, lane: Lane) -> bool {
        self.0.ack == Ack::ClickHouse
            || self.0.input(lane).queue.handed_bytes() < commit::BUSY_BYTES
    }

    fn can_store(&self, lane: Lane) -> Result<(), Refusal> {
        if self.0.input(lane).failed.load(Ordering::Acquire) {
            return Err(Refusal::LogFailed);
        }
        log_has_room(lane, self.log_bytes_used(), self.0.log_bytes_max)
    }

    /// Bytes that both lanes' logs take on disk.
    #[must_use]
    pub fn log_bytes_used(&self) -> u64 {
        Lane::ALL
            .iter()
            .map(|lane| self.0.input(*lane).log.usage().bytes_used)
            .sum()
    }

    /// Lanes that take no rows until the disk has room for the reserve of their checkpoint again.
    #[must_use]
    pub fn reserves_missing(&self) -> usize {
        let logs = Lane::ALL.iter().map(|lane| &self.0.input(*lane).log);
        logs.filter(|log| !log.has_reserve()).count()
    }

    /// Room for both lanes' logs together, in bytes.
    #[must_use]
    pub fn log_bytes_max(&self) -> u64 {
        self.0.log_bytes_max
    }

    /// Requests of a lane between reservation and answer.
    #[must_use]
    pub fn queue_requests(&self, lane: Lane) -> usize {
        self.0.input(lane).queue.requests()
    }

    /// What made a log unusable; `None` while all is well.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.0.failure.borrow().clone()
    }

    /// Waits until a log becomes unusable and says why. Never returns while all is well.
    pub async fn failed(&self) -> String {
        let mut failure = self.0.failure.clone();
        match failure.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Lets no further request in; those that are in are still committed.
    pub fn close(&self) {
        for lane in Lane::ALL {
            self.0.input(lane).queue.close();
        }
    }
}

impl Lanes {
    pub(crate) fn input(&self, lane: Lane) -> &LaneInput {
        match lane {
            Lane::Live => &self.live,
            Lane::Historical => &self.historical,
        }
    }
}

fn open_lane(
    lane: Lane,
    fs: Arc<dyn Fs>,
    options: &PipelineOptions,
    failure: Arc<watch::Sender<Option<String>>>,
) -> Result<(LaneInput, CommitThread, LaneOutput), PipelineError> {
    let log_options = LogOptions {
        dir: options.log_dir.join(lane.name()),
        segment_bytes: options.segment_bytes,
        bytes_max: options.log_bytes_max,
    };
    let (log, recovery) = Log::open(log_options, fs)?;
    let handle = log.handle();
    let (synced_sender, synced) = watch::channel(handle.synced());
    let (shipped, shipped_receiver) = watch::channel(handle.start());
    // One place more than requests: the order to stop.
    let (sender, receiver) = bounded(options.queue_requests_max + 1);
    let failed = Arc::new(AtomicBool::new(false));
    let ended_well = Arc::new(AtomicBool::new(false));
    let has_no_room = Arc::new(AtomicBool::new(false));
    let tally = SharedTally::from(handle.opened_at());
    let retention = Arc::new(Retention::default());
    let thread = commit::start(commit::Lane {
        lane,
        log,
        receiver,
        stop: sender.clone(),
        synced: synced_sender,
        tally: tally.clone(),
        failed: Arc::clone(&failed),
        ended_well: Arc::clone(&ended_well),
        has_no_room: Arc::clone(&has_no_room),
        failure,
    })?;
    let input = LaneInput {
        queue: Arc::new(Queue::new(
            options.queue_requests_max,
            options.queue_bytes_max,
        )),
        submissions: sender,
        log: handle.clone(),
        failed,
        ended_well,
        has_no_room,
        shipped: shipped_receiver,
        tally,
        retention: Arc::clone(&retention),
    };
    Ok((
        input,
        thread,
        LaneOutput {
            lane,
            log: handle,
            synced,
            shipped,
            retention,
            recovery,
        },
    ))
}

// === impl Running ===

/// The threads behind a [`Pipeline`].
pub struct Running {
    pipeline: Pipeline,
    threads: Vec<CommitThread>,
    outputs: Vec<LaneOutput>,
}

impl Running {
    /// What the shippers work on, one per lane; empty when it was taken already.
    pub fn take_outputs(&mut self) -> Vec<LaneOutput> {
        std::mem::take(&mut self.outputs)
    }

    /// Lets no further request in, commits what is in, and ends the threads. Blocks.
    pub fn stop(self) {
        self.pipeline.close();
        for thread in self.threads {
            thread.stop();
        }
    }
}
