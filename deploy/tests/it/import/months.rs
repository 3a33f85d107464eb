//! Imports whose events are of very many months: each costs ClickHouse an insert, and the server takes eight new ones a second.

use super::Stand;
use crate::nodes::until_going;
use crate::server::get;
use serde_json::json;

const MONTHS: u32 = 300;
const EVENTS_OF_A_MONTH: u32 = 10;

/// Events in the order that a file of users has them: each event is of another month than the one before.
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

/// The sum of the series of a metric whose labels have these words.
fn sum(stand: &Stand, metric: &str, words: &str) -> f64 {
    let url = format!("{}/metrics", stand.server.credential("health_url"));
    let (_, metrics) = get(&url, &[]);
    let series = metrics.lines().filter_map(|line| line.rsplit_once(' '));
    let series = series.filter(|(name, _)| name.starts_with(metric) && name.contains(words));
    series.map(|(_, value)| value.parse::<f64>().unwrap()).sum()
}

#[test]
fn a_chunk_of_300_months_is_loaded_whole_in_steps_of_a_month_and_exports_go_on() {
    let stand = Stand::start();
    std::fs::write(stand.path("by-user.ndjson"), file()).unwrap();
    let (result, code) = stand.result(&["load", "by-user.ndjson"]);
    let events = MONTHS * EVENTS_OF_A_MONTH;
    assert_eq!(
        (&result["accepted"], code),
        (&json!(events), Some(0)),
        "{result}"
    );
    stand.wait_for_events(u64::from(events));
    let months = "SELECT uniqExact(toYYYYMM(timestamp)), uniqExact(JSONExtractInt(properties, 'n')) FROM millrace.events";
    assert_eq!(stand.server.query(months), format!("{MONTHS}\t{events}"));
    until_going(&stand.path("millrace-data"));

    // A request and an insert for a month, and a few tries for those that had to wait.
    let requests = |status: &str| {
        let status = format!("status=\"{status}\"");
        sum(&stand, "millrace_ingest_requests_total{", &status)
    };
    let (taken, later) = (requests("200"), requests("503"));
    let inserts = sum(&stand, "millrace_insert_seconds_count{", "historical");
    println!("{taken} requests taken, {later} told to wait, {inserts} inserts");
    let months = f64::from(MONTHS);
    assert!(taken <= months + 10.0, "{taken} requests");
    assert!(later >= 1.0 && later <= months, "{later} told to wait");
    assert!(inserts <= months * 1.2, "{inserts} inserts");
}
