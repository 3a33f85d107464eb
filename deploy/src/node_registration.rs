//! Registration of a node: recorded in its data folder, then in the catalog, before it accepts an
//! event.
//!
//! A copied folder has the node name of the original, and both would publish watermarks of one
//! node. So the folder records its last starts, and a start that is in the catalog but not in the
//! folder is one of another copy ([`NodeStarts`]). While that copy runs, this one does not start.
//! If two run all the same, because a folder was copied while it was in use, the one that started
//! first ends. What both have in their logs is shipped by one of them ([`BacklogHold`]). Where the
//! catalog lies in the folder, each copy has its own, and the others cannot be detected.

use crate::backlog_hold::BacklogHold;
use crate::data_dir::{self, is_disk_full};
use crate::signals::StopSignal;
use crate::starts_file::{self, StartsFile};
use anyhow::{Context, anyhow};
use millrace_catalog::{
    Catalog, CatalogError, IngestNode, NextStart, NodeStarts, Nodes, RegisterError, UtcTime,
};
use millrace_ingest::watermark::Node;
use millrace_rows::{Clock, SystemClock, shown};
use std::path::Path;
use std::time::Duration;
use uuid::Uuid;

/// Pause between two attempts to register.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Timeout of a withdrawal.
const WITHDRAW_TIMEOUT: Duration = Duration::from_secs(1);

/// A start that is being registered.
struct Registration<'a> {
    catalog: &'a Catalog,
    data_dir: &'a Path,
    name: &'a str,
    /// One id for all attempts, as one whose response was lost may have been recorded.
    id: String,
    /// Lock that this process holds.
    lock: Option<String>,
    /// Record of the folder as this process found it.
    found: StartsFile,
    /// Starts that the folder knows by now.
    known: NodeStarts,
    hold: BacklogHold,
}

/// Registers this node in the catalog, as soon as the catalog answers; `None` if a stop was
/// requested before. A stop takes effect between attempts only: a cancelled one might register the
/// node all the same. The process must hold the lock on the folder.
///
/// # Errors
/// When another copy of the data folder runs, or the folder cannot be read or written.
pub async fn register(
    catalog: &Catalog,
    data_dir: &Path,
    name: &str,
    stop: &StopSignal,
) -> anyhow::Result<Option<(Node, BacklogHold)>> {
    let found = StartsFile::load(data_dir, name)?;
    let mut registration = Registration {
        catalog,
        data_dir,
        name,
        id: Uuid::new_v4().simple().to_string(),
        lock: data_dir::lock_id(data_dir, data_dir::INGEST_ROLE),
        known: found.starts.clone(),
        found,
        hold: BacklogHold::default(),
    };
    loop {
        match registration.attempt().await? {
            Ok(node) => return Ok(Some((node, registration.hold))),
            Err(error) => tracing::error!(
                "no events are accepted until the catalog has recorded that this node accepts them: {error}"
            ),
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY_PAUSE) => {}
            () = stop.received() => return Ok(None),
        }
    }
}

impl Registration<'_> {
    async fn attempt(&mut self) -> anyhow::Result<Result<Node, RegisterError>> {
        let row = match self.find_node().await {
            Ok(row) => row,
            Err(error) => return Ok(Err(error.into())),
        };
        let next = self
            .known
            .next(row.as_ref(), self.id.clone(), SystemClock.now().into())
            .map_err(|other| runs_elsewhere(self.data_dir, &other))?;
        let is_behind = next.is_behind;
        let starts = self.store(next)?;
        let registered = Node::register(
            self.catalog.clone(),
            self.name.to_owned(),
            host_name(),
            starts,
        );
        let registered = registered.await;
        if let (Ok(_), Some(other), true) = (&registered, &row, is_behind) {
            tracing::warn!(
                node = self.name,
                host = %shown(&other.host),
                started_at = %other.started_at,
                "another copy of this data folder was started on that host since this copy last \
                 ran; that copy does not run now. Rows that wait here may be stored already, and \
                 are looked up before they are sent"
            );
        }
        Ok(registered)
    }

    /// Finds this node in the catalog, and who else may ship what the log has.
    async fn find_node(&mut self) -> Result<Option<IngestNode>, CatalogError> {
        let now = SystemClock.now().into();
        let row = Nodes::new(self.catalog).get(self.name).await?;
        // An attempt whose response was lost has taken the name over: who had it before is known.
        if let Some(last) = row.as_ref().filter(|row| row.start_id != self.id) {
            let lock = self.lock.as_deref();
            self.hold.is_taken_over = self.found.may_run_elsewhere(last, lock, now);
        }
        self.hold.origin = match &self.found.origin {
            None => None,
            Some(origin) => {
                let row = Nodes::new(self.catalog).get(&origin.name).await?;
                origin.holding(row.as_ref(), now)
            }
        };
        Ok(row)
    }

    /// Notes a start in the folder.
    fn store(&mut self, next: NextStart) -> anyhow::Result<NodeStarts> {
        let now = SystemClock.now().into();
        let is_taken_over = self.hold.is_taken_over;
        let file = StartsFile {
            starts: next.starts,
            lock: self.lock.clone(),
            taken_over_until: is_taken_over.then(|| starts_file::silence_after(now)),
            origin: self.hold.origin.clone(),
        };
        match file.store(self.data_dir, self.name) {
            Ok(()) => {
                self.known = file.starts.clone();
                Ok(file.starts)
            }
            // Only shipping frees space, so this start counts as the last one.
            Err(error) if is_disk_full(&error) => {
                tracing::warn!(%error, "no space left to record this start in the data folder; a copy of it cannot be recognized");
                let last = file.starts.before;
                Ok(NodeStarts {
                    before: last.clone(),
                    own: last,
                })
            }
            Err(error) => {
                let path = starts_file::path(self.data_dir);
                Err(error).with_context(|| format!("cannot write {}", path.display()))
            }
        }
    }
}

fn runs_elsewhere(data_dir: &Path, other: &IngestNode) -> anyhow::Error {
    let now = UtcTime::from(SystemClock.now());
    let silence = now.0.saturating_sub(other.published_at.0) / 1_000_000;
    anyhow!(
        "another copy of the data folder {} is running on {} since {} (node {}, last heard of {silence} s ago), and this \
         copy is older. Stop the other one; or, to run both, delete the file {} here: then this copy is a node of its \
         own, and ships what its log has and the other one does not ship",
        data_dir.display(),
        shown(&other.host),
        other.started_at,
        shown(&other.name),
        data_dir.join("node").display(),
    )
}

/// Withdraws a registration that a failed attempt may have left. An error is ignored: the catalog
/// is known to be down.
pub async fn withdraw(catalog: &Catalog, name: &str) {
    let left = Nodes::new(catalog).take_back(name);
    let _ = tokio::time::timeout(WITHDRAW_TIMEOUT, left).await;
}

/// Host name of this machine, for lists of nodes; empty if it cannot be read.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
