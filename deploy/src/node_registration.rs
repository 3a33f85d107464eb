//! Registration of a node: recorded in its data folder, then in the catalog, before it accepts an
//! event, or once the catalog is back after a start without it.
//!
//! A copied folder has the node name of the original, and both would publish watermarks of one
//! node. So the folder records its last starts, and a start that is in the catalog but not in the
//! folder is one of another copy ([`NodeStarts`]). While that copy runs, this one does not start.
//! Nor does it while another process may have the name ([`OtherProcess`]), unless that one ran on
//! this very folder and has ended. If two run all the same, because one could not be heard of, the
//! one that started first ends. What both have in their logs is shipped by one of them
//! ([`BacklogHold`]). Where the catalog lies in the folder, each copy has its own, and the others
//! cannot be detected.

use crate::backlog_hold::BacklogHold;
use crate::config::Config;
use crate::data_dir::{self, is_disk_full};
use crate::other_process::OtherProcess;
use crate::signals::StopSignal;
use crate::starts_file::{self, StartsFile};
use anyhow::{Context, anyhow};
use millrace_catalog::{
    Catalog, CatalogError, IngestNode, NextStart, NodeReports, NodeStarts, NodeState, NodeStatus,
    Nodes, RegisterError, UtcTime,
};
use millrace_ingest::watermark::{Node, Registered};
use millrace_rows::{Clock, SystemClock, shown};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch;
use uuid::Uuid;

/// Pause between two attempts to register.
pub const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Timeout of a withdrawal.
const WITHDRAW_TIMEOUT: Duration = Duration::from_secs(1);

/// Start that is being registered.
pub struct Registration {
    catalog: Catalog,
    data_dir: PathBuf,
    name: String,
    /// One id for all attempts, as one whose response was lost may have been recorded.
    id: String,
    /// Lock that this process holds.
    lock: Option<String>,
    /// Record of the folder as this process found it.
    found: StartsFile,
    /// Starts that the folder knows by now.
    known: NodeStarts,
    /// Other process that may have the name; `None` where processes do not share the catalog.
    other: Option<OtherProcess>,
    pub hold: BacklogHold,
    /// True if exports waited for the node before this start.
    pub counted: bool,
    /// True once an attempt may have been recorded.
    has_tried: bool,
}

/// Attempt that did not register the node.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    /// The catalog did not have it.
    #[error("{0}")]
    Register(#[from] RegisterError),
    /// Another process may have the name: it is known within a minute.
    #[error("another process may have the name of this node")]
    OtherMayRun,
}

impl From<CatalogError> for AttemptError {
    fn from(error: CatalogError) -> Self {
        Self::Register(error.into())
    }
}

/// Registered node, and a receiver that has `true` once its backlog may be shipped; `None` if it
/// may be at once.
pub type HeldNode = (Node, Option<watch::Receiver<bool>>);

/// End of the attempts to register a node.
pub enum Outcome {
    /// The node is registered.
    Registered(Box<HeldNode>),
    /// A stop was requested before. An attempt may have been recorded, if there was one.
    Stopped { has_tried: bool },
}

/// Registers this node in the catalog, as soon as the catalog answers. A stop takes effect between
/// attempts only: a cancelled one might register the node all the same. The process must hold the
/// lock on the folder.
///
/// # Errors
/// When another process has the node's name, or the folder cannot be read or written.
pub async fn register(
    config: &Config,
    catalog: &Catalog,
    name: &str,
    stop: &StopSignal,
) -> anyhow::Result<Outcome> {
    let mut registration = Registration::new(config, catalog, name)?;
    loop {
        match registration.attempt().await? {
            Ok(registered) => {
                let Registration { catalog, hold, .. } = registration;
                let name = name.to_owned();
                let node = Node::registered(catalog.clone(), name, host_name(), registered);
                let held = (node, hold.begin(catalog));
                return Ok(Outcome::Registered(Box::new(held)));
            }
            // It was told once.
            Err(AttemptError::OtherMayRun) => {}
            Err(error) => tracing::error!(
                "no events are accepted until the catalog has recorded that this node accepts them: {error}"
            ),
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY_PAUSE) => {}
            () = stop.received() => {
                let has_tried = registration.has_tried;
                return Ok(Outcome::Stopped { has_tried });
            }
        }
    }
}

