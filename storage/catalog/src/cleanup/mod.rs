//! Deleting much: what deleted projects, organizations and batch exports left, and old entries of the activity log.
//!
//! Whoever deletes a project deletes its row and a mark of it stays (see migration `m0038`): from then on the
//! project is gone for everybody. Its persons, distinct ids and groups, which nobody can ask for any more, follow
//! piece by piece, each a transaction of its own, as in SQLite all other writers wait for one. The
//! mark goes last, so whoever is killed in the middle is followed by another one who goes on. It is the same with
//! batch exports (migration `m0042`), whoever deletes them: their runs, backfills and lines follow.
//!
//! | Module | Holds |
//! |---|---|
//! | `leftovers` | what deleted projects and organizations left |
//! | `activity` | old entries of the activity log |
//! | `exports` | what deleted batch exports left |

mod activity;
mod exports;
mod leftovers;

/// Rows that one piece deletes at the most.
const ROWS_MAX: u64 = 2_000;
/// Bytes of properties that one piece deletes, but for its last row.
const BYTES_MAX: u64 = 8 << 20;
/// Entries of the activity log that one piece deletes at the most; each has up to 32 KiB.
const ENTRIES_MAX: u64 = 250;
