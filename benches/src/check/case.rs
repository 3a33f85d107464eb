//! The cases that are counted: parsing, encoding, whole requests, blocks for ClickHouse, the live
//! stream that nobody watches, and hostile requests.

use crate::hostile::{
    Compression, EncodedRequest, HostileRequest, PER_DECODED_BYTE_MAX, PER_KB_SENT_MAX,
    PER_SLOW_BYTE_MAX, Scenario, Server,
};
use crate::hot_path::{GzipRequests, Parsing, Requests, event, memory_dir};
use crate::native::{shipped_rows, write_block};
use crate::requests::{SHIPPED, WORKLOADS, Workload};
use anyhow::{Context, Result};
use millrace_encoding::Encoding;
use millrace_live::LiveTap;
use std::hint::black_box;

const ROWS: u32 = 250;

/// Rounds before the counted ones: buffers have grown, and the log has measured its disk.
const WARM_UP: u32 = 40;

/// Requests of a round that ask whether anybody watches.
const UNWATCHED_REQUESTS: u32 = 1_000;
/// Most instructions of such a request, with those of the loop.
const PER_UNWATCHED_MAX: u64 = 8;

/// Bytes in a kB.
const BYTES_PER_KB: u64 = 1_000;
/// Rounds of a hostile request before the counted ones.
const HOSTILE_WARM_UP: u32 = 1;
/// Counted rounds of a hostile request.
const HOSTILE_ROUNDS: u32 = 2;
/// Counted rounds of one in lz64, whose compressor hashes with other seeds in each process: making
/// the request costs a thousandth of 2 G instructions more or less.
const LZ64_ROUNDS: u32 = 20;

/// A piece of work to count.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name in the committed file.
    pub name: String,
    /// Number of counted rounds.
    pub rounds: u32,
    work: Work,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Parse { events: u32 },
    Encode,
    Request { events: u32 },
    Gzip { events: u32 },
    Block,
    Unwatched,
    Hostile(HostileRequest),
}

/// Basis of a cost: the unit that a count is divided by, and the bound for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostBasis {
    /// The unit in words, as "an event".
    pub unit: &'static str,
    /// Parts (events or bytes) in a round.
    pub parts: u64,
    /// Parts in one unit.
    pub parts_per_unit: u64,
    /// Most instructions for each unit, whatever was committed.
    pub instructions_max: Option<u64>,
}

const USUAL: [(&str, u32, Work); 10] = [
    ("parse/998B_x250", 20, Work::Parse { events: 250 }),
    ("parse/136B_x1000", 20, Work::Parse { events: 1_000 }),
    ("parse/998B_x1", 500, Work::Parse { events: 1 }),
    ("encode/800B_x250", 100, Work::Encode),
    ("request/998B_x250", 40, Work::Request { events: 250 }),
    ("request/998B_x10", 200, Work::Request { events: 10 }),
    ("request/998B_x1", 2_000, Work::Request { events: 1 }),
    ("gzip/998B_x250", 40, Work::Gzip { events: 250 }),
    ("block/998B_x10000", 5, Work::Block),
    ("live/unwatched", 1_000, Work::Unwatched),
];

impl Case {
    /// Every case that is counted.
    pub fn all() -> impl Iterator<Item = Self> {
        let usual = USUAL.into_iter().map(|(name, rounds, work)| Self {
            name: name.to_owned(),
            rounds,
            work,
        });
        let hostile = HostileRequest::all().map(|hostile| Self {
            name: hostile.name(),
            rounds: match hostile.compression {
                Compression::Lz64 => LZ64_ROUNDS,
                _ => HOSTILE_ROUNDS,
            },
            work: Work::Hostile(hostile),
        });
        usual.chain(hostile)
    }

