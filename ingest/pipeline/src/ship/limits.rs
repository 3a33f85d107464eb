//! Limits that decide when sections become a batch.

use super::section::InsertKey;
use millrace_clickhouse::{INSERT_BYTES_MAX, INSERT_ROWS_MAX};
use millrace_rows::{Lane, Month, Table};
use std::time::Duration;

/// Longest time that person updates wait for more, in either lane: everybody's persons wait for
/// them, also for those of an import.
const UPDATES_AGE_MAX: Duration = Duration::from_secs(1);

/// Limits of a shipper: when waiting sections are sent, and how much may wait or be in flight.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rows that make a batch worth sending at once.
    pub rows_target: u64,
    /// Bytes of rows, before compression, that do.
    pub bytes_target: u64,
    /// Longest time that rows of this month and the last wait for more; person updates never wait
    /// for longer than a second.
    pub age_recent: Duration,
    /// Longest time that rows of older months wait for more: they trickle in, and every batch is a
    /// part.
    pub age_old: Duration,
    /// Interval at which an older month's rows may be sent as early as recent ones: it bounds the
    /// additional parts, however many months there are.
    pub early_every: Duration,
    /// Number of such early batches in a burst after a rest.
    pub early_max: u32,
    /// Batches under way at once, beside one of person updates.
    pub in_flight_max: usize,
    /// Sections in memory; the log is not read further until some are settled.
    pub sections_max: usize,
    /// Number of parts of a table up to which batches are halved without proof that their rows are
    /// to blame: in an outage that cannot be told from bad rows, a table has some times as many.
    /// While as many wait to be sent, nothing further of the table is begun.
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
                age_old: Duration::from_secs(3),
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

    /// Returns true if a batch may have so many rows and bytes.
    pub(super) const fn fits(rows: u64, row_bytes: u64) -> bool {
        rows <= INSERT_ROWS_MAX && row_bytes <= INSERT_BYTES_MAX
    }

    /// Longest time that rows of a key wait, if `recent` is the earliest month that counts as
    /// recent.
    pub(super) fn age(&self, key: &InsertKey, recent: Month) -> Duration {
        if key.table() == Some(Table::PersonUpdates) {
            self.age_recent.min(UPDATES_AGE_MAX)
        } else if key.month >= recent {
            self.age_recent
        } else {
            self.age_old
        }
    }

    /// Longest time that rows wait if they are sent early.
    pub(super) fn age_early(&self) -> Duration {
        self.age_recent.min(self.age_old)
    }
}