impl Registration {
    /// Reads the record of the folder.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn new(config: &Config, catalog: &Catalog, name: &str) -> anyhow::Result<Self> {
        let data_dir = &config.data_dir;
        let found = StartsFile::load(data_dir, name)?;
        // With SQLite all processes are on one machine, and the lock of the folder is enough.
        let is_shared = !config.database_url.starts_with("sqlite:");
        Ok(Self {
            catalog: catalog.clone(),
            data_dir: data_dir.clone(),
            name: name.to_owned(),
            id: Uuid::new_v4().simple().to_string(),
            lock: data_dir::lock_id(data_dir, data_dir::INGEST_ROLE),
            known: found.starts.clone(),
            found,
            other: is_shared.then(OtherProcess::default),
            hold: BacklogHold::default(),
            counted: false,
            has_tried: false,
        })
    }

    /// Returns true if the last start was on this very folder, and nobody else may ship what its
    /// log has, as far as is known without the catalog.
    pub fn is_restart_in_place(&self) -> bool {
        let now = SystemClock.now().into();
        self.found.origin.is_none() && self.found.is_own_lock(self.lock.as_deref(), now)
    }

    /// Tries once to register the node.
    ///
    /// # Errors
    /// When another process has the node's name, or the folder cannot be written.
    pub async fn attempt(&mut self) -> anyhow::Result<Result<Registered, AttemptError>> {
        let status = match self.find_node().await {
            Ok(status) => status,
            Err(error) => return Ok(Err(error.into())),
        };
        let row = status.as_ref().map(|status| &status.node);
        let next = self
            .known
            .next(row, self.id.clone(), SystemClock.now().into())
            .map_err(|other| runs_elsewhere(&self.data_dir, &other))?;
        if let Some(status) = &status
            && self.may_have_other_process(status)?
        {
            return Ok(Err(AttemptError::OtherMayRun));
        }
        let is_behind = next.is_behind;
        let starts = self.store(next)?;
        let host = host_name();
        self.has_tried = true;
        let registering = Nodes::new(&self.catalog).register(&self.name, &host, &starts);
        let min_created_at = match registering.await {
            Ok(min_created_at) => min_created_at,
            Err(error) => return Ok(Err(error.into())),
        };
        if let (Some(other), true) = (row, is_behind) {
            tracing::warn!(
                node = self.name,
                host = %shown(&other.host),
                started_at = %other.started_at,
                "another copy of this data folder was started on that host since this copy last \
                 ran; that copy does not run now. Rows that wait here may be stored already, and \
                 are looked up before they are sent"
            );
        }
        Ok(Ok(Registered {
            starts,
            min_created_at,
        }))
    }

    /// Returns true while another process may have the name, which is not known yet.
    fn may_have_other_process(&mut self, status: &NodeStatus) -> anyhow::Result<bool> {
        let (row, lock) = (&status.node, self.lock.as_deref());
        let now = SystemClock.now().into();
        let is_own = row.start_id == self.id || self.found.is_own_start(row, lock, now);
        match &mut self.other {
            Some(other) if !is_own => other.may_run(status, &self.data_dir),
            _ => Ok(false),
        }
    }

    /// Finds this node in the catalog, and who else may ship what the log has.
    async fn find_node(&mut self) -> Result<Option<NodeStatus>, CatalogError> {
        let now = SystemClock.now().into();
        let status = NodeReports::new(&self.catalog).get(&self.name).await?;
        let row = status.as_ref().map(|status| &status.node);
        // An attempt whose response was lost has taken the name over: who had it before is known.
        if let Some(last) = row.filter(|row| row.start_id != self.id) {
            let lock = self.lock.as_deref();
            self.hold.is_taken_over = self.found.may_run_elsewhere(last, lock, now);
            self.counted = last.state != NodeState::Stopped;
        }
        self.hold.origin = match &self.found.origin {
            None => None,
            Some(origin) => {
                let row = Nodes::new(&self.catalog).get(&origin.name).await?;
                origin.holding(row.as_ref(), now)
            }
        };
        Ok(status)
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
        match file.store(&self.data_dir, &self.name) {
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
                let path = starts_file::path(&self.data_dir);
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

/// Address of a node for people: with the name of the host where it listens on all addresses.
pub fn address(listening: SocketAddr) -> String {
    match listening.ip().is_unspecified() {
        true => format!("{}:{}", host_name(), listening.port()),
        false => listening.to_string(),
    }
}

/// Host name of this machine, for lists of nodes; empty if it cannot be read.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