    /// Finds a case by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|case| case.name == name)
    }

    /// The unit that the cost of a round is stated for.
    ///
    /// # Errors
    /// A hostile request could not be made.
    pub fn basis(&self) -> Result<CostBasis> {
        let per_event = |events: u32| CostBasis {
            unit: "an event",
            parts: u64::from(events),
            parts_per_unit: 1,
            instructions_max: None,
        };
        Ok(match self.work {
            Work::Parse { events } | Work::Request { events } | Work::Gzip { events } => {
                per_event(events)
            }
            Work::Encode => per_event(ROWS),
            Work::Block => per_event(SHIPPED.events as u32),
            Work::Unwatched => CostBasis {
                unit: "a request",
                instructions_max: Some(PER_UNWATCHED_MAX),
                ..per_event(UNWATCHED_REQUESTS)
            },
            Work::Hostile(hostile) => basis_of(hostile, &hostile.encode()?),
        })
    }

    /// Does the work: the warm-up, then the given number of rounds.
    ///
    /// # Errors
    /// The counted work fails.
    pub fn run(&self, rounds: u32) -> Result<()> {
        let warm_up = match self.work {
            Work::Block => 1,
            Work::Hostile(_) => HOSTILE_WARM_UP,
            _ => WARM_UP,
        };
        let mut work = self.prepare()?;
        (0..warm_up + rounds).try_for_each(|_| work())
    }

    fn prepare(&self) -> Result<Box<dyn FnMut() -> Result<()>>> {
        Ok(match self.work {
            Work::Encode => {
                let mut out = Vec::new();
                Box::new(move || {
                    encode(&mut out);
                    Ok(())
                })
            }
            Work::Parse { .. } => {
                let mut parsing = Parsing::of(self.workload()?.body(false));
                Box::new(move || parsing.once())
            }
            Work::Request { .. } => {
                let mut requests = Requests::of(self.workload()?, &memory_dir())?;
                Box::new(move || requests.once())
            }
            Work::Gzip { .. } => {
                let mut requests = GzipRequests::of(self.workload()?, &memory_dir())?;
                Box::new(move || requests.once())
            }
            Work::Block => {
                let rows = shipped_rows(SHIPPED)?;
                Box::new(move || write_block(&rows).map(|_| ()))
            }
            Work::Unwatched => {
                let tap = LiveTap::default();
                Box::new(move || {
                    ask_unwatched(&tap);
                    Ok(())
                })
            }
            Work::Hostile(hostile) => {
                let mut server = Server::of(&hostile)?;
                Box::new(move || server.once().map(|_| ()))
            }
        })
    }

    /// The workload that the part of the case's name after the slash names.
    fn workload(&self) -> Result<Workload> {
        let name = self.name.rsplit_once('/').map(|(_, name)| name);
        WORKLOADS
            .into_iter()
            .find(|workload| Some(workload.name) == name)
            .with_context(|| format!("{} names no workload", self.name))
    }
}

fn basis_of(hostile: HostileRequest, encoded: &EncodedRequest) -> CostBasis {
    match hostile.scenario {
        Scenario::KnownKey | Scenario::KnownBomb => CostBasis {
            unit: "a decoded byte",
            parts: encoded.plain_bytes as u64,
            parts_per_unit: 1,
            instructions_max: Some(match hostile.compression.encoding() {
                Encoding::Brotli | Encoding::Lz64 => PER_SLOW_BYTE_MAX,
                _ => PER_DECODED_BYTE_MAX,
            }),
        },
        Scenario::UnknownKey | Scenario::Bomb => CostBasis {
            unit: "a kB sent",
            parts: (encoded.body.len() as u64).max(BYTES_PER_KB),
            parts_per_unit: BYTES_PER_KB,
            instructions_max: Some(PER_KB_SENT_MAX),
        },
    }
}

fn ask_unwatched(tap: &LiveTap) {
    for _ in 0..UNWATCHED_REQUESTS {
        black_box(black_box(tap).is_watched());
    }
}

fn encode(out: &mut Vec<u8>) {
    let properties = [b'x'; 800];
    let pieces: [&[u8]; 2] = [b"{\"$ip\":\"192.0.2.1\",", &properties];
    out.clear();
    for _ in 0..ROWS {
        black_box(event(&pieces)).append_to(out);
    }
    black_box(out.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_runs_and_is_found_by_its_name() {
        for case in Case::all() {
            assert_eq!(Case::named(&case.name).unwrap().rounds, case.rounds);
            // Hostile ones are run by the tests of `hostile`.
            if !matches!(case.work, Work::Hostile(_)) {
                case.run(1).unwrap();
            }
        }
        assert!(Case::named("parse/nothing").is_none());
    }
}
