//! Endpoints of nodes: listed while they are advertised by nodes that have not stopped.

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Catalog, NodeEndpoints, NodeStarts, Nodes, UtcTime};
use millrace_rows::{Clock, Micros, TestClock};
use std::sync::Arc;

on_both!(
    the_last_endpoint_of_a_node_is_listed,
    endpoints_of_stopped_deregistered_and_silent_nodes_are_not_listed,
    only_registered_nodes_have_endpoints,
);

const START: Micros = Micros(1_800_000_000_000_000);

async fn open(database: &TestDatabase) -> (Catalog, TestClock) {
    let clock = TestClock::at(START);
    let opened = Catalog::open_with_clock(database.url(), Arc::new(clock.clone()));
    (opened.await.unwrap(), clock)
}

async fn register(catalog: &Catalog, name: &str) {
    let starts = NodeStarts::default();
    let registered = Nodes::new(catalog).register(name, "host", &starts);
    registered.await.unwrap();
}

async fn advertise(catalog: &Catalog, name: &str, token: &str) {
    let url = format!("http://{name}:8002");
    let advertised = NodeEndpoints::new(catalog).advertise(name, &url, token);
    advertised.await.unwrap();
}

async fn names(catalog: &Catalog) -> Vec<String> {
    let listed = NodeEndpoints::new(catalog).list().await.unwrap();
    listed.into_iter().map(|endpoint| endpoint.name).collect()
}

async fn the_last_endpoint_of_a_node_is_listed(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    for name in ["b", "a"] {
        register(&catalog, name).await;
        advertise(&catalog, name, "first").await;
    }
    advertise(&catalog, "a", "second").await;
    let listed = NodeEndpoints::new(&catalog).list().await.unwrap();
    let seen: Vec<_> = listed
        .iter()
        .map(|it| (it.name.as_str(), it.url.as_str(), it.token.as_str()))
        .collect();
    let expected = [
        ("a", "http://a:8002", "second"),
        ("b", "http://b:8002", "first"),
    ];
    assert_eq!(seen, expected);
    let shown = format!("{listed:?}");
    assert!(!shown.contains("second"), "{shown}");
}

async fn endpoints_of_stopped_deregistered_and_silent_nodes_are_not_listed(database: TestDatabase) {
    let (catalog, clock) = open(&database).await;
    for name in ["silent", "stopped", "deregistered", "live"] {
        register(&catalog, name).await;
        advertise(&catalog, name, "token").await;
    }
    let nodes = Nodes::new(&catalog);
    let starts = NodeStarts::default();
    nodes.stop("stopped", &starts, UtcTime(0)).await.unwrap();
    nodes.deregister("deregistered").await.unwrap();
    assert_eq!(names(&catalog).await, ["live", "silent"]);
    clock.set(clock.now().plus_micros(119_000_000));
    advertise(&catalog, "live", "token").await;
    assert_eq!(names(&catalog).await, ["live", "silent"]);
    clock.set(clock.now().plus_micros(2_000_000));
    assert_eq!(names(&catalog).await, ["live"]);
}

async fn only_registered_nodes_have_endpoints(database: TestDatabase) {
    let (catalog, _) = open(&database).await;
    let advertised = NodeEndpoints::new(&catalog).advertise("none", "http://none", "token");
    advertised.await.unwrap_err();
    assert!(names(&catalog).await.is_empty());
}
