//! Rules of a request, and how an event can stand to them.

use millrace_rows::{Micros, ProjectId};
use uuid::Uuid;

/// Rules that hold for all events of a request.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'b> {
    pub body: &'b [u8],
    pub received_at: Micros,
    pub request_id: Uuid,
    pub project_id: ProjectId,
    pub historical: bool,
    /// Microseconds by which timestamps are moved; see [`crate::skew`].
    pub shift: i64,
    pub event_bytes_max: usize,
    /// True if an event without a name is an `$identify`.
    pub nameless_is_identify: bool,
    /// True if events may have a `historical_migration` of their own: the single one may, as its
    /// object is the request.
    pub is_single: bool,
    /// True if `options` of the v1 protocol are heeded.
    pub is_v1: bool,
}

/// Rule that an event violates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    pub code: &'static str,
    pub detail: &'static str,
    /// Field, as a path from the event; empty for the event itself.
    pub field: &'static str,
}

/// Builds a violation.
pub(super) const fn violation(
    code: &'static str,
    field: &'static str,
    detail: &'static str,
) -> Violation {
    Violation {
        code,
        detail,
        field,
    }
}

/// Warnings about an event that is stored all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warnings {
    pub illegal_distinct_id: bool,
    pub missing_timestamp: bool,
    pub future_timestamp: bool,
    pub person_update_too_large: bool,
}

impl Warnings {
    /// Returns true if there is a warning.
    #[inline]
    pub const fn any(self) -> bool {
        self.illegal_distinct_id
            || self.missing_timestamp
            || self.future_timestamp
            || self.person_update_too_large
    }
}
