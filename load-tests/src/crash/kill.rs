//! Victims and times of the kills.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Time under load before a random kill. Live rows wait a second before they are sent, historical
/// ones five: with shorter times a kill would never meet their inserts.
const LIVE_DELAY_MS: RangeInclusive<u64> = 0..=3_000;
const HISTORICAL_DELAY_MS: RangeInclusive<u64> = 4_500..=8_000;
/// One kill in this many comes under purely historical load.
const HISTORICAL_ONE_IN: u32 = 4;
/// Passing at which an insert or a checkpoint has historical rows; the first passings belong to the
/// remaining live ones.
const HISTORICAL_NTH: RangeInclusive<u64> = 3..=8;

/// Process to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Victim {
    /// The process that accepts events; an embedded engine dies with it.
    Ingest,
    /// ClickHouse.
    Engine,
    /// Both processes at once.
    Both,
}

/// A fail point: a place in the server's code where it kills itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailPoint {
    /// Name in this program.
    pub name: &'static str,
    /// Name in the server.
    pub server_name: &'static str,
    /// Highest passing that kills: more do not happen within seconds.
    nth_max: u64,
    /// True if the point is on the path of an insert, so that it matters whose rows the insert has.
    on_insert: bool,
    /// Longest delay between the passing and the kill.
    delay_ms_max: u64,
    /// True if the point is passed during startup, before there is any load.
    pub at_start: bool,
}

/// Kind of a kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Kill from outside, at a random moment.
    Random(Victim),
    /// Kill from inside, at a fail point.
    At(FailPoint),
    /// Kill of the engine, just before it renames an inserted part into place.
    PartRename,
}

/// A kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Number of the kill, from 1, over all folders.
    pub number: u32,
    /// Kind of the kill.
    pub kind: Kind,
    /// Passing of the fail point, from 1.
    pub nth: u64,
    /// Delay after the start of the load, or after the passing.
    pub delay: Duration,
    /// True if only historical events are sent before the kill.
    pub historical: bool,
}

const fn point(name: &'static str, nth_max: u64) -> FailPoint {
    FailPoint {
        name,
        server_name: name,
        nth_max,
        on_insert: false,
        delay_ms_max: 0,
        at_start: false,
    }
}

const fn inserting(name: &'static str) -> FailPoint {
    FailPoint {
        on_insert: true,
        ..point(name, 3)
    }
}

const fn starting(name: &'static str) -> FailPoint {
    FailPoint {
        at_start: true,
        // Each lane passes it once.
        ..point(name, 2)
    }
}

/// All fail points. An insert stays in flight for some milliseconds after it was sent;
/// `insert-sent` stands for that time and is not known to the server.
pub const POINTS: [FailPoint; 16] = [
    point("frame-appended", 400),
    point("group-synced", 400),
    FailPoint {
        delay_ms_max: 3,
        ..point("request-answered", 400)
    },
    point("segment-made", 2),
    inserting("checkpoint-due"),
    inserting("checkpoint-written"),
    inserting("checkpoint-renamed"),
    inserting("checkpoint-stored"),
    inserting("insert-due"),
    FailPoint {
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
    /// All kinds.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let random = Victim::ALL.into_iter().map(Self::Random);
        let points = POINTS.into_iter().map(Self::At);
        random.chain(points).chain([Self::PartRename]).collect()
    }

    const fn is_at_start(self) -> bool {
        matches!(self, Self::At(FailPoint { at_start: true, .. }))
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
    /// Setting that makes the server kill itself, if this kill comes from inside.
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

/// Draws `count` kills: every kind equally often, in random order. The first kill of a folder is
/// not one during startup, as there would be nothing to recover.
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
        // Most threads of the engine rename only once or twice.
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
    fn the_same_seed_draws_the_same_kills() {
        let kinds = Kind::all();
        assert_eq!(draw(&kinds, 100, 25, 7), draw(&kinds, 100, 25, 7));
        assert_ne!(draw(&kinds, 100, 25, 7), draw(&kinds, 100, 25, 8));
    }

    #[test]
    fn every_kind_is_drawn_equally_often_and_the_first_kill_is_never_during_startup() {
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
    fn a_fail_point_setting_has_name_passing_and_delay() {
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
