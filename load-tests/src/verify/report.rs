//! Result of a verification, in numbers and in words.

use crate::digits::counted;
use serde::Serialize;
use std::fmt;

/// Highest number of batches that a report names, per kind of mismatch.
const NAMED_MAX: usize = 10;

/// Result of comparing a ledger with ClickHouse.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Number of events in acknowledged batches, according to the ledger.
    pub acknowledged_events: u64,
    /// Number of rows of the ledger's runs in ClickHouse.
    pub rows: u64,
    /// Number of different uuids among the rows.
    pub uuids: u64,
    /// Acknowledged batches that are missing, in whole or in part.
    pub missing: Mismatch,
    /// Batches with several rows of the same uuid.
    pub duplicated: Mismatch,
    /// Batches without acknowledgement that are stored in part.
    pub partial: Mismatch,
    /// Number of batches without acknowledgement that are stored whole, which is allowed.
    pub unacknowledged_but_stored: u64,
}

/// Batches with one kind of mismatch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// Number of batches.
    pub batches: u64,
    /// Number of missing or surplus events.
    pub events: u64,
    /// The first such batches, in words.
    pub examples: Vec<String>,
}

impl Mismatch {
    pub(super) fn add(&mut self, events: u64, example: impl FnOnce() -> String) {
        self.batches += 1;
        self.events += events;
        if self.examples.len() < NAMED_MAX {
            self.examples.push(example());
        }
    }
}

impl VerifyReport {
    /// Returns true if every acknowledged event is stored exactly once and no batch is stored in
    /// part.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.missing.batches == 0 && self.duplicated.batches == 0 && self.partial.batches == 0
    }

    /// Returns true if waiting would change nothing. Duplicates stay, but while they are there
    /// other rows may still be in flight, which must not count as missing.
    pub(super) const fn is_settled(&self) -> bool {
        self.missing.batches == 0 && self.partial.batches == 0
    }
}

impl fmt::Display for VerifyReport {
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
            "unacknowledged but stored    {} (allowed)",
            counted(self.unacknowledged_but_stored, "batch")
        )?;
        for (name, wrong) in [
            ("missing", &self.missing),
            ("duplicated", &self.duplicated),
            ("stored in part", &self.partial),
        ] {
            writeln!(
                f,
                "{name:<28} {} in {}",
                counted(wrong.events, "event"),
                counted(wrong.batches, "batch")
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
