//! Games of nodes: they import, are killed and start again, in any order.

use super::{ImportRefusal, TestEnv};
use millrace_catalog::MigrationState;
use millrace_catalog::testing::{DatabaseKind, TestDatabase};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use std::time::Duration;

const NODES: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Import {
        node: usize,
        events: u64,
        is_given_up: bool,
    },
    Kill(usize),
    Restart(usize),
    /// Lets the nodes report to the catalog.
    Rest,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        10 => (0..NODES, 1..40_u64, prop::bool::weighted(0.2)).prop_map(
            |(node, events, is_given_up)| Step::Import { node, events, is_given_up }
        ),
        1 => (0..NODES).prop_map(Step::Kill),
        1 => (0..NODES).prop_map(Step::Restart),
        1 => Just(Step::Rest),
    ];
    prop::collection::vec(step, 5..40)
}

/// Plays the steps: never more is stored than was approved, and at the end the rest can be imported
/// to the last event, but for the leases of nodes that were killed.
async fn play(database: TestDatabase, total: u64, steps: &[Step]) {
    let env = TestEnv::new(database, i64::try_from(total).unwrap()).await;
    let mut nodes = Vec::new();
    for number in 0..NODES {
        nodes.push(Some(env.node(number).await));
    }
    let (mut stored, mut forfeited, mut uncounted) = (0, 0, 0);
    for step in steps {
        match *step {
            Step::Import {
                node,
                events,
                is_given_up,
            } => {
                let node = nodes[node].as_mut().unwrap();
                let before = node.stored;
                let outcome = node.import(events, is_given_up).await;
                stored += node.stored - before;
                if let Err(ImportRefusal::Volume { left }) = outcome {
                    assert!(left < events, "{left} are left for {events}");
                }
            }
            Step::Kill(number) => {
                let (held, unreported) = nodes[number].take().unwrap().kill().await;
                forfeited += held;
                uncounted += unreported;
                nodes[number] = Some(env.node(number).await);
            }
            Step::Restart(number) => {
                nodes[number].take().unwrap().stop().await;
                nodes[number] = Some(env.node(number).await);
            }
            Step::Rest => tokio::time::sleep(Duration::from_millis(30)).await,
        }
        assert!(stored + forfeited <= total, "{stored} of {total}");
    }
    for node in nodes.into_iter().flatten() {
        node.stop().await;
    }
    env.until_imported(stored - uncounted).await;
    // Those of killed nodes.
    env.expire_leases();
    let mut last = env.node(0).await;
    let left = total - forfeited - stored;
    let refused = last.import_patiently(left + 1).await;
    assert_eq!(refused, Err(ImportRefusal::Volume { left }));
    if left > 0 {
        last.import_patiently(left).await.unwrap();
    }
    last.stop().await;
    env.until_imported(total - forfeited - uncounted).await;
    assert_eq!(env.migration().await.state, MigrationState::Finished);
}

async fn play_some(database: impl AsyncFn() -> TestDatabase, games: u32) {
    let mut runner = TestRunner::new(Config::default());
    for _ in 0..games {
        let game = (1..600_u64, steps()).new_tree(&mut runner).unwrap();
        let (total, steps) = game.current();
        eprintln!("{total} events: {steps:?}");
        play(database().await, total, &steps).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_import_and_die_use_up_an_approval_exactly_on_sqlite() {
    play_some(async || TestDatabase::of(DatabaseKind::Sqlite).await, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_import_and_die_use_up_an_approval_exactly_on_postgres() {
    play_some(async || TestDatabase::of(DatabaseKind::Postgres).await, 4).await;
}
