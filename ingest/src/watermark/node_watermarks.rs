//! Watermarks of a node: of all its rows, and of its person updates alone.

use millrace_catalog::{UtcTime, Watermarks};
use millrace_rows::Micros;

/// Times before which rows of the node are in ClickHouse, by `created_at`; `None` until they are
/// known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeWatermarks {
    all: Option<Micros>,
    /// Never before `all`.
    updates: Option<Micros>,
}

impl NodeWatermarks {
    /// Time of all rows: the watermark.
    #[must_use]
    pub const fn all(&self) -> Option<Micros> {
        self.all
    }

    /// Time of person updates; never before that of all rows.
    #[must_use]
    pub const fn updates(&self) -> Option<Micros> {
        self.updates
    }

    /// Records that all rows before a time are in ClickHouse.
    pub(super) fn pass_all(&mut self, time: Micros) {
        self.all = self.all.max(Some(time));
        self.pass_updates(time);
    }

    /// Records that all person updates before a time are in ClickHouse.
    pub(super) fn pass_updates(&mut self, time: Micros) {
        self.updates = self.updates.max(Some(time));
    }

    /// Watermarks to be published: none before that of all rows is known.
    pub(super) fn known(&self) -> Option<Watermarks> {
        let (all, updates) = (self.all?, self.updates?);
        Some(Watermarks {
            all: UtcTime::from(all),
            updates: UtcTime::from(updates),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn person_updates_are_never_behind_and_are_not_published_alone() {
        let mut watermarks = NodeWatermarks::default();
        watermarks.pass_updates(Micros(5));
        assert_eq!(watermarks.known(), None);
        let mut known = |pass: fn(&mut NodeWatermarks, Micros), time| {
            pass(&mut watermarks, Micros(time));
            let known = watermarks.known().unwrap();
            [known.all.0, known.updates.0]
        };
        assert_eq!(known(NodeWatermarks::pass_all, 3), [3, 5]);
        assert_eq!(known(NodeWatermarks::pass_all, 7), [7, 7]);
        assert_eq!(known(NodeWatermarks::pass_updates, 9), [7, 9]);
    }
}
