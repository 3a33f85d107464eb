//! States of nodes, as commands, health checks and metrics tell them.

use super::test_env::{Fleet, NOWHERE};
use crate::server::{eventually, get, run};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

const ARGS: [&str; 2] = ["--clickhouse-url", NOWHERE];

/// The only node in a JSON list.
fn only(list: &str) -> Value {
    let list: Value = serde_json::from_str(list).unwrap();
    let nodes = list["nodes"].as_array().unwrap().clone();
    assert_eq!(nodes.len(), 1, "{list}");
    nodes[0].clone()
}

/// Node in the output of `millrace nodes list --json`.
fn listed(fleet: &Fleet) -> Value {
    let (folder, url) = (fleet.folder("one"), fleet.url());
    let args = ["nodes", "list", "--json", "--database-url", &url];
    let output = run(&[&args[..], &["--data-dir", folder.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{output:?}");
    only(&String::from_utf8(output.stdout).unwrap())
}

/// Has the node be unheard of for longer.
fn age(fleet: &Fleet, seconds: u32) {
    let sql = format!("UPDATE node_reports SET heard_at = heard_at - {seconds}000000");
    fleet.execute(&sql);
}

#[test]
fn a_node_runs_is_silent_and_is_lost_in_lists_health_checks_and_metrics() {
    let fleet = Fleet::new();
    let admin = fleet.start("admin", "admin", &ARGS);
    let node = fleet.start("ingest", "one", &ARGS);
    node.capture(&json!([{"event": "waits", "distinct_id": "a"}]));
    let running = eventually("a report with what waits", || {
        let listed = listed(&fleet);
        (listed["log_bytes"].as_u64() > Some(0)).then_some(listed)
    });
    assert_eq!(running["state"], "running");
    assert_eq!(running["version"], env!("CARGO_PKG_VERSION"));
    let address = node.credential("ingest_url").replace("http://", "");
    assert_eq!(running["address"], address);
    kill_process(node.pid(), Signal::STOP).unwrap();
    for (seconds, state) in [(15, "silent"), (120, "lost")] {
        age(&fleet, seconds);
        let told = listed(&fleet);
        assert_eq!(told["state"], state, "{told}");
        assert!(told["unheard_seconds"].as_i64() >= Some(i64::from(seconds)));
        let health = admin.credential("health_url");
        eventually(state, || {
            let (status, list) = get(&format!("{health}/_health/nodes"), &[]);
            (status == 200 && only(&list)["state"] == state).then_some(())
        });
        let (name, host) = (
            told["name"].as_str().unwrap(),
            told["host"].as_str().unwrap(),
        );
        let metric =
            format!("millrace_node_state{{node=\"{name}\",host=\"{host}\",state=\"{state}\"}}");
        eventually(&metric, || (admin.metric(&metric)? > 0.5).then_some(()));
    }
    kill_process(node.pid(), Signal::CONT).unwrap();
    eventually("the node again", || {
        (listed(&fleet)["state"] == "running").then_some(())
    });
    let health = node.credential("health_url");
    assert_eq!(get(&format!("{health}/_health/nodes"), &[]).0, 404);
}
