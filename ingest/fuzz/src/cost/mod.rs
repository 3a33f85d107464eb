//! Target `cost`: bodies that are made to be expensive, and the memory and core time that each
//! takes for the bytes sent.
//!
//! | File | Does |
//! |---|---|
//! | [`generated`] | makes a body from its description, in every encoding and way of sending one |
//! | [`request`] | decodes and parses it as a server does |

mod generated;
mod request;

use generated::GeneratedBody;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Bytes that a body may decode to in this test; a server allows fifty times as much.
const DECODED_BYTES_MAX: usize = 2 << 20;
/// Bytes allowed to every body: tables and windows of decoders, and the smallest lists.
const FIXED_BYTES: u64 = 1 << 20;
/// Bytes allowed to every body in Brotli: a few bytes of it ask for 256 trees for each of literals,
/// insertions and distances, with 1 080 codes of four bytes each.
const BROTLI_TABLES_BYTES: u64 = 3 * 256 * 1_080 * 4;
/// Bytes of memory allowed for each byte that a body with a known key decodes to.
const KNOWN_BYTES_PER_BYTE: u64 = 40;
/// Bytes of memory allowed for each byte sent of any other body: 1 MiB for a kB.
const UNKNOWN_BYTES_PER_BYTE: u64 = 1 << 10;
/// The one project key that is known.
const KEY: &str = "phc_known";
/// Core time allowed for each byte that a body with a known key decodes to. `make bench-check`
/// holds this and the next two bounds in instructions.
const KNOWN_NANOSECONDS_PER_BYTE: u64 = 20;
/// Core time allowed for each decoded byte of a slow encoding with a known key.
const KNOWN_SLOW_NANOSECONDS_PER_BYTE: u64 = 60;
/// Core time allowed for each kB sent of any other body.
const UNKNOWN_NANOSECONDS_PER_KB: u64 = 1_000_000;
/// Core time allowed to every body: tables of decoders, and the clock's resolution.
const FIXED_NANOSECONDS: u64 = 1_000_000;
/// Number of times that a body is timed; the least counts, as the machine has other load.
const TIMES: usize = 3;

/// Cost of a body.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Bytes as sent.
    pub sent_bytes: u64,
    /// Bytes that it decoded to, or may have before it was refused.
    pub decoded_bytes: u64,
    /// Peak of allocated bytes.
    pub allocated_bytes: u64,
    /// Nanoseconds of a core, the least of several runs; 0 unless it was [timed](time_of).
    pub nanoseconds: u64,
    /// Part of the request that carries the text, and the text's encoding.
    pub way: [&'static str; 2],
    /// True if the body names the key that is known.
    pub is_key_known: bool,
    /// Bytes that are reserved and never written, which cost nothing.
    reserved_bytes: u64,
    is_slow: bool,
}

impl Cost {
    /// Most bytes of memory that the body may take.
    #[must_use]
    pub fn allowed_bytes(&self) -> u64 {
        let sent_bytes = self.sent_bytes.max(1 << 10);
        let unknown = sent_bytes * UNKNOWN_BYTES_PER_BYTE;
        let known = self.decoded_bytes * KNOWN_BYTES_PER_BYTE;
        let allowed = if self.is_key_known { known } else { unknown };
        let tables = if self.is_slow { BROTLI_TABLES_BYTES } else { 0 };
        FIXED_BYTES + tables + self.reserved_bytes + allowed
    }

    /// Most nanoseconds of a core that the body may take.
    #[must_use]
    pub fn allowed_nanoseconds(&self) -> u64 {
        let sent_bytes = self.sent_bytes.max(1 << 10);
        let each = if self.is_slow {
            KNOWN_SLOW_NANOSECONDS_PER_BYTE
        } else {
            KNOWN_NANOSECONDS_PER_BYTE
        };
        let known = self.decoded_bytes * each;
        let unknown = sent_bytes * UNKNOWN_NANOSECONDS_PER_KB / 1_000;
        FIXED_NANOSECONDS + if self.is_key_known { known } else { unknown }
    }

    /// Time taken in thousandths of the allowed time: a maker of bombs maximises it.
    #[must_use]
    pub fn thousandths_of_time(&self) -> u64 {
        self.nanoseconds * 1_000 / self.allowed_nanoseconds()
    }

    /// Bytes that the bounds count: decoded ones with a known key, and those sent without.
    #[must_use]
    pub fn counted_bytes(&self) -> u64 {
        if self.is_key_known {
            self.decoded_bytes
        } else {
            self.sent_bytes
        }
    }

    /// Memory taken in thousandths of the allowed memory: a maker of bombs maximises it.
    #[must_use]
    pub fn thousandths_of_memory(&self) -> u64 {
        self.allocated_bytes * 1_000 / self.allowed_bytes()
    }
}

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
