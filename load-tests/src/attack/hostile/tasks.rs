//! Table of the attacking tasks, by name.

use super::context::AttackContext;
use super::{analyst, capture, exports, fields, member, names, operations, parameters, sender};
use crate::attack::findings::Outcomes;
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
    /// Proofs that the attack happened and was not just refused with 429 or 503.
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

/// Outcomes of API operations, on the hostile tenant's own records and on another organization's.
const OPERATIONS: [Proof; 3] = [
    ("operations on the own organization", &["200", "201", "204"]),
    ("operations on another organization", &["403", "404"]),
    (
        "operations on things of another organization",
        &["403", "404"],
    ),
];

/// Name under which bombs without a key are counted by their encoding.
const BOMBS_BY_ENCODING: &str = "bombs without a key, by encoding";
/// Outcomes of bombs without a key: those of every encoding are judged.
const BOMBS: [Proof; 11] = [
    ("bombs without a key", &["400", "401", "413"]),
    (BOMBS_BY_ENCODING, &["br: 400", "br: 401", "br: 413"]),
    (BOMBS_BY_ENCODING, &["gzip: 400", "gzip: 401", "gzip: 413"]),
    (BOMBS_BY_ENCODING, &["zstd: 400", "zstd: 401", "zstd: 413"]),
    (
        BOMBS_BY_ENCODING,
        &["deflate: 400", "deflate: 401", "deflate: 413"],
    ),
    (
        BOMBS_BY_ENCODING,
        &["base64: 400", "base64: 401", "base64: 413"],
    ),
    (BOMBS_BY_ENCODING, &["lz64: 400", "lz64: 401", "lz64: 413"]),
    (
        BOMBS_BY_ENCODING,
        &[
            "form of gzip: 400",
            "form of gzip: 401",
            "form of gzip: 413",
        ],
    ),
    (
        BOMBS_BY_ENCODING,
        &[
            "form of lz64: 400",
            "form of lz64: 401",
            "form of lz64: 413",
        ],
    ),
    (
        BOMBS_BY_ENCODING,
        &["parts of br: 400", "parts of br: 401", "parts of br: 413"],
    ),
    (
        BOMBS_BY_ENCODING,
        &[
            "parts of gzip: 400",
            "parts of gzip: 401",
            "parts of gzip: 413",
        ],
    ),
];

/// All attacking tasks.
pub(super) const TASKS: [Task; 25] = [
    times(
        "bombs",
        2,
        |context, rng, _| Box::pin(capture::bombs(context, rng)),
        &BOMBS,
    ),
    once(
        "mutations",
        |context, rng, _| Box::pin(capture::mutations(context, rng)),
        &[("mutated bodies without a key", &["400", "401"])],
    ),
    once(
        "image-tags",
        |context, rng, _| Box::pin(capture::image_tags(context, rng)),
        &[("image tags", &["400", "401", "413"])],
    ),
    once(
        "unfinished",
        |context, _, _| Box::pin(capture::unfinished(context)),
        &[("unfinished requests", &["100 at once"])],
    ),
    once(
        "key-bombs",
        |context, rng, _| Box::pin(sender::bombs(context, rng)),
        &[("bombs with a key", &["200", "400", "413"])],
    ),
    once(
        "key-mutations",
        |context, rng, _| Box::pin(sender::mutations(context, rng)),
        &[("mutated bodies with a key", &["200", "400"])],
    ),
    once(
        "months",
        |context, _, _| Box::pin(sender::months(context)),
        &[("months", &["200", "400", "413"])],
    ),
    once(
        "persons",
        |context, rng, _| Box::pin(sender::persons(context, rng)),
        &[("made-up persons", &["200"])],
    ),
    once(
        "large",
        |context, rng, _| Box::pin(sender::large(context, rng)),
        &[("bodies of 20 MiB", &["200", "400", "413"])],
    ),
    once(
        "slow",
        |context, _, _| Box::pin(sender::slow(context)),
        &[("slow bodies", &["50 at once"])],
    ),
    once(
        "unread-results",
        |context, _, _| Box::pin(sender::unread_results(context)),
        &[("results that nobody reads", &["24 at once"])],
    ),
    once(
        "texts",
        |context, _, _| Box::pin(sender::texts(context)),
        &[("hostile texts in events", &["200"])],
    ),
    once(
        "queries",
        |context, rng, _| Box::pin(exports::queries(context, rng)),
        &[
            ("costly exports", &["201"]),
            ("backfills of everything", &["200"]),
        ],
    ),
    once(
        "hanging",
        |context, _, hung| Box::pin(exports::hanging(context, hung)),
        &[("exports to servers that hang", &["201"])],
    ),
    once(
        "sources",
        |context, rng, _| Box::pin(member::sources(context, rng)),
        &[("sources that break parsers", &["200", "400"])],
    ),
    once(
        "records",
        |context, rng, _| Box::pin(member::records(context, rng)),
        &[
            ("made up: roles/", &["201"]),
            ("hostile texts in names", &["400"]),
        ],
    ),
    once(
        "unread-lists",
        |context, _, _| Box::pin(member::unread_lists(context)),
        &[("lists that nobody reads", &["24 at once"])],
    ),
    once(
        "wrong-keys",
        |context, rng, _| Box::pin(member::wrong_keys(context, rng)),
        &[("wrong keys", &["401"])],
    ),
    once(
        "names",
        |context, _, _| Box::pin(names::all(context)),
        &[("hostile texts in destinations", &["400"])],
    ),
    once(
        "fields",
        |context, rng, _| Box::pin(fields::all(context, rng)),
        &[("hostile texts in every field", &["400"])],
    ),
    once(
        "parameters",
        |context, rng, _| Box::pin(parameters::all(context, rng)),
        &[("hostile texts in query parameters", &["200"])],
    ),
    times(
        "operations",
        3,
        |context, rng, _| Box::pin(operations::all(context, rng)),
        &OPERATIONS,
    ),
    once(
        "statements",
        |context, _, _| Box::pin(analyst::statements(context)),
        &[("statements that leave the database", &["code 497"])],
    ),
    once(
        "reads",
        |context, _, _| Box::pin(analyst::reads(context)),
        &[("reads of an analyst", &["200"])],
    ),
    once(
        "unfinished-heads",
        |context, _, _| Box::pin(analyst::unfinished(context)),
        &[("unfinished heads to ClickHouse", &["100 at once"])],
    ),
];

/// Names of all tasks, for [`Options::only`](super::super::Options::only).
pub fn task_names() -> impl Iterator<Item = &'static str> {
    TASKS.into_iter().map(|task| task.name)
}

/// Describes the selected tasks whose proofs are missing.
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
