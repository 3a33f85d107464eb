//! Nodes that take events: registered, heard of, stopped, forgotten, and what exports may go up to.

use crate::stand::START;
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Catalog, ChangeError, NodeState, UtcTime};
use millrace_rows::{Micros, TestClock};
use std::sync::Arc;

on_both!(
    nothing_may_run_before_every_node_has_said_how_far_it_is,
    a_node_that_comes_later_makes_no_row_where_exports_have_been,
    a_node_that_died_counts_with_what_it_said_last,
    a_node_that_stopped_holds_nobody_up_and_keeps_its_floor,
    a_registration_that_failed_after_all_is_taken_back,
    a_watermark_never_falls,
    a_forgotten_node_has_to_register_again,
    in_a_copy_nobody_waits_for_the_nodes_of_the_original,
    nodes_are_listed_with_their_times,
);

const fn at(seconds: i64) -> UtcTime {
    UtcTime(START.0 + seconds * 1_000_000)
}

async fn open(database: &TestDatabase) -> (Catalog, TestClock) {
    let clock = TestClock::at(START);
    let opened = Catalog::open_with_clock(database.url(), Arc::new(clock.clone()));
    (opened.await.unwrap(), clock)
}

async fn register(catalog: &Catalog, name: &str) -> Option<UtcTime> {
    catalog.register_ingest_node(name, "host").await.unwrap()
}

async fn publish(catalog: &Catalog, name: &str, watermark: UtcTime) {
    let known = catalog.publish_watermark(name, Some(watermark)).await;
    assert!(known.unwrap(), "{name}");
}

async fn exports(catalog: &Catalog) -> Option<UtcTime> {
    catalog.exports_watermark().await.unwrap()
}

async fn nothing_may_run_before_every_node_has_said_how_far_it_is(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    assert_eq!(exports(&catalog).await, None);
    assert_eq!(register(&catalog, "a").await, None);
    assert_eq!(exports(&catalog).await, None);
    assert!(catalog.publish_watermark("a", None).await.unwrap());
    assert_eq!(exports(&catalog).await, None);
    publish(&catalog, "a", at(10)).await;
    assert_eq!(exports(&catalog).await, Some(at(10)));
}

async fn a_node_that_comes_later_makes_no_row_where_exports_have_been(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    register(&catalog, "a").await;
    publish(&catalog, "a", at(10)).await;
    assert_eq!(register(&catalog, "b").await, Some(at(10)));
    assert_eq!(exports(&catalog).await, None);
    publish(&catalog, "a", at(20)).await;
    publish(&catalog, "b", at(15)).await;
    assert_eq!(exports(&catalog).await, Some(at(15)));
    assert_eq!(register(&catalog, "c").await, Some(at(15)));
}

async fn a_node_that_died_counts_with_what_it_said_last(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    for name in ["a", "b"] {
        register(&catalog, name).await;
        publish(&catalog, name, at(10)).await;
    }
    publish(&catalog, "a", at(20)).await;
    assert_eq!(exports(&catalog).await, Some(at(10)));
    // It comes back, and counts meanwhile as it did.
    assert_eq!(register(&catalog, "b").await, Some(at(10)));
    assert_eq!(exports(&catalog).await, Some(at(10)));
    publish(&catalog, "b", at(30)).await;
    assert_eq!(exports(&catalog).await, Some(at(20)));
}

async fn a_node_that_stopped_holds_nobody_up_and_keeps_its_floor(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    for name in ["a", "b"] {
        register(&catalog, name).await;
        publish(&catalog, name, at(10)).await;
    }
    catalog.stop_ingest_node("b", at(12)).await.unwrap();
    publish(&catalog, "a", at(20)).await;
    assert_eq!(exports(&catalog).await, Some(at(20)));
    let said = catalog.publish_watermark("b", Some(at(30))).await.unwrap();
    assert!(!said, "it does not count, and has to register first");
    catalog.stop_ingest_node("a", at(21)).await.unwrap();
    assert_eq!(exports(&catalog).await, Some(at(21)));
    assert_eq!(register(&catalog, "b").await, Some(at(21)));
    assert_eq!(exports(&catalog).await, None);
    publish(&catalog, "b", at(22)).await;
    assert_eq!(exports(&catalog).await, Some(at(22)));
}

