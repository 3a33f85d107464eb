//! Registry of ingest nodes: registered, running, stopped, deregistered; and the watermark of
//! exports.

use millrace_catalog::testing::{DatabaseKind, TestDatabase};
use millrace_catalog::{
    Catalog, ChangeError, NodeStart, NodeStarts, NodeState, Nodes, Published, RegisterError,
    UtcTime, Watermarks,
};
use millrace_rows::{Micros, TestClock};
use std::sync::Arc;

on_both!(
    nothing_may_run_before_every_node_has_published_a_watermark,
    a_new_node_makes_no_row_in_exported_windows,
    a_node_that_died_counts_with_its_last_watermark,
    a_stopped_node_holds_up_no_export_and_keeps_its_min_created_at,
    a_registration_whose_answer_was_lost_is_taken_back,
    a_watermark_never_falls,
    person_updates_pass_ahead_of_other_rows_and_no_node_makes_one_below,
    a_deregistered_node_has_to_register_again,
    exports_of_a_copied_catalog_do_not_wait_for_the_originals_nodes,
    the_process_that_started_last_has_the_name_and_the_other_is_told,
    nodes_are_listed_with_their_times,
);

/// Start of tests.
const START: Micros = Micros(1_800_000_000_000_000);

const fn at(seconds: i64) -> UtcTime {
    UtcTime(START.0 + seconds * 1_000_000)
}

async fn open(database: &TestDatabase) -> (Catalog, TestClock) {
    let clock = TestClock::at(START);
    let opened = Catalog::open_with_clock(database.url(), Arc::new(clock.clone()));
    (opened.await.unwrap(), clock)
}

async fn register(catalog: &Catalog, name: &str) -> Option<UtcTime> {
    let starts = NodeStarts::default();
    let registered = Nodes::new(catalog).register(name, "host", &starts);
    registered.await.unwrap()
}

async fn publish(catalog: &Catalog, name: &str, watermark: UtcTime) {
    let published = try_to_publish(catalog, name, Some(watermark)).await;
    assert_eq!(published, Published::Done, "{name}");
}

async fn try_to_publish(catalog: &Catalog, name: &str, watermark: Option<UtcTime>) -> Published {
    let starts = NodeStarts::default();
    let published = Nodes::new(catalog).publish(name, &starts, watermark.map(Watermarks::of));
    published.await.unwrap()
}

async fn stop(catalog: &Catalog, name: &str, watermark: UtcTime) {
    let starts = NodeStarts::default();
    let stopped = Nodes::new(catalog).stop(name, &starts, watermark);
    stopped.await.unwrap();
}

/// Starts of a folder that saw the start of this number, which has its number as its id.
fn after(before: i64) -> NodeStarts {
    let start = |count: i64| NodeStart {
        count,
        id: count.to_string(),
    };
    NodeStarts {
        before: match before {
            0 => NodeStart::default(),
            before => start(before),
        },
        own: start(before + 1),
    }
}

async fn exports(catalog: &Catalog) -> Option<UtcTime> {
    Nodes::new(catalog).exports_watermark().await.unwrap()
}

async fn nothing_may_run_before_every_node_has_published_a_watermark(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    assert_eq!(exports(&catalog).await, None);
    assert_eq!(register(&catalog, "a").await, None);
    assert_eq!(exports(&catalog).await, None);
    assert_eq!(try_to_publish(&catalog, "a", None).await, Published::Done);
    assert_eq!(exports(&catalog).await, None);
    publish(&catalog, "a", at(10)).await;
    assert_eq!(exports(&catalog).await, Some(at(10)));
}

