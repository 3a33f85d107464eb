//! The pipeline's entry: reserve, submit, wait.

use crate::capacity::{QueueCapacity, Refusal};
use crate::commit::{self, CommitThread};
use crate::lanes::{Ack, LaneInput, Lanes};
use crate::slot::Slot;
use crate::threads::{AtomicBool, bounded};
use millrace_clickhouse::INSERT_BYTES_MAX;
use millrace_log::fs::{DiskFs, Fs};
use millrace_log::{Log, LogHandle, LogOptions, OpenError, Position, Recovery};
use millrace_rows::Lane;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::watch;

/// Settings of a pipeline.
#[derive(Clone, Debug)]
pub struct PipelineOptions {
    /// Folder of the logs; each lane has a folder of its name in it.
    pub log_dir: PathBuf,
    /// Capacity of both lanes' logs together, in bytes.
    pub log_bytes_max: u64,
    /// Size of a log segment, in bytes.
    pub segment_bytes: u64,
    /// Requests that may wait for a commit, per lane.
    pub queue_requests_max: usize,
    /// Bytes of requests that may wait for a commit, per lane.
    pub queue_bytes_max: usize,
    /// Bytes of rows of one table and month that a request may have; one insert must hold them.
    pub insert_bytes_max: u64,
    /// Moment at which a request is answered.
    pub ack: Ack,
}

impl PipelineOptions {
    /// Bytes of rows that one insert may hold.
    pub const INSERT_BYTES_MAX: u64 = INSERT_BYTES_MAX;
}

/// Reason why a pipeline could not start.
#[derive(Debug, Error)]
pub enum PipelineError {
    /// A lane's log could not be opened.
    #[error("{0}")]
    Open(#[from] OpenError),
    /// A lane's thread could not be started.
    #[error("cannot start the commit thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// Output of a lane: everything that its shipper works on.
#[derive(Debug)]
pub struct LaneOutput {
    /// The lane.
    pub lane: Lane,
    /// Log of the lane.
    pub log: LogHandle,
    /// End of the synced part of the log; changes with every group.
    pub synced: watch::Receiver<Position>,
    /// Position below which everything is in ClickHouse, as the shipper reports it.
    pub shipped: watch::Sender<Position>,
    /// Position below which all person updates are in ClickHouse: never below `shipped`.
    pub updates_shipped: watch::Sender<Position>,
    /// Position below which person updates are to be sent at once, as somebody waits for them.
    pub updates_wanted: watch::Receiver<Position>,
    /// Findings of opening the log.
    pub recovery: Recovery,
}

/// Entry of both lanes; clones share them.
#[derive(Clone)]
pub struct Pipeline(pub(crate) Arc<Lanes>);

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

    /// Opens both logs on any file system.
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
            insert_bytes_max: options.insert_bytes_max,
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

    /// Reserves a slot for a request whose body has so many bytes; nothing else is known before it
    /// is parsed.
    ///
    /// # Errors
    /// When the client should retry later.
    pub fn reserve(&self, lane: Lane, bytes: usize) -> Result<Slot, Refusal> {
        Slot::reserve(Arc::clone(&self.0), lane, bytes)
    }

    /// Checks that a request of the lane could be stored at the moment. Meant for before its body
    /// is read, so that a refused one costs little; no capacity is reserved.
    ///
    /// # Errors
    /// When the client should retry later.
    pub fn admits(&self, lane: Lane) -> Result<(), Refusal> {
        self.0.can_store(lane)?;
        self.0.input(lane).queue.check_open()
    }

    /// Returns true if the lane's commit thread has less to do than would keep it busy while the
    /// next requests are parsed; requests that are still being read or parsed do not count.
    /// Anything beyond that only waits, first in, first out. Always true with [`Ack::ClickHouse`]:
    /// requests wait for ClickHouse then, not for the thread.
    #[must_use]
    pub fn keeps_up(&self, lane: Lane) -> bool {
        self.0.ack == Ack::ClickHouse
            || self.0.input(lane).queue.handed_bytes() < commit::BUSY_BYTES
    }

    /// Position of a lane's log below which everything is in ClickHouse or dead-lettered, as it
    /// moves on.
    #[must_use]
    pub fn shipped(&self, lane: Lane) -> watch::Receiver<Position> {
        self.0.input(lane).shipped.clone()
    }

    /// Bytes of both lanes' logs on disk.
    #[must_use]
    pub fn log_bytes_used(&self) -> u64 {
        self.0.log_bytes_used()
    }

    /// Number of lanes that take no rows until the disk has space for their checkpoint's reserve
    /// again.
    #[must_use]
    pub fn reserves_missing(&self) -> usize {
        let logs = Lane::ALL.iter().map(|lane| &self.0.input(*lane).log);
        logs.filter(|log| !log.has_reserve()).count()
    }

    /// Capacity of both lanes' logs together, in bytes.
    #[must_use]
    pub fn log_bytes_max(&self) -> u64 {
        self.0.log_bytes_max
    }

    /// Number of the lane's requests between reservation and answer.
    #[must_use]
    pub fn queue_requests(&self, lane: Lane) -> usize {
        self.0.input(lane).queue.requests()
    }

    /// Failure that made a log unusable; `None` while all is well.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.0.failure.borrow().clone()
    }

    /// Waits until a log becomes unusable and returns the reason. Never returns while all is well.
    pub async fn failed(&self) -> String {
        let mut failure = self.0.failure.clone();
        match failure.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Refuses further requests; admitted ones are still committed.
    pub fn close(&self) {
        for lane in Lane::ALL {
            self.0.input(lane).queue.close();
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
    let (updates_shipped, updates_receiver) = watch::channel(handle.start());
    let (wanted_sender, updates_wanted) = watch::channel(handle.start());
    // One more than requests: the order to stop.
    let (sender, receiver) = bounded(options.queue_requests_max + 1);
    let failed = Arc::new(AtomicBool::new(false));
    let ended_well = Arc::new(AtomicBool::new(false));
    let is_log_full = Arc::new(AtomicBool::new(false));
    let thread = commit::start(commit::CommitLane {
        id: lane,
        log,
        receiver,
        stop: sender.clone(),
        synced: synced_sender,
        failed: Arc::clone(&failed),
        ended_well: Arc::clone(&ended_well),
        is_log_full: Arc::clone(&is_log_full),
        failure,
    })?;
    let input = LaneInput {
        queue: Arc::new(QueueCapacity::new(
            options.queue_requests_max,
            options.queue_bytes_max,
        )),
        submissions: sender,
        log: handle.clone(),
        failed,
        ended_well,
        is_log_full,
        shipped: shipped_receiver,
        updates_shipped: updates_receiver,
        updates_wanted: wanted_sender,
    };
    Ok((
        input,
        thread,
        LaneOutput {
            lane,
            log: handle,
            synced,
            shipped,
            updates_shipped,
            updates_wanted,
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
    /// Takes the outputs for the shippers, one per lane; empty when they were taken already.
    pub fn take_outputs(&mut self) -> Vec<LaneOutput> {
        std::mem::take(&mut self.outputs)
    }

    /// Refuses further requests, commits the admitted ones, and ends the threads. Blocks.
    pub fn stop(self) {
        self.pipeline.close();
        for thread in self.threads {
            thread.stop();
        }
    }
}
