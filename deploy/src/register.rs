//! The start of a node: noted in its data folder, then in the catalog, before it takes an event.
//!
//! A folder that was copied has the name of the original, and both would say of one node how far it is. So
//! the folder knows its last starts, and a start that the catalog knows and the folder does not is one of
//! another copy ([`NodeStarts`]). While that one runs this one does not start; and of two that run all the same, which
//! happens where a folder was copied while it was in use, the one that started first is told and ends. Where the
//! catalog lies in the folder, each copy has its own, and nothing can be known of the others.

use crate::data_dir::replace;
use crate::signals::Stop;
use anyhow::{Context, anyhow};
use millrace_catalog::{Catalog, IngestNode, NodeStart, NodeStarts, RegisterError, UtcTime};
use millrace_ingest::watermark::Node;
use millrace_rows::{Clock, SystemClock, shown};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::Uuid;

/// How long to wait before the catalog is asked again to note this node.
const PAUSE: Duration = Duration::from_secs(1);
/// How long it may take to have a try forgotten.
const FORGET_TIME: Duration = Duration::from_secs(1);

/// Has the catalog count this node, as soon as it can; `None` if it was asked to stop before. It is
/// asked between tries only: one that is given up might count the node all the same.
///
/// # Errors
/// When another copy of the data folder runs, or the folder cannot be read or written.
pub async fn register(
    catalog: &Catalog,
    data_dir: &Path,
    name: &str,
    stop: &mut Stop,
) -> anyhow::Result<Option<Node>> {
    // The same for all tries, as one whose answer was lost may have been heard.
    let id = Uuid::new_v4().simple().to_string();
    loop {
        match try_to_register(catalog, data_dir, name, &id).await? {
            Ok(node) => return Ok(Some(node)),
            Err(error) => tracing::error!(
                "no events are taken until the catalog has noted that this node takes them: {error}"
            ),
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = stop.asked() => return Ok(None),
        }
    }
}

async fn try_to_register(
    catalog: &Catalog,
    data_dir: &Path,
    name: &str,
    id: &str,
) -> anyhow::Result<Result<Node, RegisterError>> {
    let row = match catalog.ingest_node(name).await {
        Ok(row) => row,
        Err(error) => return Ok(Err(error.into())),
    };
    let known = load(data_dir, name)?;
    let next = known
        .next(row.as_ref(), id.to_owned(), SystemClock.now().into())
        .map_err(|other| runs_elsewhere(data_dir, &other))?;
    let starts = match store(data_dir, name, &next.starts) {
        Ok(()) => next.starts,
        // Only shipping may make room again, so this start is one with the last.
        Err(error) if is_want_of_room(&error) => {
            tracing::warn!(%error, "there is no room to note this start in the data folder; a copy of it is not told apart");
            let last = next.starts.before;
            NodeStarts {
                before: last.clone(),
                own: last,
            }
        }
        Err(error) => {
            return Err(error)
                .with_context(|| format!("cannot write {}", path(data_dir).display()));
        }
    };
    let registered = Node::register(catalog.clone(), name.to_owned(), host_name(), starts).await;
    if let (Ok(_), Some(other), true) = (&registered, &row, next.is_behind) {
        tracing::warn!(
            node = name,
            host = %shown(&other.host),
            started_at = %other.started_at,
            "another copy of this data folder was started since this one ran last, on that host; it does not run \
             now. What waits here may be stored already, and is looked up before it is sent"
        );
    }
    Ok(registered)
}

fn runs_elsewhere(data_dir: &Path, other: &IngestNode) -> anyhow::Error {
    let now = UtcTime::from(SystemClock.now());
    let silence = now.0.saturating_sub(other.published_at.0) / 1_000_000;
    anyhow!(
        "another copy of the data folder {} is running on {} since {} (node {}, heard of {silence} s ago), and this one is \
         older: stop that one, or, if both are to run, delete the file {} here: this one is a node of its own then, \
         and ships what its log has and the other one has not shipped",
        data_dir.display(),
        shown(&other.host),
        other.started_at,
        shown(&other.name),
        data_dir.join("node").display(),
    )
}

/// Takes back what a try to register may have left that failed after all. Nobody is told if that
/// fails, too: the catalog is known to be away.
pub async fn forget_tries(catalog: &Catalog, name: &str) {
    let left = catalog.take_back_ingest_node(name);
    let _ = tokio::time::timeout(FORGET_TIME, left).await;
}

/// This machine, for people who look at a list of nodes; empty where it cannot be told.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("starts")
}

/// Starts that the folder knows of: none, if it has not counted any of the node of this name.
fn load(data_dir: &Path, name: &str) -> anyhow::Result<NodeStarts> {
    let path = path(data_dir);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(parse(&text, name).unwrap_or_default()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(NodeStarts::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn store(data_dir: &Path, name: &str, starts: &NodeStarts) -> std::io::Result<()> {
    let line = |start: &NodeStart| format!("{} {}\n", start.count, start.id);
    let text = format!("{name}\n{}{}", line(&starts.before), line(&starts.own));
    replace(&path(data_dir), text.as_bytes())
}

fn parse(text: &str, name: &str) -> Option<NodeStarts> {
    let mut lines = text.lines();
    let start = |line: &str| {
        let (count, id) = line.split_once(' ')?;
        let (count, id) = (count.parse().ok()?, id.to_owned());
        Some(NodeStart { count, id })
    };
    // That of another node was copied along.
    lines.next().filter(|of| *of == name)?;
    Some(NodeStarts {
        before: start(lines.next()?)?,
        own: start(lines.next()?)?,
    })
}

fn is_want_of_room(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn starts_are_kept_with_the_name_that_they_are_of() {
        let dir = TempDir::new().unwrap();
        assert_eq!(load(dir.path(), "a").unwrap(), NodeStarts::default());
        let start = |count, id: &str| NodeStart {
            count,
            id: id.to_owned(),
        };
        for (before, own) in [
            (NodeStart::default(), start(1, "x")),
            (start(1, "x"), start(2, "y")),
        ] {
            let starts = NodeStarts { before, own };
            store(dir.path(), "a", &starts).unwrap();
            assert_eq!(load(dir.path(), "a").unwrap(), starts);
            assert_eq!(load(dir.path(), "b").unwrap(), NodeStarts::default());
        }
        for text in ["", "a", "a\n", "a\n1 x", "a\n1\n2", "a\nx 1\n2 y"] {
            std::fs::write(dir.path().join("starts"), text).unwrap();
            assert_eq!(
                load(dir.path(), "a").unwrap(),
                NodeStarts::default(),
                "{text}"
            );
        }
    }
}
