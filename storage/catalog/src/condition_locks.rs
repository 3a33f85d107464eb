//! Locks of a condition, and the outcomes of its check.

use sea_orm::prelude::Uuid;

/// Outcome of checking a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionOutcome {
    /// The change may be made.
    Holds,
    /// The change may not be made: somebody else was faster.
    Broken,
    /// The condition could not be checked.
    Unknown,
}

/// Rows behind whose locks all changes of a resource are decided, in the order of locking.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConditionLocks {
    /// Organization of the resource; `None`: it belongs to none.
    pub organization_id: Option<Uuid>,
    /// Owner of a personal key.
    pub user_id: Option<i64>,
    /// Batch export, as its runs change it behind its own lock.
    pub batch_export_id: Option<Uuid>,
}
