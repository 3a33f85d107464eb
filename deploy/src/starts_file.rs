//! File `starts` of a data folder: the last starts of its node, the lock that the last one held,
//! and the node whose folder this one is a copy of.

use crate::data_dir::replace;
use anyhow::Context;
use millrace_catalog::{IngestNode, NODE_SILENCE_MAX, NodeStart, NodeStarts, NodeState, UtcTime};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Contents of the file. Earlier versions wrote, and read, the starts only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartsFile {
    pub starts: NodeStarts,
    /// [Lock](crate::data_dir::lock_id) of the last start: a process that holds it knows that the
    /// one before has ended.
    pub lock: Option<String>,
    /// Time until which a process elsewhere may run whose name the last start took over.
    pub taken_over_until: Option<UtcTime>,
    pub origin: Option<OriginalNode>,
}

/// Node whose folder was copied, and which may have rows in its log that the copy has, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginalNode {
    pub name: String,
    /// Time after the copy, by all clocks; `None` until it is set.
    pub copied_by: Option<UtcTime>,
}

impl StartsFile {
    /// Loads what the folder records for the node of this name; nothing by default. A file with
    /// another name was copied along with the folder.
    pub fn load(data_dir: &Path, name: &str) -> anyhow::Result<Self> {
        let path = path(data_dir);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(parse(&text, name).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Stores it durably.
    pub fn store(&self, data_dir: &Path, name: &str) -> std::io::Result<()> {
        let start = |start: &NodeStart| format!("{} {}\n", start.count, start.id);
        let mut text = format!(
            "{name}\n{}{}",
            start(&self.starts.before),
            start(&self.starts.own)
        );
        if let Some(lock) = &self.lock {
            text += &format!("lock {lock}\n");
        }
        if let Some(until) = self.taken_over_until {
            text += &format!("taken-over-until {}\n", until.0);
        }
        if let Some(OriginalNode { name, copied_by }) = &self.origin {
            let copied_by = copied_by.map(|at| format!(" {}", at.0)).unwrap_or_default();
            text += &format!("copy-of {name}{copied_by}\n");
        }
        replace(&path(data_dir), text.as_bytes())
    }

    /// Returns true if the last start held this lock, so that its process has ended, and took the
    /// name over from nobody who may still run.
    pub fn is_own_lock(&self, lock: Option<&str>, now: UtcTime) -> bool {
        let is_ending = self.taken_over_until.is_some_and(|until| now < until);
        self.lock.is_some() && self.lock.as_deref() == lock && !is_ending
    }

    /// Returns true if the node's last start in the catalog was on this very folder, so that its
    /// process has ended.
    pub fn is_own_start(&self, last: &IngestNode, lock: Option<&str>, now: UtcTime) -> bool {
        self.is_own_lock(lock, now) && self.starts.knows(&last.start_id)
    }

    /// Returns true if a process that started before may still run, on the folder that this one was
    /// copied from. `last` has the node's last start.
    pub fn may_run_elsewhere(&self, last: &IngestNode, lock: Option<&str>, now: UtcTime) -> bool {
        let is_own = self.lock.is_some() && self.lock.as_deref() == lock;
        let is_last = is_own && last.start_id == self.starts.own.id;
        let is_ending = self.taken_over_until.is_some_and(|until| now < until);
        last.may_run(now) && (is_ending || !is_last)
    }
}

impl OriginalNode {
    /// Returns the origin if it was not stopped and may still ship rows that this folder's log has;
    /// whether it is silent is found out by waiting. Its watermark tells when it has shipped them:
    /// no row of before the copy has a later time.
    pub fn holding(&self, row: Option<&IngestNode>, now: UtcTime) -> Option<Self> {
        let row = row.filter(|row| row.state != NodeState::Stopped)?;
        let latest = now.max(row.published_at).max(row.watermark.unwrap_or(now));
        let after_copy = silence_after(latest);
        // The earliest, as a clock may have been ahead.
        let copied_by = self.copied_by.map_or(after_copy, |at| at.min(after_copy));
        let is_past = row.watermark.is_some_and(|watermark| watermark > copied_by);
        let has_shipped = row.state == NodeState::Running && is_past;
        (!has_shipped).then(|| Self {
            name: self.name.clone(),
            copied_by: Some(copied_by),
        })
    }
}

/// Time at which a process has ended or is heard of that ran at another.
pub fn silence_after(at: UtcTime) -> UtcTime {
    let silence = i64::try_from(NODE_SILENCE_MAX.as_micros()).unwrap_or(i64::MAX);
    UtcTime(at.0.saturating_add(silence))
}

pub fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("starts")
}

fn parse(text: &str, name: &str) -> Option<StartsFile> {
    let mut lines = text.lines();
    let node = lines.next().filter(|node| !node.is_empty())?;
    if node != name {
        return Some(StartsFile {
            origin: Some(OriginalNode {
                name: node.to_owned(),
                copied_by: None,
            }),
            ..StartsFile::default()
        });
    }
    let starts = NodeStarts {
        before: parse_start(lines.next()?)?,
        own: parse_start(lines.next()?)?,
    };
    let mut file = StartsFile {
        starts,
        ..StartsFile::default()
    };
    for line in lines {
        if let Some(lock) = line.strip_prefix("lock ") {
            file.lock = Some(lock.to_owned());
        } else if let Some(until) = line.strip_prefix("taken-over-until ") {
            file.taken_over_until = until.parse().ok().map(UtcTime);
        } else if let Some(origin) = line.strip_prefix("copy-of ") {
            file.origin = parse_origin(origin);
        }
    }
    Some(file)
}

fn parse_start(line: &str) -> Option<NodeStart> {
    let (count, id) = line.split_once(' ')?;
    let (count, id) = (count.parse().ok()?, id.to_owned());
    Some(NodeStart { count, id })
}

fn parse_origin(text: &str) -> Option<OriginalNode> {
    let (name, copied_by) = match text.split_once(' ') {
        Some((name, at)) => (name, Some(UtcTime(at.parse().ok()?))),
        None => (text, None),
    };
    Some(OriginalNode {
        name: name.to_owned(),
        copied_by,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn start(count: i64, id: &str) -> NodeStart {
        let id = id.to_owned();
        NodeStart { count, id }
    }

    fn origin(name: &str, copied_by: Option<i64>) -> OriginalNode {
        let (name, copied_by) = (name.to_owned(), copied_by.map(UtcTime));
        OriginalNode { name, copied_by }
    }

    fn row(start_id: &str, state: NodeState, watermark: Option<i64>) -> IngestNode {
        IngestNode {
            name: "n".to_owned(),
            host: "h".to_owned(),
            state,
            watermark: watermark.map(UtcTime),
            updates_watermark: None,
            published_at: UtcTime(0),
            started_at: UtcTime(0),
            start_count: 1,
            start_id: start_id.to_owned(),
        }
    }

    #[test]
    fn a_known_start_under_the_same_lock_was_in_this_folder() {
        let file = StartsFile {
            starts: NodeStarts {
                before: start(1, "a"),
                own: start(2, "b"),
            },
            lock: Some("lock".to_owned()),
            taken_over_until: Some(UtcTime(5)),
            origin: None,
        };
        for (start_id, lock, now, expected) in [
            ("b", Some("lock"), 5, true),
            ("a", Some("lock"), 5, true),
            ("b", Some("lock"), 4, false),
            ("b", Some("other"), 5, false),
            ("b", None, 5, false),
            ("c", Some("lock"), 5, false),
        ] {
            let last = row(start_id, NodeState::Running, None);
            let is_own = file.is_own_start(&last, lock, UtcTime(now));
            assert_eq!(is_own, expected, "{start_id} {lock:?} {now}");
        }
        let without_lock = StartsFile { lock: None, ..file };
        assert!(!without_lock.is_own_lock(None, UtcTime(5)));
    }

    #[test]
    fn starts_are_stored_with_the_name_of_their_node() {
        let dir = TempDir::new().unwrap();
        let load = |name| StartsFile::load(dir.path(), name).unwrap();
        assert_eq!(load("a"), StartsFile::default());
        let copied = StartsFile {
            origin: Some(origin("a", None)),
            ..StartsFile::default()
        };
        for (before, own, lock, until, origin) in [
            (NodeStart::default(), start(1, "x"), None, None, None),
            (start(1, "x"), start(2, "y"), Some("b 1 2"), Some(5), None),
            (
                start(2, "y"),
                start(3, "z"),
                None,
                None,
                Some(origin("o", None)),
            ),
            (
                start(3, "z"),
                start(4, "q"),
                Some("b 1 2"),
                Some(5),
                Some(origin("o", Some(7))),
            ),
        ] {
            let file = StartsFile {
                starts: NodeStarts { before, own },
                lock: lock.map(str::to_owned),
                taken_over_until: until.map(UtcTime),
                origin,
            };
            file.store(dir.path(), "a").unwrap();
            assert_eq!(load("a"), file);
            assert_eq!(load("b"), copied);
        }
        for text in ["", "\n", "a", "a\n", "a\n1 x", "a\n1\n2", "a\nx 1\n2 y"] {
            std::fs::write(path(dir.path()), text).unwrap();
            assert_eq!(load("a"), StartsFile::default(), "{text}");
        }
        // As earlier versions wrote it.
        std::fs::write(path(dir.path()), "a\n1 x\n2 y\n").unwrap();
        let starts = NodeStarts {
            before: start(1, "x"),
            own: start(2, "y"),
        };
        assert_eq!(load("a").starts, starts);
    }

    /// Record of a start that held that lock, after taking the name over until that time.
    fn taking_over(lock: Option<&str>, until: Option<i64>) -> StartsFile {
        StartsFile {
            starts: NodeStarts {
                before: start(1, "before"),
                own: start(2, "own"),
            },
            lock: lock.map(str::to_owned),
            taken_over_until: until.map(UtcTime),
            origin: None,
        }
    }

    #[test]
    fn the_last_process_may_run_elsewhere_if_the_folder_was_copied() {
        use NodeState::{Running, Starting, Stopped};
        for (name, state, silent_seconds, expected) in [
            ("stopped", Stopped, 0, false),
            ("running", Running, 0, true),
            ("has just started", Starting, 0, true),
            ("long silent", Running, 20, false),
        ] {
            let now = UtcTime(silent_seconds * 1_000_000);
            let last = row("own", state, None);
            let may_run =
                taking_over(Some("here"), None).may_run_elsewhere(&last, Some("there"), now);
            assert_eq!(may_run, expected, "{name}");
        }
    }

    #[test]
    fn the_last_process_of_this_folder_itself_has_ended() {
        let here = Some("here");
        for (name, file, lock, last, expected) in [
            ("killed", taking_over(here, None), here, "own", false),
            (
                "died unnoted",
                taking_over(here, None),
                here,
                "before",
                true,
            ),
            (
                "killed at once",
                taking_over(here, Some(1)),
                here,
                "own",
                true,
            ),
            (
                "killed later",
                taking_over(here, Some(0)),
                here,
                "own",
                false,
            ),
            (
                "earlier version",
                taking_over(None, None),
                here,
                "own",
                true,
            ),
            ("no lock known", taking_over(None, None), None, "own", true),
        ] {
            let last = row(last, NodeState::Running, None);
            let may_run = file.may_run_elsewhere(&last, lock, UtcTime(0));
            assert_eq!(may_run, expected, "{name}");
        }
    }

    #[test]
    fn a_copy_waits_until_its_origin_has_shipped_or_is_gone() {
        use NodeState::{Running, Starting, Stopped};
        const MARGIN: i64 = 20_000_000;
        let first = origin("n", None);
        let later = origin("n", Some(50));
        // Row of the origin, the time, and the time by which it was copied if it still holds.
        let table = [
            ("deregistered", &first, None, 0, None),
            ("stopped", &first, Some(row("", Stopped, Some(1))), 0, None),
            (
                "silent, which is found out by waiting",
                &first,
                Some(row("", Running, Some(1))),
                MARGIN,
                Some(2 * MARGIN),
            ),
            (
                "runs",
                &first,
                Some(row("", Running, Some(-9))),
                5,
                Some(5 + MARGIN),
            ),
            (
                "its clock is ahead",
                &first,
                Some(row("", Running, Some(9))),
                5,
                Some(9 + MARGIN),
            ),
            (
                "this clock was ahead at the first start",
                &origin("n", Some(1_000 * MARGIN)),
                Some(row("", Running, Some(9))),
                5,
                Some(9 + MARGIN),
            ),
            (
                "has not shipped",
                &later,
                Some(row("", Running, Some(50))),
                60,
                Some(50),
            ),
            (
                "has shipped",
                &later,
                Some(row("", Running, Some(51))),
                60,
                None,
            ),
            (
                "starts again",
                &later,
                Some(row("", Starting, Some(51))),
                60,
                Some(50),
            ),
        ];
        for (name, found, row, now, expected) in table {
            let holding = found.holding(row.as_ref(), UtcTime(now));
            let expected = expected.map(|at| origin("n", Some(at)));
            assert_eq!(holding, expected, "{name}");
        }
    }
}
