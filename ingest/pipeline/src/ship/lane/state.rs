//! States of a lane's shipper: its phase, its reading of the log, its knowledge of the server.
//!
//! They are independent of one another. Beside them there is one time, until which the shipper
//! pauses after a failure of the disk.

use millrace_log::Position;
use tokio::time::Instant;
use uuid::Uuid;

/// Phase of a shipper: from `Running` to `Draining` when it is told to end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    /// Rows wait for more before they are sent.
    Running,
    /// All that waits is sent, and the shipper ends after that, or at the deadline.
    Draining { deadline: Instant },
}

impl Phase {
    pub(super) const fn is_draining(self) -> bool {
        matches!(self, Self::Draining { .. })
    }

    /// Time at which the shipper ends at the latest, if it is told to end.
    pub(super) const fn deadline(self) -> Option<Instant> {
        match self {
            Self::Running => None,
            Self::Draining { deadline } => Some(deadline),
        }
    }
}

/// State of reading the log.
///
/// | From | To | When |
/// |---|---|---|
/// | `Behind` | `AtEnd` | the synced end is reached |
/// | `AtEnd` | `Behind` | frames behind that end are read |
/// | `AtEnd` | `Over` | no frames will come, and none is left to be read |
#[derive(Clone, Copy, Debug)]
pub(super) enum Reading {
    /// There may be frames that were not read.
    Behind,
    /// Everything up to `end` is read. New frames are looked for when the rest is over.
    AtEnd { end: Position, rest_over: Instant },
    /// The whole log is read, and the commit thread has ended.
    Over,
}

impl Reading {
    /// Returns true if everything up to the synced end is read.
    pub(super) fn has_read(self, synced: Position) -> bool {
        match self {
            Self::Behind => false,
            Self::AtEnd { end, .. } => end == synced,
            Self::Over => true,
        }
    }

    /// Time before which new frames are not looked for, if it is yet to come.
    pub(super) fn rests_until(self, now: Instant) -> Option<Instant> {
        match self {
            Self::AtEnd { rest_over, .. } => Some(rest_over).filter(|at| now < *at),
            Self::Behind | Self::Over => None,
        }
    }

    /// Records that the commit thread has ended, if everything up to the synced end is read.
    pub(super) fn log_ended(&mut self, synced: Position) {
        if self.has_read(synced) {
            *self = Self::Over;
        }
    }
}

/// Boot id of the server, which is recorded with each batch.
///
/// | From | To | When |
/// |---|---|---|
/// | `Unknown` | `Asked` | a batch is due, and the pause is over |
/// | `Asked` | `Known` | the server answers |
/// | `Asked` | `Unknown` | it does not: it is asked again after a pause |
/// | `Known` | `Unknown` | the result of a batch tells of a restart |
#[derive(Clone, Copy, Debug)]
pub(super) enum BootId {
    /// Not known, and not to be asked for before a time.
    Unknown { ask_not_before: Instant },
    /// A task asks for it.
    Asked,
    /// Boot id of the server's last answer.
    Known(Uuid),
}

impl BootId {
    /// A boot id to be asked for as soon as a batch is due.
    pub(super) fn unknown() -> Self {
        Self::Unknown {
            ask_not_before: Instant::now(),
        }
    }

    pub(super) const fn known(self) -> Option<Uuid> {
        match self {
            Self::Known(boot_id) => Some(boot_id),
            Self::Unknown { .. } | Self::Asked => None,
        }
    }

    /// Forgets a boot id that is known: the server may have restarted.
    pub(super) fn forget(&mut self) {
        if let Self::Known(_) = self {
            *self = Self::unknown();
        }
    }

    /// Time at which a batch that is due goes on; `None` if it waits for an answer.
    pub(super) fn next_step(self, now: Instant) -> Option<Instant> {
        match self {
            Self::Unknown { ask_not_before } => Some(ask_not_before.max(now)),
            Self::Asked => None,
            Self::Known(_) => Some(now),
        }
    }
}

/// Rows that were in the log at the start and are not known to be shipped, counted while they are
/// read.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnshippedRows {
    /// End of the log at the start.
    opened_at: Position,
    rows: u64,
    is_told: bool,
}

impl UnshippedRows {
    /// Creates the count for a log that was opened at `opened_at`; nothing of it was read yet.
    pub(super) const fn before(opened_at: Position) -> Self {
        Self {
            opened_at,
            rows: 0,
            is_told: false,
        }
    }

    /// Counts the rows of a frame that was read.
    pub(super) fn count(&mut self, frame: Position, rows: u64) {
        if frame < self.opened_at {
            self.rows += rows;
        }
    }

    /// Returns the number of rows, once, when all of them were read.
    pub(super) fn once_read(&mut self, read_to: Position) -> Option<u64> {
        let is_due = !self.is_told && self.opened_at <= read_to;
        self.is_told |= is_due;
        is_due.then_some(self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn unshipped_rows_of_a_start_are_told_once_and_without_later_rows() {
        let [first, opened_at, later] =
            [64, 128, 192].map(|offset| Position { segment: 1, offset });
        let mut unshipped = UnshippedRows::before(opened_at);
        unshipped.count(first, 7);
        assert_eq!(unshipped.once_read(first), None);
        unshipped.count(opened_at, 1);
        assert_eq!(unshipped.once_read(later), Some(7));
        assert_eq!(unshipped.once_read(later), None);
    }

    #[test]
    fn the_end_of_the_commit_thread_leaves_nothing_unread() {
        let [end, behind] = [64, 128].map(|offset| Position { segment: 1, offset });
        let rest_over = Instant::now();
        let read = Reading::AtEnd { end, rest_over };
        for (mut reading, synced, is_over) in [
            (Reading::Behind, end, false),
            (read, behind, false),
            (read, end, true),
        ] {
            reading.log_ended(synced);
            assert_eq!(matches!(reading, Reading::Over), is_over, "{reading:?}");
            assert_eq!(reading.has_read(synced), is_over);
        }
    }

    #[test]
    fn a_boot_id_is_asked_for_once_and_not_before_its_pause_is_over() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let pauses = BootId::Unknown {
            ask_not_before: later,
        };
        assert_eq!(pauses.next_step(now), Some(later));
        let mut asked = BootId::Asked;
        asked.forget();
        assert_eq!(asked.next_step(now), None, "one question at a time");
        let mut known = BootId::Known(Uuid::nil());
        assert_eq!(
            (known.known(), known.next_step(now)),
            (Some(Uuid::nil()), Some(now))
        );
        known.forget();
        assert!(known.known().is_none() && known.next_step(now).is_some());
    }
}