async fn a_registration_that_failed_after_all_is_taken_back(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    for name in ["runs", "begins"] {
        register(&catalog, name).await;
    }
    publish(&catalog, "runs", at(10)).await;
    for name in ["runs", "begins", "unknown"] {
        catalog.take_back_ingest_node(name).await.unwrap();
    }
    let nodes = catalog.ingest_nodes().await.unwrap();
    let states: Vec<_> = nodes.iter().map(|node| (&*node.name, node.state)).collect();
    let expected = [("begins", NodeState::Stopped), ("runs", NodeState::Running)];
    assert_eq!(states, expected);
    assert_eq!(exports(&catalog).await, Some(at(10)));
}

async fn a_watermark_never_falls(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    register(&catalog, "a").await;
    publish(&catalog, "a", at(10)).await;
    publish(&catalog, "a", at(10)).await;
    let lower = catalog.publish_watermark("a", Some(at(9))).await.unwrap();
    assert!(!lower);
    assert_eq!(exports(&catalog).await, Some(at(10)));
}

async fn a_forgotten_node_has_to_register_again(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    for name in ["a", "b"] {
        register(&catalog, name).await;
        publish(&catalog, name, at(10)).await;
    }
    publish(&catalog, "a", at(20)).await;
    catalog.forget_ingest_node("b").await.unwrap();
    assert_eq!(exports(&catalog).await, Some(at(20)));
    let known = catalog.publish_watermark("b", Some(at(30))).await;
    assert!(!known.unwrap());
    assert_eq!(register(&catalog, "b").await, Some(at(20)));
    assert_eq!(exports(&catalog).await, None);
    let error = catalog.forget_ingest_node("c").await.unwrap_err();
    assert!(matches!(error, ChangeError::NotFound { .. }), "{error:?}");
}

async fn in_a_copy_nobody_waits_for_the_nodes_of_the_original(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    register(&catalog, "a").await;
    publish(&catalog, "a", at(10)).await;
    register(&catalog, "b").await;
    catalog.retire_ingest_nodes().await.unwrap();
    assert_eq!(exports(&catalog).await, Some(at(10)));
    assert_eq!(register(&catalog, "c").await, Some(at(10)));
}

async fn nodes_are_listed_with_their_times(database: TestDatabase) {
    let (catalog, clock) = open(&database).await;
    register(&catalog, "b").await;
    register(&catalog, "a").await;
    clock.set(Micros(at(5).0));
    publish(&catalog, "b", at(4)).await;
    let listed = catalog.ingest_nodes().await.unwrap();
    let listed: Vec<_> = listed
        .iter()
        .map(|it| (&*it.name, it.state, it.watermark, it.published_at))
        .collect();
    let expected = [
        ("a", NodeState::Starting, None, at(0)),
        ("b", NodeState::Running, Some(at(4)), at(5)),
    ];
    assert_eq!(listed, expected);
    clock.set(Micros(at(9).0));
    register(&catalog, "b").await;
    let b = catalog.ingest_nodes().await.unwrap().remove(1);
    assert_eq!((b.started_at, b.watermark), (at(9), Some(at(4))));
    assert_eq!((b.state, &*b.host), (NodeState::Running, "host"));
}

#[tokio::test]
async fn a_node_that_counts_may_start_while_nobody_can_write_and_no_other_may() {
    let database = TestDatabase::sqlite();
    let (catalog, _) = open(&database).await;
    register(&catalog, "a").await;
    publish(&catalog, "a", at(10)).await;
    let lock = database.lock_sqlite().await.unwrap();
    let (old, new) = tokio::join!(
        catalog.register_ingest_node("a", "host"),
        catalog.register_ingest_node("b", "host")
    );
    assert_eq!(old.unwrap(), Some(at(10)));
    new.unwrap_err();
    drop(lock);
}
