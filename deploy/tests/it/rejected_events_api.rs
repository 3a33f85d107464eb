//! Rejected events through the API of a real server: found, checked, corrected and sent again.

use crate::nodes::on_catalog;
use crate::rejected_events::refuse;
use crate::server::{Server, ask};
use millrace_catalog::Actor;
use millrace_organizations::{BegunResend, NewResend, RejectedEventResends};
use millrace_rows::ProjectId;
use serde_json::{Value, json};
use tempfile::TempDir;

const ALL: &str = "/api/projects/@current/rejected_events/";
/// Versions of the event that is sent again.
const STORED: &str = "SELECT count(), min(distinct_id), max(distinct_id) FROM millrace.events FINAL \
     WHERE event = 'lost'";

/// Reads a path of the API, which must succeed.
fn read(server: &Server, path: &str) -> Value {
    let (status, answer) = ask(server, "GET", path, &json!({}));
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

/// Sends the selected events again, or has them checked.
fn resend(server: &Server, body: &Value) -> Value {
    let (status, answer) = ask(server, "POST", &format!("{ALL}resend/"), body);
    assert_eq!(status, 200, "{body}: {answer}");
    answer
}

/// Server that has rejected an event without a distinct id.
fn with_a_rejected_event(dir: &TempDir) -> Server {
    let server = Server::start(dir.path());
    let key = server.credential("project_api_key");
    let lost = json!([{"event": "lost", "user": "ada", "properties": {"n": 1.5}}]);
    refuse(&server, &key, &lost, 1);
    server
}

#[test]
fn a_rejected_event_is_found_checked_corrected_and_sent_again() {
    let dir = TempDir::new().unwrap();
    let server = with_a_rejected_event(&dir);
    let listed = read(&server, ALL);
    let event = &listed["results"][0];
    assert_eq!(
        (&listed["count"], &event["code"]),
        (&json!(1), &json!("missing_distinct_id"))
    );
    assert_eq!(event["resent_at"], Value::Null);
    let one = read(&server, &format!("{ALL}{}/", event["id"].as_str().unwrap()));
    let raw = one["raw"].as_str().unwrap();
    assert!(raw.contains("1.5"), "{raw}");
    assert_eq!(one["raw_bytes"], raw.len());
    let groups = read(&server, &format!("{ALL}groups/?after=2020-01-01T00:00:00Z"));
    let group = &groups["results"][0];
    assert_eq!(
        (&group["events"], &group["unsent"]),
        (&json!(1), &json!(1)),
        "{groups}"
    );
    assert_eq!(group["newest_id"], event["id"]);

    let unchanged = resend(&server, &json!({}));
    let result = &unchanged["results"][0];
    assert_eq!(result["outcome"], "rejected", "{unchanged}");
    let why = result["detail"].as_str().unwrap();
    assert!(why.starts_with("missing_distinct_id"), "{why}");
    let mut mapping =
        json!({ "rename": { "user": "distinct_id" }, "set": { "properties.by": "hand" } });
    let checked = resend(&server, &mapping);
    assert_eq!(checked["accepted"], 1, "{checked}");
    let sent: Value =
        serde_json::from_str(checked["results"][0]["event"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&sent["distinct_id"], &sent["properties"]["by"]),
        (&json!("ada"), &json!("hand"))
    );
    assert_eq!(read(&server, &format!("{ALL}?unsent=true"))["count"], 1);

    mapping["dry_run"] = json!(false);
    let sent = resend(&server, &mapping);
    assert_eq!(
        (&sent["accepted"], &sent["not_tried"]),
        (&json!(1), &json!(0)),
        "{sent}"
    );
    server.wait_for(STORED, "1\tada\tada");
    assert_eq!(resend(&server, &mapping)["selected"], 0);
    assert_eq!(read(&server, &format!("{ALL}?unsent=true"))["count"], 0);
    assert!(read(&server, ALL)["results"][0]["resent_at"].is_string());
    // Once more: the same row again, which is merged.
    mapping["resent"] = json!(true);
    assert_eq!(resend(&server, &mapping)["accepted"], 1);
    server.wait_for(STORED, "1\tada\tada");
    assert_eq!(
        server.query("SELECT count() FROM millrace.rejected_events"),
        "1"
    );
    let project = "/api/organizations/@current/projects/@current/";
    let entries = read(&server, &format!("{project}activity/")).to_string();
    assert!(entries.contains("rejected_events_resent"), "{entries}");
}

#[test]
fn a_request_that_another_process_left_is_settled_before_another_correction() {
    let dir = TempDir::new().unwrap();
    let server = with_a_rejected_event(&dir);
    let received_at = "SELECT toUnixTimestamp64Micro(received_at) FROM millrace.rejected_events";
    let received_at: i64 = server.query(received_at).parse().unwrap();
    let event = read(&server, ALL)["results"][0].clone();
    let corrected = json!({
        "event": "lost", "distinct_id": "first", "timestamp": "2026-11-01T00:00:00Z",
        "uuid": "018f2a3b-0000-7000-8000-000000000000",
    });
    let request = json!([{
        "received_at": received_at, "request_id": event["request_id"], "index": event["index"],
        "json": corrected,
    }]);
    let new = NewResend {
        project_id: ProjectId(1),
        historical_migration: false,
        request: request.to_string(),
        events: 1,
    };
    let begun = on_catalog(dir.path(), async |catalog| {
        let resends = RejectedEventResends::new(catalog);
        resends.begin(&Actor::command_line(), new).await.unwrap()
    });
    assert!(matches!(begun, BegunResend::New(_)), "{begun:?}");

    let second = json!({ "set": { "distinct_id": "second" }, "dry_run": false });
    let sent = resend(&server, &second);
    assert_eq!(sent["results"][0]["outcome"], "already_sent", "{sent}");
    server.wait_for(STORED, "1\tfirst\tfirst");
    assert_eq!(resend(&server, &second)["selected"], 0);
}

#[test]
fn a_project_reads_and_sends_its_own_rejected_events_alone() {
    let dir = TempDir::new().unwrap();
    let server = with_a_rejected_event(&dir);
    let projects = "/api/organizations/@current/projects/";
    let (status, other) = ask(&server, "POST", projects, &json!({ "name": "Other" }));
    assert_eq!(status, 201, "{other}");
    let key = other["api_token"].as_str().unwrap();
    refuse(
        &server,
        key,
        &json!([{"event": "theirs"}, {"event": "theirs"}]),
        3,
    );
    let of_other = format!("/api/projects/{}/rejected_events/", other["id"]);
    let theirs = read(&server, &of_other);
    assert_eq!(
        (&theirs["count"], &read(&server, ALL)["count"]),
        (&json!(2), &json!(1))
    );
    let id = theirs["results"][0]["id"].as_str().unwrap();
    let (status, _) = ask(&server, "GET", &format!("{ALL}{id}/"), &json!({}));
    assert_eq!(status, 404);
    let chosen = json!({ "events": [id], "set": { "distinct_id": "ada" }, "dry_run": false });
    assert_eq!(resend(&server, &chosen)["selected"], 0);
    assert_eq!(
        read(&server, &format!("{of_other}?unsent=true"))["count"],
        2
    );
}
