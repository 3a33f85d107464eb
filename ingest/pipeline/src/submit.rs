//! The way into a lane: reserve, submit, wait.

use crate::commit::{self, CommitThread, Submission};
use crate::pace::Pace;
use crate::pack::{PackedGroup, Packer};
use crate::room::{Queue, Refusal, log_has_room};
use millrace_log::fs::DiskFs;
use millrace_log::{Log, LogHandle, LogOptions, OpenError, Position, Recovery};
use millrace_rows::{Batch, Lane};
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;
use tokio::sync::{oneshot, watch};

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

/// A committed batch.
#[derive(Debug)]
pub struct Committed {
    /// The end of the group it was committed with; `None` with [`Ack::Memory`].
    pub position: Option<Position>,
    /// The batch's row buffers, emptied, for reuse by the parser that made them.
    pub spent: Vec<Vec<u8>>,
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
    /// What opening the log found.
    pub recovery: Recovery,
}

/// One lane, as requests see it.
struct LaneInput {
    queue: Arc<Queue>,
    submissions: crossbeam::channel::Sender<Submission>,
    log: LogHandle,
    failed: Arc<AtomicBool>,
    shipped: watch::Receiver<Position>,
    pace: Arc<Pace>,
}

/// The way into both lanes; clones share them.
#[derive(Clone)]
pub struct Pipeline(Arc<Lanes>);

struct Lanes {
    live: LaneInput,
    historical: LaneInput,
    log_bytes_max: u64,
    ack: Ack,
    failure: watch::Receiver<Option<String>>,
}

/// A place in a lane's queue, for one request. Dropping it gives the place back.
#[must_use = "a slot that is dropped gives its place back"]
pub struct Slot {
    lanes: Arc<Lanes>,
    lane: Lane,
    bytes: usize,
    queue: Arc<Queue>,
}

thread_local! {
    /// The compressor of this core.
    static PACKER: RefCell<Packer> = RefCell::new(Packer::new());
}

// === impl Pipeline ===

impl Pipeline {
    /// Opens both logs and starts their commit threads.
    ///
    /// # Errors
    /// When a log cannot be opened: another process has it, the folder cannot be written, or a
    /// thread cannot be started.
    pub fn start(options: &PipelineOptions) -> Result<(Self, Running), PipelineError> {
        crate::metrics::describe();
        let (failure_sender, failure) = watch::channel(None);
        let failure_sender = Arc::new(failure_sender);
        let mut threads = Vec::new();
        let mut outputs = Vec::new();
        let mut start_lane = |lane: Lane| -> Result<LaneInput, PipelineError> {
            let (input, thread, output) = open_lane(lane, options, Arc::clone(&failure_sender))?;
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
        Ok(Slot {
            lanes: Arc::clone(lanes),
            lane,
            bytes,
            queue: Arc::clone(queue),
        })
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
    /// requests are parsed. What is sent to it beyond that only waits, in the order it came. With
    /// [`Ack::ClickHouse`] it always has: requests wait for something else then, all the same way.
    #[must_use]
    pub fn keeps_up(&self, lane: Lane) -> bool {
        self.0.ack == Ack::ClickHouse || self.0.input(lane).queue.bytes() < commit::BUSY_BYTES
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
    fn input(&self, lane: Lane) -> &LaneInput {
        match lane {
            Lane::Live => &self.live,
            Lane::Historical => &self.historical,
        }
    }
}

fn open_lane(
    lane: Lane,
    options: &PipelineOptions,
    failure: Arc<watch::Sender<Option<String>>>,
) -> Result<(LaneInput, CommitThread, LaneOutput), PipelineError> {
    let log_options = LogOptions {
        dir: options.log_dir.join(lane.name()),
        segment_bytes: options.segment_bytes,
        bytes_max: options.log_bytes_max,
    };
    let (log, recovery) = Log::open(log_options, Arc::new(DiskFs))?;
    let handle = log.handle();
    let (synced_sender, synced) = watch::channel(handle.synced());
    let (shipped, shipped_receiver) = watch::channel(handle.start());
    // One place more than requests: the order to stop.
    let (sender, receiver) = crossbeam::channel::bounded(options.queue_requests_max + 1);
    let failed = Arc::new(AtomicBool::new(false));
    let pace = Arc::new(Pace::default());
    let thread = commit::start(commit::Lane {
        lane,
        log,
        receiver,
        stop: sender.clone(),
        synced: synced_sender,
        pace: Arc::clone(&pace),
        failed: Arc::clone(&failed),
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
        shipped: shipped_receiver,
        pace,
    };
    Ok((
        input,
        thread,
        LaneOutput {
            lane,
            log: handle,
            synced,
            shipped,
            recovery,
        },
    ))
}

// === impl Slot ===

impl Slot {
    /// Hands the batch to the commit thread and waits until it is stored as the pipeline's
    /// [`Ack`] says. Once called, the batch is stored even when the caller goes away.
    ///
    /// The lane is known for sure only after parsing: when the batch's lane is not the reserved
    /// one, the place is exchanged first.
    ///
    /// # Errors
    /// When the batch was not stored.
    pub async fn submit(mut self, batch: Batch) -> Result<Committed, Refusal> {
        if batch.lane != self.lane {
            self = Pipeline(Arc::clone(&self.lanes)).reserve(batch.lane, self.bytes)?;
        }
        let lanes = Arc::clone(&self.lanes);
        let input = lanes.input(batch.lane);
        let mut spent = Vec::new();
        let compresses = input.pace.compresses(input.log.usage());
        let groups = PACKER.with_borrow_mut(|packer| {
            batch
                .groups
                .into_iter()
                .map(|group| packer.pack(group, compresses, &mut spent))
                .collect()
        });
        let (reply, answer) = oneshot::channel();
        let submission = Submission::Commit { groups, reply };
        if input.submissions.try_send(submission).is_err() {
            return Err(if input.failed.load(Ordering::Acquire) {
                Refusal::LogFailed
            } else {
                Refusal::QueueFull
            });
        }
        if lanes.ack == Ack::Memory {
            return Ok(Committed {
                position: None,
                spent,
            });
        }
        let (position, groups) = answer.await.map_err(|_| Refusal::LogFailed)??;
        PACKER.with_borrow_mut(|packer| {
            for group in groups {
                match group {
                    PackedGroup::Blocks { blocks, .. } if compresses => packer.recycle(blocks),
                    PackedGroup::Blocks { blocks, .. } => spent.push(blocks),
                    PackedGroup::Rows(group) => spent.push(group.bytes.into_block()),
                }
            }
        });
        if lanes.ack == Ack::ClickHouse {
            let mut shipped = input.shipped.clone();
            shipped
                .wait_for(|below| *below >= position)
                .await
                .map_err(|_| Refusal::ShuttingDown)?;
        }
        Ok(Committed {
            position: Some(position),
            spent,
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.queue.leave(self.bytes);
    }
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
