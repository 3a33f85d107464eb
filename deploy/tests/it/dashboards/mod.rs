//! Dashboards for Grafana: made of one file, each query run on the metrics of a real server.
//!
//! | Module | Holds |
//! |---|---|
//! | `source` | the file that they are made of |
//! | `made` | the JSON that Grafana imports |
//! | `queries` | their queries, run by promtool |

mod made;
mod queries;
mod source;

use crate::alerts::promtool;
use crate::server::{Server, ask, eventually, get};
use made::made;
use queries::{promtool_test, queries};
use serde_json::{Value, json};
use source::{dashboards, folder};
use std::collections::BTreeSet;
use std::process::Command;
use tempfile::TempDir;

#[test]
fn the_dashboards_are_made() {
    for dashboard in dashboards() {
        let path = folder().join(format!("{}.json", dashboard.file));
        let made = made(&dashboard);
        if std::env::var_os("UPDATE").is_some() {
            let text = serde_json::to_string_pretty(&made).unwrap();
            std::fs::write(&path, text + "\n").unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let written: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            written,
            made,
            "{}: UPDATE=1 cargo test -p millrace --test it the_dashboards_are_made",
            path.display()
        );
    }
}

#[test]
fn panels_have_titles_of_their_own_and_at_most_four_queries() {
    for dashboard in dashboards() {
        for row in &dashboard.row {
            let titles: BTreeSet<&str> = row.panel.iter().map(|panel| &*panel.title).collect();
            assert_eq!(titles.len(), row.panel.len(), "{}", row.title);
            for panel in &row.panel {
                assert!((1..=4).contains(&panel.queries.len()), "{}", panel.title);
            }
        }
    }
}

/// Page of metrics of a server that has stored and rejected events, answered its API and counted
/// nodes and persons.
fn scraped_page() -> String {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    server.wait_for_tables();
    server.capture(&json!([
        { "event": "seen", "distinct_id": "ann", "properties": { "$set": { "plan": "small" } } },
        { "event": "seen" },
    ]));
    let (status, _) = ask(&server, "GET", "/api/organizations/", &Value::Null);
    assert_eq!(status, 200);
    let (status, _) = ask(&server, "GET", "/api/nowhere/", &Value::Null);
    assert_eq!(status, 404);
    server.wait_for("SELECT count() FROM millrace.persons_current", "1");
    let url = format!("{}/metrics", server.credential("health_url"));
    // These are measured at intervals.
    let needed = [
        "\nmillrace_disk_available_bytes{",
        "\nmillrace_clickhouse_usable 1",
        "\nmillrace_node_watermark_age_seconds{",
        "\nmillrace_catalog_bytes ",
        "\nmillrace_export_lag_seconds ",
        "\nmillrace_exports_waiting ",
        "\nmillrace_engine_threads ",
        "\nmillrace_person_updates_total ",
    ];
    eventually("all metrics", || {
        let (_, page) = get(&url, &[]);
        needed.iter().all(|it| page.contains(it)).then_some(page)
    })
}

#[test]
fn every_query_of_a_panel_has_a_result_on_the_metrics_of_a_server() {
    let dashboards = dashboards();
    let queries = queries(&dashboards);
    let page = scraped_page();
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("queries.json");
    let test = promtool_test(&queries, &page);
    std::fs::write(&file, test.to_string()).unwrap();
    let output = Command::new(promtool())
        .args(["test", "rules"])
        .arg(&file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}\n{page}");
}

#[test]
fn a_server_names_its_build_its_process_and_its_engine() {
    let page = scraped_page();
    let value = |name: &str| {
        let line = page.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {page}"));
        line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
    };
    let version = env!("CARGO_PKG_VERSION");
    let build = page
        .lines()
        .find(|line| line.starts_with("millrace_build_info{"));
    assert!(build.unwrap().contains(&format!("version=\"{version}\"")));
    for name in [
        "process_cpu_seconds_total ",
        "process_resident_memory_bytes ",
        "process_open_fds ",
        "process_max_fds ",
        "process_threads ",
        "process_start_time_seconds ",
        "millrace_engine_cpu_seconds_total ",
        "millrace_engine_resident_memory_bytes ",
        "millrace_admin_requests_total{operation=\"organizations_list\",status=\"200\"} ",
        "millrace_admin_requests_total{operation=\"none\",status=\"404\"} ",
        "millrace_admin_request_seconds_count{operation=\"organizations_list\"} ",
    ] {
        assert!(value(name) > 0.0, "{name}");
    }
    assert!(value("process_open_fds ") < value("process_max_fds "));
}
