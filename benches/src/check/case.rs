//! What is counted.

use crate::hostile::{
    Hostile, PER_DECODED_BYTE_MAX, PER_KB_SENT_MAX, PER_SLOW_BYTE_MAX, Sent, Server, Way,
};
use crate::hot_path::{Parsing, Requests, event, memory_dir};
use crate::requests::{WORKLOADS, Workload};
use anyhow::{Context, Result};
use millrace_encoding::Encoding;
use std::hint::black_box;

const ROWS: u32 = 250;

/// Rounds before those that count: buffers have grown and the log has seen that its disk is fast.
const WARM_UP: u32 = 40;

/// Bytes of a kB.
const BYTES_PER_KB: u64 = 1_000;
/// Rounds of a hostile request before those that count, and those.
const HOSTILE_WARM_UP: u32 = 1;
const HOSTILE_ROUNDS: u32 = 2;

/// One thing to count.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name in the committed file.
    pub name: String,
    /// Rounds that are counted.
    pub rounds: u32,
    work: Work,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Parse { events: u32 },
    Encode,
    Request { events: u32 },
    Hostile(Hostile),
}

/// What a count is divided by, and how much the result may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// What it is a share for.
    pub of: &'static str,
    /// So many parts of it are in a round.
    pub parts: u64,
    /// So many parts are one of it.
    pub units: u64,
    /// Instructions for each, whatever was committed.
    pub instructions_max: Option<u64>,
}

const USUAL: [(&str, u32, Work); 7] = [
    ("parse/998B_x250", 20, Work::Parse { events: 250 }),
    ("parse/136B_x1000", 20, Work::Parse { events: 1_000 }),
    ("parse/998B_x1", 500, Work::Parse { events: 1 }),
    ("encode/800B_x250", 100, Work::Encode),
    ("request/998B_x250", 40, Work::Request { events: 250 }),
    ("request/998B_x10", 200, Work::Request { events: 10 }),
    ("request/998B_x1", 2_000, Work::Request { events: 1 }),
];

impl Case {
    /// Everything that is counted.
    pub fn all() -> impl Iterator<Item = Self> {
        let usual = USUAL.into_iter().map(|(name, rounds, work)| Self {
            name: name.to_owned(),
            rounds,
            work,
        });
        let hostile = Hostile::all().map(|hostile| Self {
            name: hostile.name(),
            rounds: HOSTILE_ROUNDS,
            work: Work::Hostile(hostile),
        });
        usual.chain(hostile)
    }

    /// The case of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|case| case.name == name)
    }

    /// What a round is shared between.
    ///
    /// # Errors
    /// A hostile request could not be made.
    pub fn share(&self) -> Result<Share> {
        let of_events = |events: u32| Share {
            of: "an event",
            parts: u64::from(events),
            units: 1,
            instructions_max: None,
        };
        Ok(match self.work {
            Work::Parse { events } | Work::Request { events } => of_events(events),
            Work::Encode => of_events(ROWS),
            Work::Hostile(hostile) => share_of(hostile, &hostile.sent()?),
        })
    }

    /// Does the work: the warm-up and so many rounds.
    ///
    /// # Errors
    /// What is counted does not work.
    pub fn run(&self, rounds: u32) -> Result<()> {
        let warm_up = match self.work {
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
            Work::Hostile(hostile) => {
                let mut server = Server::of(&hostile)?;
                Box::new(move || server.once().map(|_| ()))
            }
        })
    }

    /// The part of its name behind the slash names the bodies.
    fn workload(&self) -> Result<Workload> {
        let name = self.name.rsplit_once('/').map(|(_, name)| name);
        WORKLOADS
            .into_iter()
            .find(|workload| Some(workload.name) == name)
            .with_context(|| format!("{} names no workload", self.name))
    }
}

fn share_of(hostile: Hostile, sent: &Sent) -> Share {
    match hostile.way {
        Way::Known | Way::KnownBomb => Share {
            of: "a decoded byte",
            parts: sent.plain_bytes as u64,
            units: 1,
            instructions_max: Some(match hostile.compression.encoding() {
                Encoding::Brotli | Encoding::Lz64 => PER_SLOW_BYTE_MAX,
                _ => PER_DECODED_BYTE_MAX,
            }),
        },
        Way::Nobodys | Way::Bomb => Share {
            of: "a kB sent",
            parts: (sent.body.len() as u64).max(BYTES_PER_KB),
            units: BYTES_PER_KB,
            instructions_max: Some(PER_KB_SENT_MAX),
        },
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
            // Hostile ones are run where they are.
            if !matches!(case.work, Work::Hostile(_)) {
                case.run(1).unwrap();
            }
        }
        assert!(Case::named("parse/nothing").is_none());
    }
}
