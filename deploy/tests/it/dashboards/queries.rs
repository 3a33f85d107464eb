//! Queries of panels, run by promtool on the metrics of a server.

use super::source::{Dashboard, Query};
use serde_json::{Value, json};

/// Series that Prometheus itself adds, and those that begin with a fault, an import or a run, which
/// the server of the test has not. Each line is as a page would have it.
const LATER_SERIES: &str = r#"
up 1
millrace_insert_retries_total{lane="live",outcome="unknown"} 1
millrace_insert_rows_dead_lettered_total{lane="live"} 1
millrace_insert_rows_salvaged_total{lane="live"} 1
millrace_log_rows_lost_total{lane="live"} 1
millrace_log_damaged_total{lane="live"} 1
millrace_ingest_connections_refused_total{limit="process"} 1
millrace_ingest_timeouts_total{what="head"} 1
millrace_ingest_requests_total{path="/batch",status="503"} 1
millrace_historical_events_refused_total{code="batch_exceeds_quota"} 1
millrace_export_runs_total{status="Completed"} 1
millrace_export_rows_total 1
millrace_export_bytes_total 1
millrace_live_viewers 1
millrace_quota_leased_events 1
millrace_project_events_per_second{project_id="1",outcome="accepted"} 1
millrace_project_events_per_second{project_id="1",outcome="rejected"} 1
millrace_project_bytes_per_second{project_id="1"} 1
"#;
/// Minutes of each series.
const MINUTES: u32 = 90;

/// Names of the panels' queries, and the queries.
pub fn queries(dashboards: &[Dashboard]) -> Vec<(String, &Query)> {
    let rows = dashboards
        .iter()
        .flat_map(|dashboard| dashboard.row.iter().map(move |row| (dashboard, row)));
    let panels = rows.flat_map(|(dashboard, row)| {
        row.panel
            .iter()
            .map(move |panel| (format!("{}: {}", dashboard.file, panel.title), panel))
    });
    panels
        .flat_map(|(name, panel)| panel.queries.iter().map(move |query| (name.clone(), query)))
        .collect()
}

/// Test of promtool that each query has a result on a page of metrics, all of whose counters rise.
pub fn promtool_test(queries: &[(String, &Query)], page: &str) -> Value {
    let scraped: Vec<Value> = page.lines().filter_map(series).collect();
    let is_scraped = |line: &&str| {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        page.contains(&format!("\n{name}{{")) || page.contains(&format!("\n{name} "))
    };
    let errors = |line: &&str| line.contains("status=\"503\"");
    // A name that the page has is the page's.
    let later = LATER_SERIES
        .lines()
        .filter(|line| errors(line) || !is_scraped(line))
        .filter_map(series);
    let input: Vec<Value> = scraped.into_iter().chain(later).collect();
    let tests: Vec<Value> = queries
        .iter()
        .map(|(_, query)| {
            json!({
                "expr": format!("count({}) > bool 0", filled_in(&query.expr)),
                "eval_time": format!("{MINUTES}m"),
                "exp_samples": [{ "labels": "{}", "value": 1 }],
            })
        })
        .collect();
    json!({
        "rule_files": [],
        "evaluation_interval": "1m",
        "tests": [{ "interval": "1m", "input_series": input, "promql_expr_test": tests }],
    })
}

/// Series of a line of a page, with the labels of a scrape; `None` for other lines.
fn series(line: &str) -> Option<Value> {
    let (series, value) = line.rsplit_once(' ')?;
    if line.starts_with('#') {
        return None;
    }
    let (name, labels) = match series.split_once('{') {
        Some((name, labels)) => (name, format!(",{labels}")),
        None => (series, "}".to_owned()),
    };
    let value: f64 = value.parse().unwrap();
    // A summary of nothing has no quantiles.
    let value = if value.is_finite() { value } else { 0.0 };
    let rises = ["_total", "_bucket", "_count", "_sum"];
    let values = match rises.iter().any(|end| name.ends_with(end)) {
        true => format!("{value:.6}+1x{MINUTES}"),
        false => format!("{value:.6}x{MINUTES}"),
    };
    let series = format!("{name}{{job=\"millrace\",instance=\"a\"{labels}");
    Some(json!({ "series": series, "values": values }))
}

/// Query with Grafana's variables filled in.
fn filled_in(query: &str) -> String {
    query
        .replace("$instance", ".*")
        .replace("$__rate_interval", "5m")
}
