//! Traces of sampled requests, from their head to the sync of their rows.
//!
//! No request has a span while it is served: one that is sampled notes the times of its stages,
//! which are measured in any case, and its trace is handed over when it is answered. Off, this
//! costs a request one load. The channel is bounded: a trace that finds it full is dropped and
//! counted.

use crate::metrics::Stage;
use metrics::{counter, describe_counter};
use millrace_pipeline::Position;
use millrace_rows::{Lane, Micros, ProjectId};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use uuid::Uuid;

const DROPPED: &str = "millrace_traces_dropped_total";

/// Traces that may wait for their receiver.
const WAITING_MAX: usize = 1_024;
/// Stages of a trace, at most: a request may be parsed again for each key that is looked up.
const STAGES_MAX: usize = 16;

/// Decides which requests are traced; by default none.
#[derive(Clone, Debug, Default)]
pub struct Tracer(Option<Arc<Sampler>>);

#[derive(Debug)]
struct Sampler {
    /// Random 32-bit numbers below this one are sampled.
    threshold: u64,
    traces: mpsc::Sender<RequestTrace>,
}

/// Trace of a request that was answered. Times are since its head was read.
#[derive(Clone, Debug)]
pub struct RequestTrace {
    /// Id of the request, as its response has it.
    pub request_id: Uuid,
    /// Path of the contract.
    pub path: &'static str,
    /// Time at which its head was read, by the clock.
    pub received_at: Micros,
    /// Time until its response was made.
    pub took: Duration,
    /// Status of the response.
    pub status: u16,
    /// Stages in the order of their ends.
    pub stages: Vec<TracedStage>,
    /// Rows of the request in the log; `None` if it left none, or is answered before they are
    /// written.
    pub logged: Option<LoggedRows>,
}

/// Stage of a traced request.
#[derive(Clone, Copy, Debug)]
pub struct TracedStage {
    /// Name of the stage, as in the metrics.
    pub name: &'static str,
    /// Time at which it began.
    pub began: Duration,
    /// Time that it took.
    pub took: Duration,
}

/// Rows of a traced request in the log.
#[derive(Clone, Copy, Debug)]
pub struct LoggedRows {
    /// Project that owns them.
    pub project_id: ProjectId,
    /// Number of accepted events.
    pub events: u32,
    /// Lane of the log.
    pub lane: Lane,
    /// Position below which the rows are.
    pub position: Position,
}

/// Trace of a request that is being served.
#[derive(Debug)]
pub struct OpenTrace {
    began: Instant,
    trace: RefCell<RequestTrace>,
}

// === impl Tracer ===

impl Tracer {
    /// Tracer of one request in so many, as a share from 0 to 1, and the receiver of the traces.
    #[must_use]
    pub fn sampling(share: f64) -> (Self, mpsc::Receiver<RequestTrace>) {
        describe_counter!(
            DROPPED,
            "Traces that were not sent: the collector did not take them fast enough"
        );
        let (traces, receiver) = mpsc::channel(WAITING_MAX);
        // A number of 32 bits and one more has no fraction that matters.
        let threshold = (share.clamp(0.0, 1.0) * 2_f64.powi(32)) as u64;
        (
            Self(Some(Arc::new(Sampler { threshold, traces }))),
            receiver,
        )
    }

    /// Begins the trace of a request, if it is sampled by a random number.
    pub(crate) fn begin(
        &self,
        request_id: Uuid,
        received_at: Micros,
        random: impl FnOnce() -> u32,
    ) -> Option<Box<OpenTrace>> {
        let sampler = self.0.as_deref()?;
        (u64::from(random()) < sampler.threshold)
            .then(|| Box::new(OpenTrace::new(request_id, received_at)))
    }

    /// Hands over the trace of a request that was answered.
    #[cold]
    pub(crate) fn end(&self, open: &OpenTrace, path: &'static str, status: u16) {
        let Some(sampler) = &self.0 else { return };
        let mut trace = open.trace.borrow().clone();
        trace.path = path;
        trace.status = status;
        trace.took = open.began.elapsed();
        if sampler.traces.try_send(trace).is_err() {
            dropped(1);
        }
    }
}

/// Counts traces that are not sent.
pub fn dropped(count: u64) {
    counter!(DROPPED).increment(count);
}

// === impl OpenTrace ===

impl OpenTrace {
    fn new(request_id: Uuid, received_at: Micros) -> Self {
        Self {
            began: Instant::now(),
            trace: RefCell::new(RequestTrace {
                request_id,
                path: "",
                received_at,
                took: Duration::ZERO,
                status: 0,
                stages: Vec::new(),
                logged: None,
            }),
        }
    }

    /// Adds a stage that has ended.
    pub(crate) fn add(&self, stage: Stage, started: Instant, took: Duration) {
        let stages = &mut self.trace.borrow_mut().stages;
        if stages.len() < STAGES_MAX {
            stages.push(TracedStage {
                name: stage.name(),
                began: started.saturating_duration_since(self.began),
                took,
            });
        }
    }

    /// Notes where the rows are.
    pub(crate) fn logged(&self, rows: LoggedRows) {
        self.trace.borrow_mut().logged = Some(rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_sampled(tracer: &Tracer, random: u32) -> bool {
        let begun = tracer.begin(Uuid::nil(), Micros(0), || random);
        begun.is_some()
    }

    #[test]
    fn a_share_of_random_numbers_is_sampled() {
        let quarter = u32::MAX / 4;
        for (share, sampled, other) in [
            (1.0, Some(u32::MAX), None),
            (0.25, Some(quarter), Some(quarter + 1)),
            (0.0, None, Some(0)),
        ] {
            let (tracer, _receiver) = Tracer::sampling(share);
            for (random, expected) in [(sampled, true), (other, false)] {
                if let Some(random) = random {
                    assert_eq!(is_sampled(&tracer, random), expected, "{share} {random}");
                }
            }
        }
        let begun = Tracer::default().begin(Uuid::nil(), Micros(0), || panic!("no number needed"));
        assert!(begun.is_none());
    }

    #[test]
    fn a_full_channel_drops_traces_and_their_stages_are_bounded() {
        let (tracer, mut receiver) = Tracer::sampling(1.0);
        let open = tracer.begin(Uuid::nil(), Micros(7), || 0).unwrap();
        for _ in 0..STAGES_MAX + 1 {
            open.add(Stage::Parse, Instant::now(), Duration::from_millis(1));
        }
        for _ in 0..WAITING_MAX + 1 {
            tracer.end(&open, "/batch", 200);
        }
        let trace = receiver.try_recv().unwrap();
        assert_eq!((trace.status, trace.path), (200, "/batch"));
        assert_eq!(trace.stages.len(), STAGES_MAX);
        assert_eq!(trace.stages[0].name, "parse");
        assert_eq!(receiver.len(), WAITING_MAX - 1);
    }
}
