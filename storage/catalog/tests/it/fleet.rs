//! Reports of nodes, and the fingerprint of the key of secrets.

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    Catalog, Liveness, NodeReport, NodeReports, NodeStarts, NodeStatus, Nodes, UtcTime, Watermarks,
};
use millrace_rows::{Clock, Micros, TestClock};
use std::sync::Arc;

on_both!(
    the_last_report_of_a_node_tells_when_it_was_heard_of,
    a_node_without_a_report_is_heard_of_by_its_watermark,
    only_registered_nodes_report,
    the_first_fingerprint_of_a_key_is_kept_until_it_is_replaced,
);

const START: Micros = Micros(1_800_000_000_000_000);

async fn open(database: &TestDatabase) -> (Catalog, TestClock) {
    let clock = TestClock::at(START);
    let opened = Catalog::open_with_clock(database.url(), Arc::new(clock.clone()));
    (opened.await.unwrap(), clock)
}

/// Registers a node, and has it publish a watermark.
async fn run(catalog: &Catalog, name: &str) {
    let (nodes, starts) = (Nodes::new(catalog), NodeStarts::default());
    nodes.register(name, "host", &starts).await.unwrap();
    let watermark = Some(Watermarks::of(UtcTime(START.0)));
    nodes.publish(name, &starts, watermark).await.unwrap();
}

fn report(log_bytes: u64) -> NodeReport {
    NodeReport {
        address: "10.0.0.1:8000".to_owned(),
        version: "0.2.0".to_owned(),
        log_bytes,
    }
}

async fn status(catalog: &Catalog, name: &str) -> NodeStatus {
    let reports = NodeReports::new(catalog);
    let found = reports.get(name).await.unwrap().unwrap();
    let listed = reports.list().await.unwrap();
    assert!(listed.contains(&found), "{listed:?}");
    found
}

async fn the_last_report_of_a_node_tells_when_it_was_heard_of(database: TestDatabase) {
    let (catalog, clock) = open(&database).await;
    run(&catalog, "a").await;
    let reports = NodeReports::new(&catalog);
    for log_bytes in [7, 9] {
        reports.report("a", &report(log_bytes)).await.unwrap();
    }
    let found = status(&catalog, "a").await;
    let row = found.report.as_ref().unwrap();
    assert_eq!((&*row.address, &*row.version), ("10.0.0.1:8000", "0.2.0"));
    assert_eq!(found.log_bytes(), 9);
    let states = [Liveness::Running, Liveness::Silent, Liveness::Lost];
    for (seconds, expected) in [(0, states[0]), (15, states[1]), (120, states[2])] {
        clock.set(Micros(START.0 + seconds * 1_000_000));
        let found = status(&catalog, "a").await;
        assert_eq!(found.unheard_seconds(), seconds);
        assert_eq!(found.liveness(), expected, "{seconds}");
    }
    let starts = NodeStarts::default();
    let stopped = Nodes::new(&catalog).stop("a", &starts, clock.now().into());
    stopped.await.unwrap();
    let found = status(&catalog, "a").await;
    assert_eq!(found.liveness(), Liveness::Stopped);
    assert_eq!((found.unheard_seconds(), found.log_bytes()), (0, 0));
}

async fn a_node_without_a_report_is_heard_of_by_its_watermark(database: TestDatabase) {
    let (catalog, clock) = open(&database).await;
    run(&catalog, "a").await;
    clock.set(Micros(START.0 + 20_000_000));
    let found = status(&catalog, "a").await;
    assert_eq!(found.report, None);
    assert_eq!(found.unheard_seconds(), 20);
}

async fn only_registered_nodes_report(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    let reports = NodeReports::new(&catalog);
    reports.report("nobody", &report(0)).await.unwrap_err();
    run(&catalog, "a").await;
    reports.report("a", &report(1)).await.unwrap();
    Nodes::new(&catalog).deregister("a").await.unwrap();
    assert!(reports.list().await.unwrap().is_empty());
    assert_eq!(reports.get("a").await.unwrap(), None);
}

async fn the_first_fingerprint_of_a_key_is_kept_until_it_is_replaced(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    assert_eq!(catalog.key_fingerprint().await.unwrap(), None);
    for own in ["first", "second"] {
        let kept = catalog.keep_key_fingerprint(own).await.unwrap();
        assert_eq!(kept, "first");
    }
    catalog.replace_key_fingerprint("third").await.unwrap();
    let kept = catalog.key_fingerprint().await.unwrap();
    assert_eq!(kept.as_deref(), Some("third"));
}
