//! Starts of a node, which tell a data folder from a copy of it.
//!
//! A start has a number and a random id. The folder knows two: the one that the catalog had when
//! the folder's process started last, and that process's own, written down before the catalog hears
//! of it; so a crash in between leaves nothing unknown. If the catalog has neither of them, and a
//! higher number than the folder has seen, somebody started a copy of the folder since: it was
//! copied, or restored.
//!
//! | The catalog's last start | The folder |
//! |---|---|
//! | is known to it | ran last, or was copied since: the new process takes the name over |
//! | is unknown and later | is behind: another copy runs, or ran |
//! | is unknown and not later | is ahead: the catalog was restored |

use crate::entities::ingest_nodes::{Model, NodeState};
use crate::time::UtcTime;
use std::time::Duration;

/// Time since a node's last sign of life within which it counts as running: twice the time between
/// two signs of life. A node whose name was taken over ends in less.
pub const NODE_SILENCE_MAX: Duration = Duration::from_secs(20);

/// One start of a node. Nodes whose starts were not counted yet have the number 0 and no id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeStart {
    /// Number of the start.
    pub count: i64,
    /// Random id.
    pub id: String,
}

/// Starts that a data folder knows of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeStarts {
    /// Start that the catalog had when the process started.
    pub before: NodeStart,
    /// Start of the process itself, which the catalog may not have heard of.
    pub own: NodeStart,
}

/// Decision that a folder may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextStart {
    /// Starts that the folder is to know of, with the new one.
    pub starts: NodeStarts,
    /// True if another copy of the folder was started since.
    pub is_behind: bool,
}

impl NodeStarts {
    /// Returns true if a start is one of these.
    #[must_use]
    pub fn knows(&self, id: &str) -> bool {
        id == self.before.id || id == self.own.id
    }

    /// Decides whether the folder may start as `id`, by the node's row in the catalog.
    ///
    /// # Errors
    /// The row, if another copy of the folder runs.
    pub fn next(
        &self,
        row: Option<&Model>,
        id: String,
        now: UtcTime,
    ) -> Result<NextStart, Box<Model>> {
        let known_max = self.before.count.max(self.own.count);
        let Some(row) = row else {
            let count = known_max.saturating_add(1);
            let starts = NodeStarts {
                before: NodeStart::default(),
                own: NodeStart { count, id },
            };
            return Ok(NextStart {
                starts,
                is_behind: false,
            });
        };
        let is_behind = !self.knows(&row.start_id) && row.start_count > self.before.count;
        if is_behind && row.may_run(now) {
            return Err(Box::new(row.clone()));
        }
        let starts = NodeStarts {
            before: row.start(),
            own: NodeStart {
                count: known_max.max(row.start_count).saturating_add(1),
                id,
            },
        };
        Ok(NextStart { starts, is_behind })
    }
}

impl Model {
    /// Last start of the node.
    #[must_use]
    pub fn start(&self) -> NodeStart {
        NodeStart {
            count: self.start_count,
            id: self.start_id.clone(),
        }
    }

    /// Returns true unless the node has stopped, or was not heard of for [`NODE_SILENCE_MAX`].
    #[must_use]
    pub fn may_run(&self, now: UtcTime) -> bool {
        let silence = now.0.saturating_sub(self.published_at.0).unsigned_abs();
        self.state != NodeState::Stopped && u128::from(silence) < NODE_SILENCE_MAX.as_micros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(count: i64, id: &str) -> NodeStart {
        let id = id.to_owned();
        NodeStart { count, id }
    }

    fn known(before: NodeStart, own: NodeStart) -> NodeStarts {
        NodeStarts { before, own }
    }

    fn row(start: &NodeStart, state: NodeState, silent_seconds: i64) -> Model {
        Model {
            name: "n".to_owned(),
            host: "h".to_owned(),
            state,
            watermark: None,
            updates_watermark: None,
            published_at: UtcTime(-silent_seconds * 1_000_000),
            started_at: UtcTime(0),
            start_count: start.count,
            start_id: start.id.clone(),
        }
    }

    #[test]
    fn a_folder_starts_unless_a_newer_copy_of_it_runs() {
        use NodeState::{Running, Starting, Stopped};
        let folder = known(start(5, "e"), start(6, "f"));
        let none = NodeStarts::default();
        // Last start in the catalog, with the node's state and the time since its last sign of
        // life; then whether the folder may start, whether it is behind, and the number of its
        // start.
        #[rustfmt::skip]
        let table = [
            ("after its end", &folder, start(6, "f"), Stopped, 0, Some((false, 7))),
            ("killed and started at once", &folder, start(6, "f"), Running, 0, Some((false, 7))),
            ("killed before the catalog heard of it", &folder, start(5, "e"), Running, 0, Some((false, 7))),
            ("a copy went on and runs", &folder, start(7, "g"), Running, 19, None),
            ("it has just started", &folder, start(7, "g"), Starting, 0, None),
            ("its clock is ahead", &folder, start(7, "g"), Running, -19, None),
            ("a copy was started at the same time", &folder, start(6, "g"), Running, 0, None),
            ("a copy ended well", &folder, start(7, "g"), Stopped, 0, Some((true, 8))),
            ("a copy is gone", &folder, start(9, "g"), Running, 20, Some((true, 10))),
            ("a clock that is far off", &folder, start(9, "g"), Running, -20, Some((true, 10))),
            ("the catalog was put back", &folder, start(3, "c"), Running, 0, Some((false, 7))),
            ("starts are counted from now on", &none, start(0, ""), Running, 0, Some((false, 1))),
            ("a copy of before they were", &none, start(2, "b"), Running, 0, None),
            ("the same, and it is gone", &none, start(2, "b"), Running, 60, Some((true, 3))),
        ];
        for (name, folder, last, state, silent, expected) in table {
            let row = row(&last, state, silent);
            let next = folder.next(Some(&row), "new".to_owned(), UtcTime(0));
            match (next, expected) {
                (Ok(next), Some((is_behind, count))) => {
                    assert_eq!(next.is_behind, is_behind, "{name}");
                    assert_eq!(next.starts, known(last, start(count, "new")), "{name}");
                }
                (Err(other), None) => assert_eq!(*other, row, "{name}"),
                (next, _) => panic!("{name}: {next:?}"),
            }
        }
    }

    #[test]
    fn a_node_unknown_to_the_catalog_is_never_behind() {
        for (folder, count) in [
            (NodeStarts::default(), 1),
            (known(start(5, "e"), start(6, "f")), 7),
        ] {
            let next = folder.next(None, "new".to_owned(), UtcTime(0)).unwrap();
            let expected = known(NodeStart::default(), start(count, "new"));
            assert_eq!((next.starts, next.is_behind), (expected, false));
        }
    }
}
