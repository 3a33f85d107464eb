//! Measures how many events a second one core reads and maps, by format. Reads files of generated
//! events of about 1 kB in memory. The result is the best of some rounds by CPU time, which other
//! load does not change.
//!
//! ```text
//! cargo run --release -p millrace-sources --features testing --example mapping_speed
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    reason = "a measurement whose output people read"
)]

use millrace_sources::testing::generate;
use millrace_sources::{Events, Format, Input, Options, Position};
use rustix::time::{ClockId, clock_gettime};
use std::io::Cursor;
use std::time::Duration;

const EVENTS: u64 = 100_000;
const ROUNDS: usize = 7;

fn main() {
    println!(
        "{:<18}{:>12}{:>14}{:>12}",
        "format", "bytes/event", "events/s", "MB/s"
    );
    for format in Format::ALL {
        let mut file = Vec::new();
        generate(*format, EVENTS, 1, &mut file).unwrap();
        let best = (0..ROUNDS).map(|_| round(*format, &file)).min().unwrap();
        let seconds = best.as_secs_f64();
        println!(
            "{:<18}{:>12}{:>14.0}{:>12.0}",
            format.name(),
            file.len() as u64 / EVENTS,
            EVENTS as f64 / seconds,
            file.len() as f64 / seconds / 1e6
        );
    }
}

/// CPU time of this thread so far.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

fn round(format: Format, file: &[u8]) -> Duration {
    let options = Options::default();
    let input = Input::Stream(Box::new(Cursor::new(file.to_vec())));
    let start = cpu_time();
    let mut mapping = format.mapping(&options).unwrap();
    let mut framing = format.open(input, Position::default(), &options).unwrap();
    let mut events = Events::default();
    let mut count = 0;
    while let Some(record) = framing.next().unwrap() {
        events.clear();
        mapping.map(record.raw, &mut events).unwrap();
        count += 1;
    }
    assert_eq!(count, EVENTS);
    cpu_time() - start
}
