//! The tasks by their names.

use super::{Arsenal, analyst, capture, exports, member, names, operations, sender};
use crate::attack::tally::Outcomes;
use rand::rngs::StdRng;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

/// Something that goes on until it is dropped.
type Running = Pin<Box<dyn Future<Output = ()>>>;
/// Begins it, with a source of what is tried and a server that hangs.
type Start = fn(Arc<Arsenal>, StdRng, SocketAddr) -> Running;

/// A name of what is tried, and outcomes of which there must be one: those of something that was looked at.
type Proof = (&'static str, &'static [&'static str]);

/// A task.
pub(super) struct Task {
    /// Its name.
    pub(super) name: &'static str,
    /// So many of it at once.
    pub(super) times: u32,
    pub(super) start: Start,
    /// Signs that it was an attack, and not told to come again later.
    proofs: &'static [Proof],
}

const fn times(name: &'static str, times: u32, start: Start, proofs: &'static [Proof]) -> Task {
    Task {
        name,
        times,
        start,
        proofs,
    }
}

const fn once(name: &'static str, start: Start, proofs: &'static [Proof]) -> Task {
    times(name, 1, start, proofs)
}

/// Outcomes of operations of the API: on what is the hostile tenant's own, and on what is somebody else's.
const OPERATIONS: [Proof; 3] = [
    ("operations on the own organization", &["200", "201", "204"]),
    ("operations on another organization", &["403", "404"]),
    (
        "operations on things of another organization",
        &["403", "404"],
    ),
];

/// All of them.
pub(super) const TASKS: [Task; 22] = [
    times(
        "bombs",
        2,
        |arsenal, rng, _| Box::pin(capture::bombs(arsenal, rng)),
        &[("bombs without a key", &["400", "401", "413"])],
    ),
    once(
        "mutations",
        |arsenal, rng, _| Box::pin(capture::mutations(arsenal, rng)),
        &[("mutated bodies without a key", &["400", "401"])],
    ),
    once(
        "image-tags",
        |arsenal, rng, _| Box::pin(capture::image_tags(arsenal, rng)),
        &[("image tags", &["400", "401", "413"])],
    ),
    once(
        "unfinished",
        |arsenal, _, _| Box::pin(capture::unfinished(arsenal)),
        &[("unfinished requests", &["100 at once"])],
    ),
    once(
        "key-bombs",
        |arsenal, rng, _| Box::pin(sender::bombs(arsenal, rng)),
        &[("bombs with a key", &["200", "400", "413"])],
    ),
    once(
        "key-mutations",
        |arsenal, rng, _| Box::pin(sender::mutations(arsenal, rng)),
        &[("mutated bodies with a key", &["200", "400"])],
    ),
    once(
        "months",
        |arsenal, _, _| Box::pin(sender::months(arsenal)),
        &[("months", &["200", "400", "413"])],
    ),
    once(
        "persons",
        |arsenal, rng, _| Box::pin(sender::persons(arsenal, rng)),
        &[("made-up persons", &["200"])],
    ),
    once(
        "large",
        |arsenal, rng, _| Box::pin(sender::large(arsenal, rng)),
        &[("bodies of 20 MiB", &["200", "400", "413"])],
    ),
    once(
        "slow",
        |arsenal, _, _| Box::pin(sender::slow(arsenal)),
        &[("slow bodies", &["50 at once"])],
    ),
    once(
        "texts",
        |arsenal, _, _| Box::pin(sender::texts(arsenal)),
        &[("hostile texts in events", &["200"])],
    ),
    once(
        "queries",
        |arsenal, rng, _| Box::pin(exports::queries(arsenal, rng)),
        &[
            ("costly exports", &["201"]),
            ("backfills of everything", &["200"]),
        ],
    ),
    once(
        "hanging",
        |arsenal, _, hung| Box::pin(exports::hanging(arsenal, hung)),
        &[("exports to servers that hang", &["201"])],
    ),
    once(
        "sources",
        |arsenal, rng, _| Box::pin(member::sources(arsenal, rng)),
        &[("sources that break parsers", &["200", "400"])],
    ),
    once(
        "records",
        |arsenal, rng, _| Box::pin(member::records(arsenal, rng)),
        &[
            ("made up: roles/", &["201"]),
            ("hostile texts in names", &["400"]),
        ],
    ),
    once(
        "unread-lists",
        |arsenal, _, _| Box::pin(member::unread_lists(arsenal)),
        &[("lists that nobody reads", &["24 at once"])],
    ),
    once(
        "wrong-keys",
        |arsenal, rng, _| Box::pin(member::wrong_keys(arsenal, rng)),
        &[("wrong keys", &["401"])],
    ),
    once(
        "names",
        |arsenal, _, _| Box::pin(names::all(arsenal)),
        &[("hostile texts in destinations", &["400"])],
    ),
    times(
        "operations",
        3,
        |arsenal, rng, _| Box::pin(operations::all(arsenal, rng)),
        &OPERATIONS,
    ),
    once(
        "statements",
        |arsenal, _, _| Box::pin(analyst::statements(arsenal)),
        &[("statements that leave the database", &["code 497"])],
    ),
    once(
        "reads",
        |arsenal, _, _| Box::pin(analyst::reads(arsenal)),
        &[("reads of an analyst", &["200"])],
    ),
    once(
        "unfinished-heads",
        |arsenal, _, _| Box::pin(analyst::unfinished(arsenal)),
        &[("unfinished heads to ClickHouse", &["100 at once"])],
    ),
];

/// Their names, for [`Options::only`](super::super::Options::only).
pub fn task_names() -> impl Iterator<Item = &'static str> {
    TASKS.into_iter().map(|task| task.name)
}

/// Tasks that were wanted and have nothing to show, in words.
pub(in crate::attack) fn unproved(outcomes: &Outcomes, only: &[String]) -> Vec<String> {
    let wanted = TASKS
        .iter()
        .filter(|task| only.is_empty() || only.iter().any(|it| it == task.name));
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
    fn each_task_has_a_name_of_its_own_and_is_done() {
        let once: BTreeSet<&str> = task_names().collect();
        assert_eq!(once.len(), TASKS.len());
        assert!(TASKS.iter().all(|task| task.times > 0));
    }

    #[test]
    fn a_task_that_was_only_told_to_come_again_was_none() {
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
