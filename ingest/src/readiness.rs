//! Readiness: whether the process is to be sent events, and the state of its parts.

use bytes::Bytes;
use serde::Serialize;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Condition: `None` while it holds, else what is wrong, for people.
type Check = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// Readiness of the process: a list of named conditions. Clones share it.
#[derive(Clone, Default)]
pub struct Readiness(Arc<Conditions>);

#[derive(Default)]
struct Conditions {
    parts: RwLock<Vec<Part>>,
    shutting_down: AtomicBool,
    /// JSON list of all nodes, in a process that reads it.
    nodes: RwLock<Option<Bytes>>,
}

struct Part {
    name: &'static str,
    is_required: bool,
    check: Check,
}

/// Condition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedCheck {
    /// Name of the condition.
    pub name: &'static str,
    /// Explanation for people of what is wrong.
    pub detail: String,
}

/// State of one part of the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartState {
    /// Name of the part.
    pub name: &'static str,
    /// `ok` or `failed`.
    pub status: &'static str,
    /// True if the process is not ready without the part.
    pub required: bool,
    /// Explanation for people of what is wrong and what to do.
    pub detail: Option<String>,
}

impl Readiness {
    /// Returns a readiness without conditions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a condition. `check` is called for every probe, so it must not wait.
    pub fn require(
        &self,
        name: &'static str,
        check: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) {
        self.add(name, true, Box::new(check));
    }

    /// Adds a part without which the process is ready all the same.
    pub fn observe(
        &self,
        name: &'static str,
        check: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) {
        self.add(name, false, Box::new(check));
    }

    fn add(&self, name: &'static str, is_required: bool, check: Check) {
        let mut parts = self.0.parts.write().unwrap_or_else(PoisonError::into_inner);
        parts.push(Part {
            name,
            is_required,
            check,
        });
    }

    /// Sets the JSON list of all nodes, for the health listener.
    pub fn set_nodes(&self, json: Vec<u8>) {
        let mut nodes = self.0.nodes.write().unwrap_or_else(PoisonError::into_inner);
        *nodes = Some(json.into());
    }

    /// JSON list of all nodes, as it was last set.
    pub(crate) fn nodes(&self) -> Option<Bytes> {
        let nodes = self.0.nodes.read().unwrap_or_else(PoisonError::into_inner);
        nodes.clone()
    }

    /// Makes the process not ready from now on: a load balancer should look elsewhere.
    pub fn shut_down(&self) {
        self.0.shutting_down.store(true, Ordering::Release);
    }

    /// Returns true if the process is shutting down.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.0.shutting_down.load(Ordering::Acquire)
    }

    /// Conditions that do not hold now; empty when ready.
    #[must_use]
    pub fn failed_checks(&self) -> Vec<FailedCheck> {
        let parts = self.0.parts.read().unwrap_or_else(PoisonError::into_inner);
        let required = parts.iter().filter(|part| part.is_required);
        let failed = required.filter_map(|part| {
            let detail = (part.check)()?;
            let name = part.name;
            Some(FailedCheck { name, detail })
        });
        let ending = self.is_shutting_down().then(|| FailedCheck {
            name: "shutdown",
            detail: "the server is shutting down".to_owned(),
        });
        failed.chain(ending).collect()
    }

    /// State of every part now.
    #[must_use]
    pub fn parts(&self) -> Vec<PartState> {
        let parts = self.0.parts.read().unwrap_or_else(PoisonError::into_inner);
        let state = |part: &Part| {
            let detail = (part.check)();
            PartState {
                name: part.name,
                status: if detail.is_none() { "ok" } else { "failed" },
                required: part.is_required,
                detail,
            }
        };
        parts.iter().map(state).collect()
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Readiness")
            .field(&self.failed_checks())
            .finish()
    }
}
