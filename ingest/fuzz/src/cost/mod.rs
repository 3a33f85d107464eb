//! Target `cost`: bodies that are made to be expensive, and the memory and core time that each
//! takes for the bytes sent.
//!
//! | File | Does |
//! |---|---|
//! | [`bounds`] | holds what a body costs against what it may cost |
//! | [`generated`] | makes a body from its description, in every encoding and way of sending one |
//! | [`request`] | decodes and parses it as a server does |

mod bounds;
mod generated;
mod request;

pub use bounds::Cost;

use generated::GeneratedBody;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Number of times that a body is timed; the least counts, as the machine has other load.
const TIMES: usize = 3;

/// Parses a body made by its description: the first two bytes choose its encoding, carrier,
/// beginning and length, the others are repeated.
///
/// # Panics
///
/// If it takes more memory than its bound.
pub fn cost(data: &[u8]) {
    if let Some(cost) = cost_of(data) {
        assert!(
            cost.allocated_bytes <= cost.allowed_bytes(),
            "{cost:?} of {} bytes",
            cost.allowed_bytes()
        );
    }
}

/// Measures the memory that the body of a description takes.
#[must_use]
pub fn cost_of(data: &[u8]) -> Option<Cost> {
    let body = GeneratedBody::of(data)?;
    let mut cost = body.cost();
    let allocated = allocation_counter::measure(|| body.request(&mut cost));
    cost.allocated_bytes = allocated.bytes_max;
    Some(cost)
}

/// Measures the calling thread's core time for the body of a description.
#[must_use]
pub fn time_of(data: &[u8]) -> Option<Cost> {
    let body = GeneratedBody::of(data)?;
    let timed = |_| {
        let mut cost = body.cost();
        let began = thread_time();
        body.request(&mut cost);
        let took = thread_time().saturating_sub(began);
        cost.nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        cost
    };
    (0..TIMES).map(timed).min_by_key(|cost| cost.nanoseconds)
}

/// Core time that this thread has taken.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}
