//! Registration of a node: recorded in its data folder, then in the catalog, before it accepts an
//! event.
//!
//! A copied folder has the node name of the original, and both would publish watermarks of one
//! node. So the folder records its last starts, and a start that is in the catalog but not in the
//! folder is one of another copy ([`NodeStarts`]). While that copy runs, this one does not start.
//! If two run all the same, because a folder was copied while it was in use, the one that started
//! first ends. Where the catalog lies in the folder, each copy has its own, and the others cannot
//! be detected.

use crate::data_dir::replace;
use crate::signals::StopSignal;
use anyhow::{Context, anyhow};
use millrace_catalog::{Catalog, IngestNode, NodeStart, NodeStarts, RegisterError, UtcTime};
use millrace_ingest::watermark::Node;
use millrace_rows::{Clock, SystemClock, shown};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;
use uuid::Uuid;

/// Pause between two attempts to register.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Timeout of a withdrawal.
const WITHDRAW_TIMEOUT: Duration = Duration::from_secs(1);

/// Registers this node in the catalog, as soon as the catalog answers; `None` if a stop was
/// requested before. A stop takes effect between attempts only: a cancelled one might register the
/// node all the same.
///
/// # Errors
/// When another copy of the data folder runs, or the folder cannot be read or written.
pub async fn register(
    catalog: &Catalog,
    data_dir: &Path,
    name: &str,
    stop: &mut StopSignal,
) -> anyhow::Result<Option<Node>> {
    // One id for all attempts, as one whose response was lost may have been recorded.
    let id = Uuid::new_v4().simple().to_string();
    loop {
        match attempt(catalog, data_dir, name, &id).await? {
            Ok(node) => return Ok(Some(node)),
            Err(error) => tracing::error!(
                "no events are taken until the catalog has noted that this node takes them: {error}"
            ),
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY_PAUSE) => {}
            () = stop.received() => return Ok(None),
        }
    }
}

async fn attempt(
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
        // Only shipping makes room, so this start counts as the last one.
        Err(error) if is_disk_full(&error) => {
            tracing::warn!(%error, "there is no room to note this start in the data folder; a copy of it is not told apart");
            let last = next.starts.before;
            NodeStarts {
                before: last.clone(),
                own: last,
            }
        }
        Err(error) => {
            return Err(error)
                .with_context(|| format!("cannot write {}", starts_path(data_dir).display()));
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

/// Withdraws a registration that a failed attempt may have left. An error is ignored: the catalog
/// is known to be away.
pub async fn withdraw(catalog: &Catalog, name: &str) {
    let left = catalog.take_back_ingest_node(name);
    let _ = tokio::time::timeout(WITHDRAW_TIMEOUT, left).await;
}

/// Host name of this machine, for lists of nodes; empty if it cannot be read.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

fn starts_path(data_dir: &Path) -> PathBuf {
    data_dir.join("starts")
}

/// Loads the starts that the folder records for the node of this name; none by default.
fn load(data_dir: &Path, name: &str) -> anyhow::Result<NodeStarts> {
    let path = starts_path(data_dir);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(parse(&text, name).unwrap_or_default()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(NodeStarts::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn store(data_dir: &Path, name: &str, starts: &NodeStarts) -> std::io::Result<()> {
    let line = |start: &NodeStart| format!("{} {}\n", start.count, start.id);
    let text = format!("{name}\n{}{}", line(&starts.before), line(&starts.own));
    replace(&starts_path(data_dir), text.as_bytes())
}

fn parse(text: &str, name: &str) -> Option<NodeStarts> {
    let mut lines = text.lines();
    let start = |line: &str| {
        let (count, id) = line.split_once(' ')?;
        let (count, id) = (count.parse().ok()?, id.to_owned());
        Some(NodeStart { count, id })
    };
    // A file with another name was copied along with the folder.
    lines.next().filter(|of| *of == name)?;
    Some(NodeStarts {
        before: start(lines.next()?)?,
        own: start(lines.next()?)?,
    })
}

fn is_disk_full(error: &std::io::Error) -> bool {
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
    fn starts_are_stored_with_the_name_of_their_node() {
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
