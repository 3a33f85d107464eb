//! Cleanup in pieces: rows of deleted projects, organizations, batch exports and plugins, and rows
//! that are kept for a time only.
//!
//! Deleting a project deletes its row and leaves a mark (see migration `m0038`): from then on the
//! project is gone for everybody. Its persons, distinct ids and groups follow piece by piece, each
//! a transaction of its own, as in SQLite all other writers wait for one. The mark goes last, so
//! after a crash the next process goes on. Batch exports (migration `m0042`) and plugins (`m0045`)
//! are deleted likewise, whatever deletes them: the runs, backfills and lines of exports follow,
//! and the source files of plugins. A global plugin that is withdrawn leaves a mark as well
//! (`m0047`): the configurations of other organizations follow.
//!
//! | Module | Holds |
//! |---|---|
//! | `leftovers` | rows that deleted projects and organizations left |
//! | `activity` | old entries of the activity log |
//! | `exports` | rows that deleted batch exports left |
//! | `plugins` | source files that deleted plugins left |
//! | `keys` | personal keys that ended long ago |
//! | `users` | users who have nothing any more |
//! | `in_force` | condition for keys in force |
//! | `sessions` | sessions and sign-in links that have ended |
//! | `withdrawn` | configurations of withdrawn plugins in other organizations |

mod activity;
mod exports;
mod in_force;
mod keys;
mod leftovers;
mod plugins;
mod sessions;
mod users;
mod withdrawn;

pub use in_force::in_force;
pub use sessions::{SESSION_IDLE_MAX, session_in_force};
pub use users::mark_used;
pub use withdrawn::uses_by_others;

use crate::catalog::Catalog;

/// Deletion of rows that outlived what they belong to, and of old rows.
#[derive(Clone, Copy, Debug)]
pub struct Cleanup<'a>(&'a Catalog);

impl<'a> Cleanup<'a> {
    /// Returns a handle that cleans up a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

/// Rows that one piece deletes at most.
const ROWS_MAX: u64 = 2_000;
/// Bytes of properties that one piece deletes, but for its last row.
const BYTES_MAX: u64 = 8 << 20;
/// Entries of the activity log that one piece deletes at most; each has up to 32 KiB.
const ENTRIES_MAX: u64 = 250;
/// Users that one piece deletes at most; what refers to them is changed with them.
const USERS_MAX: u64 = 250;
