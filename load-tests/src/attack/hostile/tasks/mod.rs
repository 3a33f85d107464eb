//! Attacking tasks, and the proofs that each of them happened.
//!
//! - [`table`]: all tasks.
//! - [`proofs`]: long lists of proofs.

mod proofs;
mod table;

pub(super) use table::TASKS;

use super::context::AttackContext;
use crate::attack::findings::Outcomes;
use crate::attack::options::is_selected;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

/// A task that runs until it is dropped.
type Running = Pin<Box<dyn Future<Output = ()>>>;
/// Starts a task with its source of randomness and the address of a server that hangs.
type Start = fn(Arc<AttackContext>, StdRng, SocketAddr) -> Running;

/// Name of an attempt, and outcomes of which at least one must occur: those of a processed request.
type Proof = (&'static str, &'static [&'static str]);

/// An attacking task.
pub(super) struct Task {
    /// Name of the task.
    pub(super) name: &'static str,
    /// Number of instances that run at the same time.
    pub(super) times: u32,
    pub(super) start: Start,
    /// True if the task ends by itself at the end of an attack, once its last request was answered.
    pub(super) is_awaited: bool,
    /// Proofs that the attack happened and was not just refused with 429 or 503.
    proofs: &'static [Proof],
}

const fn times(name: &'static str, times: u32, start: Start, proofs: &'static [Proof]) -> Task {
    Task {
        name,
        times,
        start,
        is_awaited: false,
        proofs,
    }
}

impl Task {
    /// The task, which is not dropped in the middle of a request: its response times are judged,
    /// and those of the slowest requests would be unknown.
    const fn awaited(mut self) -> Self {
        self.is_awaited = true;
        self
    }
}

const fn once(name: &'static str, start: Start, proofs: &'static [Proof]) -> Task {
    times(name, 1, start, proofs)
}

/// Names of all tasks, for [`Options::only`](super::super::Options::only).
pub fn task_names() -> impl Iterator<Item = &'static str> {
    TASKS.into_iter().map(|task| task.name)
}

/// Describes the selected tasks whose proofs are missing.
pub(in crate::attack) fn unproved(outcomes: &Outcomes, only: &[String]) -> Vec<String> {
    let wanted = TASKS.iter().filter(|task| is_selected(task.name, only));
    let mut unproved = Vec::new();
    for (task, (what, one_of)) in
        wanted.flat_map(|task| task.proofs.iter().map(move |proof| (task, proof)))
    {
        let found = outcomes.get(*what);
        let is_proved = one_of
            .iter()
            .any(|outcome| found.is_some_and(|found| found.contains_key(*outcome)));
        if !is_proved {
            let found: Vec<&String> = found.into_iter().flat_map(BTreeMap::keys).collect();
            unproved.push(format!(
                "{}: {what}: {found:?} and none of {one_of:?}",
                task.name
            ));
        }
    }
    unproved
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_task_has_a_unique_name_and_runs_at_least_once() {
        let once: BTreeSet<&str> = task_names().collect();
        assert_eq!(once.len(), TASKS.len());
        assert!(TASKS.iter().all(|task| task.times > 0));
    }

    #[test]
    fn a_task_that_was_only_refused_is_unproved() {
        let mut outcomes = Outcomes::new();
        assert!(unproved(&outcomes, &[]).len() >= TASKS.len());
        let only = ["names".to_owned()];
        let mut outcome = |outcome: &str| {
            let counts = BTreeMap::from([(outcome.to_owned(), 1)]);
            outcomes.insert("hostile texts in destinations".to_owned(), counts);
            unproved(&outcomes, &only)
        };
        let found = outcome("not tried: 429");
        let [told] = &found[..] else {
            panic!("nothing is told");
        };
        assert!(told.contains("names") && told.contains("429"), "{told}");
        assert_eq!(outcome("400"), <[String; 0]>::default());
    }
}
