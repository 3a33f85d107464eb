//! Projects that import on this node, which requests and the lease renewer share.

use super::project_tokens::ProjectTokens;
use super::refusal::ImportRefusal;
use millrace_rows::{Clock, ProjectId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use tokio::sync::Notify;

/// Projects that imported something since the start.
pub struct ProjectTable {
    projects: RwLock<BTreeMap<ProjectId, Arc<ProjectTokens>>>,
    /// Notified when a request waits, or a lease is nearly used up.
    pub wake: Notify,
    /// Reason why nothing is admitted until the next start.
    stopped: OnceLock<String>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for ProjectTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProjectTable")
            .field("projects", &self.projects)
            .finish_non_exhaustive()
    }
}

// === impl ProjectTable ===

impl ProjectTable {
    /// Returns a table without projects.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            projects: RwLock::default(),
            wake: Notify::default(),
            stopped: OnceLock::new(),
            clock,
        }
    }

    /// Admits nothing from now on, for this reason.
    pub fn stop(&self, reason: String) {
        self.stopped.get_or_init(|| reason);
        self.reject_waiters(ImportRefusal::NotCounted);
    }

    /// Reason why nothing is admitted until the next start, if it is so.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// Refuses every waiting request.
    pub fn reject_waiters(&self, refusal: ImportRefusal) {
        for project in self.projects() {
            project.reject_waiters(refusal);
        }
    }

    /// Tokens of a project.
    pub fn project(&self, id: ProjectId) -> Arc<ProjectTokens> {
        let known = self.projects.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(project) = known.get(&id) {
            return Arc::clone(project);
        }
        drop(known);
        let mut projects = self
            .projects
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let project = projects
            .entry(id)
            .or_insert_with(|| Arc::new(ProjectTokens::new(id, Arc::clone(&self.clock))));
        Arc::clone(project)
    }

    /// Tokens of all projects.
    pub fn projects(&self) -> Vec<Arc<ProjectTokens>> {
        let projects = self.projects.read().unwrap_or_else(PoisonError::into_inner);
        projects.values().cloned().collect()
    }
}
