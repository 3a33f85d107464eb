//! What is counted.

use crate::hot_path::{Parsing, Requests, event, memory_dir};
use crate::requests::{WORKLOADS, Workload};
use anyhow::{Context, Result};
use std::hint::black_box;

const ROWS: u32 = 250;

/// Rounds before those that count: buffers have grown and the log has seen that its disk is fast.
const WARM_UP: u32 = 40;

/// One thing to count.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name in the committed file.
    pub name: &'static str,
    /// Rounds that are counted.
    pub rounds: u32,
    /// Events of a round.
    pub events: u32,
    work: Work,
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Parse,
    Encode,
    Request,
}

const fn case(name: &'static str, rounds: u32, events: u32, work: Work) -> Case {
    Case {
        name,
        rounds,
        events,
        work,
    }
}

/// Everything that is counted.
pub const CASES: [Case; 7] = [
    case("parse/998B_x250", 20, 250, Work::Parse),
    case("parse/136B_x1000", 20, 1_000, Work::Parse),
    case("parse/998B_x1", 500, 1, Work::Parse),
    case("encode/800B_x250", 100, ROWS, Work::Encode),
    case("request/998B_x250", 40, 250, Work::Request),
    case("request/998B_x10", 200, 10, Work::Request),
    case("request/998B_x1", 2_000, 1, Work::Request),
];

impl Case {
    /// The case of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        CASES.into_iter().find(|case| case.name == name)
    }

    /// Does the work: the warm-up and so many rounds.
    ///
    /// # Errors
    /// What is counted does not work.
    pub fn run(self, rounds: u32) -> Result<()> {
        let mut work = self.prepare()?;
        (0..WARM_UP + rounds).try_for_each(|_| work())
    }

    fn prepare(self) -> Result<Box<dyn FnMut() -> Result<()>>> {
        Ok(match self.work {
            Work::Encode => {
                let mut out = Vec::new();
                Box::new(move || {
                    encode(&mut out);
                    Ok(())
                })
            }
            Work::Parse => {
                let mut parsing = Parsing::of(self.workload()?.body(false));
                Box::new(move || parsing.once())
            }
            Work::Request => {
                let mut requests = Requests::of(self.workload()?, &memory_dir())?;
                Box::new(move || requests.once())
            }
        })
    }

    /// The part of its name behind the slash names the bodies.
    fn workload(self) -> Result<Workload> {
        let name = self.name.rsplit_once('/').map(|(_, name)| name);
        WORKLOADS
            .into_iter()
            .find(|workload| Some(workload.name) == name)
            .with_context(|| format!("{} names no workload", self.name))
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
        for case in CASES {
            assert_eq!(Case::named(case.name).unwrap().rounds, case.rounds);
            case.run(1).unwrap();
        }
        assert!(Case::named("parse/nothing").is_none());
    }
}
