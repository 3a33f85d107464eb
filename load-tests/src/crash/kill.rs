//! Who is killed, and when.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Times under load before a random kill. Live rows wait a second before they are sent, and
/// historical ones five: shorter times would never meet an insert of theirs.
const LIVE_DELAY_MS: RangeInclusive<u64> = 0..=3_000;
const HISTORICAL_DELAY_MS: RangeInclusive<u64> = 4_500..=8_000;
/// One kill in so many comes under historical load alone.
const HISTORICAL_ONE_IN: u32 = 4;
/// Passings of an insert or a checkpoint that are owed to historical rows: the first belong to what
/// was left of live ones.
const HISTORICAL_NTH: RangeInclusive<u64> = 3..=8;

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Victim {
    /// The process that takes events. An embedded engine goes with it.
    Ingest,
    /// ClickHouse.
    Engine,
    /// Both at once.
    Both,
}

/// A place in the server's code where it kills itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    /// As it is called here.
    pub name: &'static str,
    /// As the server calls it.
    pub server_name: &'static str,
    /// Highest passing that kills: more do not happen within seconds.
    nth_max: u64,
    /// Whether it is on the way of an insert, so that it matters whose rows are in there.
    on_insert: bool,
    /// Longest time between the passing and the kill.
    delay_ms_max: u64,
    /// Whether it is passed while the server starts, before there is any load.
    pub at_start: bool,
}

/// One kind of kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// From outside, at a random moment.
    Random(Victim),
    /// From inside, at a place in the code.
    At(Point),
    /// The engine, when it is about to give an inserted part its name.
    PartRename,
}

/// One kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// From 1, over all folders.
    pub number: u32,
    /// Of which kind.
    pub kind: Kind,
    /// Which passing of the place, from 1.
    pub nth: u64,
    /// How long after load began, or after the passing.
    pub delay: Duration,
    /// Whether nothing but historical events is sent before.
    pub historical: bool,
}

const fn point(name: &'static str, nth_max: u64) -> Point {
    Point {
        name,
        server_name: name,
        nth_max,
        on_insert: false,
        delay_ms_max: 0,
        at_start: false,
    }
}

const fn inserting(name: &'static str) -> Point {
    Point {
        on_insert: true,
        ..point(name, 3)
    }
}

const fn starting(name: &'static str) -> Point {
    Point {
        at_start: true,
        // One per lane.
        ..point(name, 2)
    }
}

/// Every place. An insert is under way for some milliseconds after it was sent, hence the one that
/// the server does not know.
pub const POINTS: [Point; 16] = [
    point("frame-appended", 400),
    point("group-synced", 400),
    Point {
        delay_ms_max: 3,
        ..point("request-answered", 400)
    },
    point("segment-made", 2),
    inserting("checkpoint-due"),
    inserting("checkpoint-written"),
    inserting("checkpoint-renamed"),
    inserting("checkpoint-stored"),
    inserting("insert-due"),
    Point {
        name: "insert-sent",
        delay_ms_max: 12,
        ..inserting("insert-due")
    },
    inserting("insert-answered"),
    point("segment-due", 2),
    point("segment-deleted", 2),
    starting("recovery-read"),
    starting("recovery-copied"),
    starting("recovery-renamed"),
];

impl Victim {
    const ALL: [Self; 3] = [Self::Ingest, Self::Engine, Self::Both];
}

impl Kind {
    /// Every kind.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let random = Victim::ALL.into_iter().map(Self::Random);
        let points = POINTS.into_iter().map(Self::At);
        random.chain(points).chain([Self::PartRename]).collect()
    }

    const fn is_at_start(self) -> bool {
        matches!(self, Self::At(Point { at_start: true, .. }))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Random(Victim::Ingest) => "ingest",
            Self::Random(Victim::Engine) => "engine",
            Self::Random(Victim::Both) => "both",
            Self::At(point) => point.name,
            Self::PartRename => "part-rename",
        })
    }
}

