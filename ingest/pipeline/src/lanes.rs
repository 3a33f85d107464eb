//! Inputs of both lanes, shared by the pipeline and its slots.

use crate::capacity::{QueueCapacity, Refusal, check_log_capacity};
use crate::commit_group::Submission;
use crate::threads::{AtomicBool, Sender};
use millrace_log::{LogHandle, Position};
use millrace_rows::Lane;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::watch;

/// Moment at which a request is answered with success.
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

/// Input of a lane: everything that requests need of it.
pub struct LaneInput {
    pub queue: Arc<QueueCapacity>,
    pub submissions: Sender<Submission>,
    pub log: LogHandle,
    /// Set once the log has failed or its commit thread has panicked.
    pub failed: Arc<AtomicBool>,
    /// Set when the commit thread has ended as ordered, with an answer to all that came before.
    pub ended_well: Arc<AtomicBool>,
    /// Set while the last group did not fit into the log or onto the disk.
    pub is_log_full: Arc<AtomicBool>,
    pub shipped: watch::Receiver<Position>,
    /// Position up to which person updates are shipped.
    pub updates_shipped: watch::Receiver<Position>,
    /// Position below which the shipper is to send person updates at once.
    pub updates_wanted: watch::Sender<Position>,
}

/// Inputs of both lanes.
pub struct Lanes {
    pub live: LaneInput,
    pub historical: LaneInput,
    pub log_bytes_max: u64,
    pub insert_bytes_max: u64,
    pub ack: Ack,
    pub failure: watch::Receiver<Option<String>>,
}

impl Lanes {
    /// Input of a lane.
    pub fn input(&self, lane: Lane) -> &LaneInput {
        match lane {
            Lane::Live => &self.live,
            Lane::Historical => &self.historical,
        }
    }

    /// Checks that the log of a lane takes one more request.
    pub fn can_store(&self, lane: Lane) -> Result<(), Refusal> {
        if self.input(lane).failed.load(Ordering::Acquire) {
            return Err(Refusal::LogFailed);
        }
        check_log_capacity(lane, self.log_bytes_used(), self.log_bytes_max)
    }

    /// Bytes of both lanes' logs on disk.
    pub fn log_bytes_used(&self) -> u64 {
        Lane::ALL
            .iter()
            .map(|lane| self.input(*lane).log.usage().bytes_used)
            .sum()
    }
}
