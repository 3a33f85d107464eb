//! When sections become an insert.

use millrace_clickhouse::{INSERT_BYTES_MAX, INSERT_ROWS_MAX};
use millrace_rows::{Lane, Month};
use std::time::Duration;

/// When sections that wait are sent, and how much may wait or be under way.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rows that make an insert worth sending at once.
    pub rows_target: u64,
    /// Bytes of rows, before compression, that do.
    pub bytes_target: u64,
    /// How long rows of this month and the last may wait for company.
    pub age_recent: Duration,
    /// How long rows of older months may: they come in drips, and every insert is a part.
    pub age_old: Duration,
    /// From one insert to the next that is sent as if its older month were recent: however many
    /// months there are, so many parts more and no others come of that.
    pub early_every: Duration,
    /// Such inserts that may be sent one after the other after a rest.
    pub early_max: u32,
    /// Inserts under way at once.
    pub in_flight_max: usize,
    /// Sections known in memory; the log is not read further until some are settled.
    pub sections_max: usize,
    /// Parts of a table's inserts up to which further ones are taken apart without proof that their rows are to
    /// blame: in an outage that nobody can tell from bad rows, a table has some times as many. While so many wait
    /// for their turn, nothing further of the table is begun.
    pub parts_max: usize,
}

impl Limits {
    /// The defaults of a lane.
    #[must_use]
    pub const fn of(lane: Lane) -> Self {
        match lane {
            Lane::Live => Self {
                rows_target: 100_000,
                bytes_target: 96 << 20,
                age_recent: Duration::from_secs(1),
                age_old: Duration::from_secs(5),
                early_every: Duration::from_secs(1),
                early_max: 8,
                in_flight_max: 4,
                sections_max: 65_536,
                parts_max: 128,
            },
            Lane::Historical => Self {
                rows_target: 500_000,
                bytes_target: 120 << 20,
                age_recent: Duration::from_secs(5),
                age_old: Duration::from_secs(5),
                early_every: Duration::from_secs(1),
                early_max: 8,
                in_flight_max: 2,
                sections_max: 65_536,
                parts_max: 128,
            },
        }
    }

    /// Whether a section still fits an insert that has `rows` and `row_bytes`.
    pub(super) const fn fits(rows: u64, row_bytes: u64) -> bool {
        rows <= INSERT_ROWS_MAX && row_bytes <= INSERT_BYTES_MAX
    }

    /// How long rows of `month` may wait, if `recent` is the earliest month that counts as recent.
    pub(super) fn age(&self, month: Month, recent: Month) -> Duration {
        if month >= recent {
            self.age_recent
        } else {
            self.age_old
        }
    }

    /// How long rows may wait if their month is taken for recent.
    pub(super) fn age_early(&self) -> Duration {
        self.age_recent.min(self.age_old)
    }
}
