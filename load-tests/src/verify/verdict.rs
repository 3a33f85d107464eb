//! What was found, in numbers and in words.

use serde::Serialize;
use std::fmt;

/// Most batches named in a verdict, per kind of mistake.
const NAMED_MAX: usize = 10;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Events of acknowledged batches, according to the ledger.
    pub acknowledged_events: u64,
    /// Rows of the ledger's runs, according to ClickHouse.
    pub rows: u64,
    /// Different uuids among them.
    pub uuids: u64,
    /// Acknowledged batches of which nothing or not all is there.
    pub missing: Wrong,
    /// Batches with rows of the same uuid.
    pub duplicated: Wrong,
    /// Batches without acknowledgement of which a part is there.
    pub partial: Wrong,
    /// Batches without acknowledgement that are there whole: allowed.
    pub unacknowledged_but_stored: u64,
}

/// Batches with one kind of mistake.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Wrong {
    /// How many.
    pub batches: u64,
    /// How many events are too few or too many.
    pub events: u64,
    /// The first of them, in words.
    pub examples: Vec<String>,
}

impl Wrong {
    pub(super) fn add(&mut self, events: u64, example: impl FnOnce() -> String) {
        self.batches += 1;
        self.events += events;
        if self.examples.len() < NAMED_MAX {
            self.examples.push(example());
        }
    }
}

impl Verdict {
    /// Whether every acknowledged event is there exactly once and nothing is there in part.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.missing.batches == 0 && self.duplicated.batches == 0 && self.partial.batches == 0
    }

    /// Whether waiting changes nothing. Rows that are there twice stay; but beside them others may
    /// be on their way, which must not be called missing.
    pub(super) const fn is_settled(&self) -> bool {
        self.missing.batches == 0 && self.partial.batches == 0
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "acknowledged events          {}",
            self.acknowledged_events
        )?;
        writeln!(f, "rows in ClickHouse           {}", self.rows)?;
        writeln!(f, "different uuids              {}", self.uuids)?;
        writeln!(
            f,
            "unacknowledged but stored    {} batches (allowed)",
            self.unacknowledged_but_stored
        )?;
        for (name, wrong) in [
            ("missing", &self.missing),
            ("duplicated", &self.duplicated),
            ("stored in part", &self.partial),
        ] {
            writeln!(
                f,
                "{name:<28} {} events in {} batches",
                wrong.events, wrong.batches
            )?;
            for example in &wrong.examples {
                writeln!(f, "    {example}")?;
            }
        }
        f.write_str(if self.is_clean() {
            "OK: every acknowledged event is stored exactly once"
        } else {
            "WRONG: what is stored is not what was acknowledged"
        })
    }
}
