//! Imports with events of very many months: each month costs ClickHouse an insert, and the server
//! accepts eight new ones per second.

use super::TestEnv;
use crate::nodes::until_exports_advance;
use crate::server::get;
use serde_json::json;

const MONTHS: u32 = 300;
const EVENTS_OF_A_MONTH: u32 = 10;

/// File ordered by user: each event is of another month than the one before.
fn file() -> String {
    let line = |number: u32| {
        let (month, user) = (number % MONTHS, number / MONTHS);
        let day = format!("{}-{:02}-05", 1990 + month / 12, month % 12 + 1);
        format!(
            "{{\"event\":\"old\",\"distinct_id\":\"user {user}\",\"timestamp\":\"{day}T10:00:00Z\",\"properties\":{{\"n\":{number}}}}}\n"
        )
    };
    (0..MONTHS * EVENTS_OF_A_MONTH).map(line).collect()
}

/// Sum of the series of a metric whose labels contain this text.
fn sum(env: &TestEnv, metric: &str, words: &str) -> f64 {
    let url = format!("{}/metrics", env.server.credential("health_url"));
    let (_, metrics) = get(&url, &[]);
    let series = metrics.lines().filter_map(|line| line.rsplit_once(' '));
    let series = series.filter(|(name, _)| name.starts_with(metric) && name.contains(words));
    series.map(|(_, value)| value.parse::<f64>().unwrap()).sum()
}

#[test]
fn a_chunk_of_300_months_is_loaded_whole_in_steps_of_a_month_and_exports_go_on() {
    let env = TestEnv::start();
    std::fs::write(env.path("by-user.ndjson"), file()).unwrap();
    let (result, code) = env.result(&["load", "by-user.ndjson"]);
    let events = MONTHS * EVENTS_OF_A_MONTH;
    assert_eq!(
        (&result["accepted"], code),
        (&json!(events), Some(0)),
        "{result}"
    );
    env.wait_for_events(u64::from(events));
    let months = "SELECT uniqExact(toYYYYMM(timestamp)), uniqExact(JSONExtractInt(properties, 'n')) FROM millrace.events";
    assert_eq!(env.server.query(months), format!("{MONTHS}\t{events}"));
    until_exports_advance(&env.path("millrace-data"));

    // A request and an insert per month, and a few retries for those that had to wait.
    let requests = |status: &str| {
        let status = format!("status=\"{status}\"");
        sum(&env, "millrace_ingest_requests_total{", &status)
    };
    let (taken, later) = (requests("200"), requests("503"));
    let inserts = sum(&env, "millrace_insert_seconds_count{", "historical");
    println!("{taken} requests taken, {later} told to wait, {inserts} inserts");
    let months = f64::from(MONTHS);
    assert!(taken <= months + 10.0, "{taken} requests");
    assert!(later >= 1.0 && later <= months, "{later} told to wait");
    assert!(inserts <= months * 1.2, "{inserts} inserts");
}