async fn a_new_node_makes_no_row_in_exported_windows(database: TestDatabase) {
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

async fn a_node_that_died_counts_with_its_last_watermark(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    for name in ["a", "b"] {
        register(&catalog, name).await;
        publish(&catalog, name, at(10)).await;
    }
    publish(&catalog, "a", at(20)).await;
    assert_eq!(exports(&catalog).await, Some(at(10)));
    // The node comes back; meanwhile its old watermark counted.
    assert_eq!(register(&catalog, "b").await, Some(at(10)));
    assert_eq!(exports(&catalog).await, Some(at(10)));
    publish(&catalog, "b", at(30)).await;
    assert_eq!(exports(&catalog).await, Some(at(20)));
}

async fn a_stopped_node_holds_up_no_export_and_keeps_its_min_created_at(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    for name in ["a", "b"] {
        register(&catalog, name).await;
        publish(&catalog, name, at(10)).await;
    }
    stop(&catalog, "b", at(12)).await;
    publish(&catalog, "a", at(20)).await;
    assert_eq!(exports(&catalog).await, Some(at(20)));
    let said = try_to_publish(&catalog, "b", Some(at(30))).await;
    assert_eq!(said, Published::Unknown, "it has to register first");
    stop(&catalog, "a", at(21)).await;
    assert_eq!(exports(&catalog).await, Some(at(21)));
    assert_eq!(register(&catalog, "b").await, Some(at(21)));
    assert_eq!(exports(&catalog).await, None);
    publish(&catalog, "b", at(22)).await;
    assert_eq!(exports(&catalog).await, Some(at(22)));
}

async fn a_registration_whose_answer_was_lost_is_taken_back(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    for name in ["runs", "begins"] {
        register(&catalog, name).await;
    }
    publish(&catalog, "runs", at(10)).await;
    for name in ["runs", "begins", "unknown"] {
        Nodes::new(&catalog).take_back(name).await.unwrap();
    }
    let nodes = Nodes::new(&catalog).list().await.unwrap();
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
    let lower = try_to_publish(&catalog, "a", Some(at(9))).await;
    assert_eq!(lower, Published::Unknown);
    assert_eq!(exports(&catalog).await, Some(at(10)));
}

async fn person_updates_pass_ahead_of_other_rows_and_no_node_makes_one_below(
    database: TestDatabase,
) {
    let (catalog, _) = open(&database).await;
    let starts = NodeStarts::default();
    let publish = async |name: &str, all, updates| {
        let (all, updates) = (at(all), at(updates));
        let watermarks = Some(Watermarks { all, updates });
        let published = Nodes::new(&catalog).publish(name, &starts, watermarks);
        published.await.unwrap()
    };
    let passed = async || {
        let updates = Nodes::new(&catalog).updates_watermark().await.unwrap();
        (exports(&catalog).await, updates)
    };
    register(&catalog, "a").await;
    assert_eq!(passed().await, (None, None));
    assert_eq!(publish("a", 10, 13).await, Published::Done);
    assert_eq!(passed().await, (Some(at(10)), Some(at(13))));
    // What comes below the watermark of updates would never be applied.
    assert_eq!(register(&catalog, "b").await, Some(at(13)));
    assert_eq!(passed().await, (None, None));
    assert_eq!(publish("b", 14, 20).await, Published::Done);
    assert_eq!(passed().await, (Some(at(10)), Some(at(13))));
    assert_eq!(publish("a", 11, 12).await, Published::Unknown, "it falls");
    assert_eq!(publish("a", 15, 16).await, Published::Done);
    assert_eq!(passed().await, (Some(at(14)), Some(at(16))));
    // A node that died comes back above what it published itself.
    assert_eq!(register(&catalog, "b").await, Some(at(20)));
    assert_eq!(passed().await, (Some(at(14)), Some(at(16))));
    for (name, watermark) in [("a", at(17)), ("b", at(21))] {
        stop(&catalog, name, watermark).await;
    }
    assert_eq!(passed().await, (Some(at(21)), Some(at(21))));
}

async fn a_deregistered_node_has_to_register_again(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    for name in ["a", "b"] {
        register(&catalog, name).await;
        publish(&catalog, name, at(10)).await;
    }
    publish(&catalog, "a", at(20)).await;
    Nodes::new(&catalog).deregister("b").await.unwrap();
    assert_eq!(exports(&catalog).await, Some(at(20)));
    let known = try_to_publish(&catalog, "b", Some(at(30))).await;
    assert_eq!(known, Published::Unknown);
    assert_eq!(register(&catalog, "b").await, Some(at(20)));
    assert_eq!(exports(&catalog).await, None);
    let error = Nodes::new(&catalog).deregister("c").await.unwrap_err();
    assert!(matches!(error, ChangeError::NotFound { .. }), "{error:?}");
}

async fn exports_of_a_copied_catalog_do_not_wait_for_the_originals_nodes(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    register(&catalog, "a").await;
    publish(&catalog, "a", at(10)).await;
    register(&catalog, "b").await;
    Nodes::new(&catalog).deregister_all().await.unwrap();
    assert_eq!(exports(&catalog).await, Some(at(10)));
    assert_eq!(register(&catalog, "c").await, Some(at(10)));
}

async fn the_process_that_started_last_has_the_name_and_the_other_is_told(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    let register = async |host: &str, starts: &NodeStarts| {
        Nodes::new(&catalog).register("a", host, starts).await
    };
    let publish = async |starts: &NodeStarts, watermark: Option<UtcTime>| {
        let watermarks = watermark.map(Watermarks::of);
        let published = Nodes::new(&catalog).publish("a", starts, watermarks).await;
        published.unwrap()
    };
    let has_it = async |expected: &NodeStarts, host: &str| {
        let node = Nodes::new(&catalog).get("a").await.unwrap().unwrap();
        assert_eq!((node.start(), &*node.host), (expected.own.clone(), host));
        node
    };
    let (first, second, third) = (after(0), after(1), after(2));
    register("here", &first).await.unwrap();
    assert_eq!(publish(&first, Some(at(10))).await, Published::Done);
    register("there", &second).await.unwrap();
    for watermark in [None, Some(at(11))] {
        let told = publish(&first, watermark).await;
        let other = has_it(&second, "there").await;
        assert_eq!(told, Published::Taken(Box::new(other)));
    }
    Nodes::new(&catalog)
        .stop("a", &first, at(12))
        .await
        .unwrap();
    let node = has_it(&second, "there").await;
    assert_eq!(
        (node.state, node.watermark),
        (NodeState::Running, Some(at(10)))
    );
    assert_eq!(publish(&second, Some(at(13))).await, Published::Done);
    // The start that the first folder knows of is not the last one any more.
    let refused = register("here", &first).await.unwrap_err();
    assert!(matches!(refused, RegisterError::Taken(other) if other.host == "there"));
    // That holds even after the other node has ended.
    Nodes::new(&catalog)
        .stop("a", &second, at(14))
        .await
        .unwrap();
    assert!(matches!(publish(&first, None).await, Published::Taken(_)));
    assert_eq!(register("here", &third).await.unwrap(), Some(at(14)));
    has_it(&third, "here").await;
    // The name of a deregistered node is free.
    Nodes::new(&catalog).deregister("a").await.unwrap();
    assert_eq!(publish(&third, None).await, Published::Unknown);
    register("here", &third).await.unwrap();
    assert_eq!(publish(&third, None).await, Published::Done);
}

async fn nodes_are_listed_with_their_times(database: TestDatabase) {
    let (catalog, clock) = open(&database).await;
    register(&catalog, "b").await;
    register(&catalog, "a").await;
    clock.set(Micros(at(5).0));
    publish(&catalog, "b", at(4)).await;
    let listed = Nodes::new(&catalog).list().await.unwrap();
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
    let b = Nodes::new(&catalog).list().await.unwrap().remove(1);
    assert_eq!((b.started_at, b.watermark), (at(9), Some(at(4))));
    assert_eq!((b.state, &*b.host), (NodeState::Running, "host"));
}

#[tokio::test]
async fn only_a_node_that_counts_may_start_while_the_catalog_cannot_be_written() {
    let database = TestDatabase::of(DatabaseKind::Sqlite).await;
    let (catalog, _) = open(&database).await;
    register(&catalog, "a").await;
    publish(&catalog, "a", at(10)).await;
    let lock = database.lock_sqlite().await.unwrap();
    let starts = after(0);
    let (old, new) = tokio::join!(
        Nodes::new(&catalog).register("a", "host", &starts),
        Nodes::new(&catalog).register("b", "host", &starts)
    );
    assert_eq!(old.unwrap(), Some(at(10)));
    new.unwrap_err();
    drop(lock);
    // The node publishes its watermark once the database can be written.
    let later = Some(Watermarks::of(at(20)));
    let published = Nodes::new(&catalog).publish("a", &starts, later).await;
    assert_eq!(published.unwrap(), Published::Unnoted);
    let registered = Nodes::new(&catalog).register("a", "host", &starts).await;
    assert_eq!(registered.unwrap(), Some(at(10)));
    let published = Nodes::new(&catalog).publish("a", &starts, later).await;
    assert_eq!(published.unwrap(), Published::Done);
}
