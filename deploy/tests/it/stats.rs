//! Numbers of events of a real server: counted once all nodes have shipped a minute.

use crate::server::{Server, ask, eventually_within};
use serde_json::{Value, json};
use std::time::Duration;
use tempfile::TempDir;

/// Longest time until a minute is over and counted.
const COUNTED_MAX: Duration = Duration::from_secs(150);

/// Reads numbers by day, once they are counted from some time on.
fn read(server: &Server, path: &str) -> Option<Value> {
    let (status, answer) = ask(server, "GET", path, &json!({}));
    assert!(status == 200 || status == 503, "{path}: {status} {answer}");
    (status == 200).then_some(answer)
}

/// Sends 30 events of two names and two SDKs, and twice the same three others.
fn capture_known_events(server: &Server) {
    let events: Vec<Value> = (0..30)
        .map(|number| {
            let sdk = if number % 3 == 0 { "web" } else { "ios" };
            json!({
                "event": format!("e{}", number % 2), "distinct_id": "ada",
                "properties": { "$lib": sdk },
            })
        })
        .collect();
    // A request that is sent again under the same ids is recognized.
    let ids: Vec<Value> = (0..3)
        .map(|number| {
            json!({
                "event": "again", "distinct_id": "ada",
                "uuid": format!("018f2a3b-0000-7000-8000-00000000000{number}"),
                "timestamp": "2026-11-01T00:00:00Z",
            })
        })
        .collect();
    for batch in [&events, &ids, &ids] {
        server.capture(&json!(batch));
    }
}

#[test]
fn each_acknowledged_event_is_counted_once_by_day_sdk_and_project() {
    let dir = TempDir::new().unwrap();
    let unthrottled = [
        "--admin-requests-per-minute-max",
        "0",
        "--admin-requests-per-hour-max",
        "0",
    ];
    let server = Server::start_with(dir.path(), &unthrottled);
    server.wait_for_tables();
    let project = "/api/projects/@current/stats/?step=day&before=2100-01-01T00:00:00Z\
         &after=2099-12-31T00:00:00Z";
    eventually_within(COUNTED_MAX, "the beginning", || read(&server, project));
    capture_known_events(&server);
    let today = "/api/projects/@current/stats/?step=day";
    let counted = eventually_within(COUNTED_MAX, "the count", || {
        let answer = read(&server, today)?;
        (answer["totals"]["accepted"].as_u64()? > 0).then_some(answer)
    });
    // All of them came within a minute, or within two.
    let counted = match counted["totals"]["accepted"].as_u64() {
        Some(33) => counted,
        _ => eventually_within(COUNTED_MAX, "the rest", || {
            let answer = read(&server, today)?;
            (answer["totals"]["accepted"] == 33).then_some(answer)
        }),
    };
    assert!(
        counted["totals"]["bytes"].as_u64().unwrap() > 0,
        "{counted}"
    );
    let numbers = |path: &str| {
        let answer = read(&server, path).unwrap();
        let results = answer["results"].as_array().unwrap().clone();
        let mut numbers: Vec<(String, u64)> = results
            .iter()
            .map(|row| {
                let name = row["name"].as_str().unwrap_or_default();
                (name.to_owned(), row["accepted"].as_u64().unwrap())
            })
            .collect();
        // A test at midnight has two days.
        numbers.sort();
        numbers
    };
    let sum = |numbers: &[(String, u64)], name: &str| -> u64 {
        let of_name = numbers.iter().filter(|(had, _)| had == name);
        of_name.map(|(_, count)| count).sum()
    };
    let sdks = numbers(&format!("{today}&by=sdk"));
    assert_eq!(
        (sum(&sdks, "web"), sum(&sdks, "ios"), sum(&sdks, "")),
        (10, 20, 3)
    );
    let names = numbers(&format!("{today}&by=event"));
    assert_eq!(
        (sum(&names, "e0"), sum(&names, "e1"), sum(&names, "again")),
        (15, 15, 3)
    );
    let projects = numbers("/api/organizations/@current/stats/?step=day&by=project");
    assert_eq!(sum(&projects, "1"), 33);
    let rate = "millrace_project_events_per_second{project_id=\"1\",outcome=\"accepted\"}";
    let rate = eventually_within(COUNTED_MAX, "the rate of the project", || {
        server.metric(rate)
    });
    assert!(rate > 0.0, "{rate}");
}