impl Kill {
    /// What the server is told, if it is to kill itself.
    #[must_use]
    pub fn fail_point(&self) -> Option<String> {
        let Kind::At(point) = self.kind else {
            return None;
        };
        let delay_ms = self.delay.as_millis();
        Some(format!("{}:{}+{delay_ms}", point.server_name, self.nth))
    }
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kill {}: {}", self.number, self.kind)?;
        match self.kind {
            Kind::Random(_) => write!(f, " after {} ms", self.delay.as_millis()),
            Kind::At(_) if self.delay.is_zero() => write!(f, ", passing {}", self.nth),
            Kind::At(_) => {
                let delay_ms = self.delay.as_millis();
                write!(f, ", passing {} and {delay_ms} ms", self.nth)
            }
            Kind::PartRename => write!(f, ", rename {} of a thread", self.nth),
        }?;
        f.write_str(if self.historical {
            ", historical load"
        } else {
            ""
        })
    }
}

/// So many kills, every kind equally often, in random order, but for those at a start: the first of a
/// folder would find nothing to recover from.
#[must_use]
pub fn draw(kinds: &[Kind], count: u32, folder_kills: u32, seed: u64) -> Vec<Kill> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut drawn: Vec<Kind> = Vec::new();
    while drawn.len() < count as usize && !kinds.is_empty() {
        let mut round = kinds.to_vec();
        round.shuffle(&mut rng);
        drawn.extend(round);
    }
    drawn.truncate(count as usize);
    for folder in drawn.chunks_mut(folder_kills.max(1) as usize) {
        if let Some(first) = folder.iter().position(|kind| !kind.is_at_start()) {
            folder.swap(0, first);
        }
    }
    let numbered = (1..).zip(drawn);
    numbered
        .map(|(number, kind)| one(number, kind, &mut rng))
        .collect()
}

fn one(number: u32, kind: Kind, rng: &mut StdRng) -> Kill {
    let historical = !kind.is_at_start() && rng.random_ratio(1, HISTORICAL_ONE_IN);
    let (nth, delay_ms) = match kind {
        Kind::Random(_) if historical => (1..=1, HISTORICAL_DELAY_MS),
        Kind::Random(_) => (1..=1, LIVE_DELAY_MS),
        Kind::At(point) if historical && point.on_insert => {
            (HISTORICAL_NTH, 0..=point.delay_ms_max)
        }
        Kind::At(point) => (1..=point.nth_max, 0..=point.delay_ms_max),
        // Most threads of the engine rename but once or twice.
        Kind::PartRename => (1..=2, 0..=0),
    };
    Kill {
        number,
        kind,
        nth: rng.random_range(nth),
        delay: Duration::from_millis(rng.random_range(delay_ms)),
        historical,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_seed_gives_the_same_kills_again_and_another_gives_others() {
        let kinds = Kind::all();
        assert_eq!(draw(&kinds, 100, 25, 7), draw(&kinds, 100, 25, 7));
        assert_ne!(draw(&kinds, 100, 25, 7), draw(&kinds, 100, 25, 8));
    }

    #[test]
    fn every_kind_comes_equally_often_and_no_start_is_killed_before_there_was_load() {
        let kinds = Kind::all();
        for seed in 0..50 {
            let kills = draw(&kinds, 3 * kinds.len() as u32, 15, seed);
            let mut counts = BTreeMap::<Kind, usize>::new();
            for kill in &kills {
                *counts.entry(kill.kind).or_default() += 1;
            }
            assert!(counts.len() == kinds.len() && counts.values().all(|&count| count == 3));
            let mut firsts = kills.chunks(15).map(|folder| folder[0].kind);
            assert!(firsts.all(|kind| !kind.is_at_start()));
            assert!(
                (1..)
                    .zip(&kills)
                    .all(|(number, kill)| kill.number == number)
            );
        }
    }

    #[test]
    fn the_server_is_told_place_passing_and_delay() {
        let kill = |kind| Kill {
            number: 1,
            kind,
            nth: 2,
            delay: Duration::from_millis(5),
            historical: false,
        };
        let sent = POINTS.into_iter().find(|point| point.name == "insert-sent");
        let told = kill(Kind::At(sent.unwrap())).fail_point();
        assert_eq!(told.as_deref(), Some("insert-due:2+5"));
        assert_eq!(kill(Kind::PartRename).fail_point(), None);
    }
}
