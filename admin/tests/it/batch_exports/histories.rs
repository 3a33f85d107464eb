//! Runs, backfills, log lines and tests of exports.

use super::{NOBODY, ORGANIZATION, PROJECT, export};
use crate::Fixture;
use millrace_catalog::{LogLevel, RunStatus, UtcTime};
use millrace_exports::{ExportLogs, ExportRuns, NewExportLog, NewRun, RunProgress};
use serde_json::{Value, json};
use std::time::Duration;
use uuid::Uuid;

on_both!(
    runs_are_listed_read_cancelled_and_retried,
    backfills_are_created_listed_and_cancelled,
    a_backfill_of_a_range_without_a_window_is_completed_with_a_message,
    invalid_backfill_ranges_are_refused,
    an_interval_of_another_version_is_named_with_what_to_set,
    logs_are_the_export_and_a_page_of_lines,
    the_steps_of_a_test_are_listed_for_each_type,
    runs_do_not_change_the_version_of_an_export,
);

/// One hour, in microseconds.
const HOUR: i64 = 3_600_000_000;

/// Begins a run as the export engine does; returns its id and path.
async fn begun(fixture: &Fixture, path: &str, hour: i64) -> (Uuid, String) {
    let id = path.trim_end_matches('/').rsplit('/').next().unwrap();
    let new = NewRun {
        backfill_id: None,
        data_interval_start: Some(UtcTime(hour * HOUR)),
        data_interval_end: UtcTime((hour + 1) * HOUR),
    };
    let run = ExportRuns::new(&fixture.catalog)
        .begin(id.parse().unwrap(), new)
        .await
        .unwrap();
    (run.id, format!("{path}runs/{}/", run.id))
}

fn progress() -> RunProgress {
    RunProgress {
        status: RunStatus::Running,
        records_completed: Some(5),
        records_total_count: Some(9),
        bytes_exported: Some(11),
        cursor: Some("c".to_owned()),
        latest_error: None,
        waits: false,
    }
}

async fn runs_are_listed_read_cancelled_and_retried() {
    let fixture = Fixture::new().await;
    for all in [ORGANIZATION, PROJECT] {
        let (_, path) = export(&fixture, all).await;
        let (id, run) = begun(&fixture, &path, 1).await;
        begun(&fixture, &path, 0).await;
        let progress = progress();
        ExportRuns::new(&fixture.catalog)
            .record(id, None, progress, Duration::ZERO)
            .await
            .unwrap();
        let read = fixture.get(&run).await;
        let expected = json!({
            "id": id, "status": "Running", "records_completed": 5, "latest_error": null,
            "data_interval_start": "1970-01-01T01:00:00Z",
            "data_interval_end": "1970-01-01T02:00:00Z", "cursor": "c",
            "created_at": read.body["created_at"], "finished_at": null,
            "last_updated_at": read.body["last_updated_at"], "records_total_count": 9, "bytes_exported": 11,
            "batch_export": read.body["batch_export"], "backfill": null,
        });
        assert_eq!(read.body, expected);
        let whole = fixture.get(&path).await;
        assert_eq!(whole.body["latest_runs"][1], expected);
        let windows = async |query: &str| {
            let list = fixture.get(&format!("{path}runs/?{query}")).await;
            assert_eq!(list.status, 200, "{list:?}");
            let rows = list.body["results"].as_array().unwrap().clone();
            let hour =
                |row: &Value| row["data_interval_start"].as_str().unwrap()[11..13].to_owned();
            rows.iter().map(hour).collect::<Vec<_>>()
        };
        assert_eq!(windows("").await, ["00", "01"]);
        assert_eq!(windows("ordering=-data_interval_start").await, ["01", "00"]);
        assert_eq!(windows("start=1970-01-01T01:00:00Z").await, ["01"]);
        assert_eq!(windows("end=1970-01-01T02:00:00%2B01:00").await, ["00"]);
        assert_eq!(windows("before=1970-01-01T02:00:00+01:00").await, [""; 0]);
        assert_eq!(windows("after=1970-01-01T02:00:00Z&limit=1").await, ["00"]);
        let bad = fixture.get(&format!("{path}runs/?after=1970-01-01")).await;
        assert_eq!(bad.error(), (400, "invalid_input", Some("after")));

        let early = fixture
            .call("POST", &format!("{run}retry/"), &json!({}))
            .await;
        assert_eq!(early.error(), (400, "invalid_input", None));
        let cancelled = fixture
            .call("POST", &format!("{run}cancel/"), &json!({}))
            .await;
        assert_eq!(
            (cancelled.status, &cancelled.body["status"]),
            (200, &json!("Cancelled"))
        );
        let twice = fixture
            .call("POST", &format!("{run}cancel/"), &json!({}))
            .await;
        assert_eq!(twice.error(), (400, "invalid_input", None));
        let retried = fixture
            .call("POST", &format!("{run}retry/"), &json!({}))
            .await;
        assert_eq!(
            (retried.status, &retried.body["status"]),
            (200, &json!("Starting"))
        );
    }
}

async fn backfills_are_created_listed_and_cancelled() {
    let fixture = Fixture::new().await;
    for all in [ORGANIZATION, PROJECT] {
        let (export, path) = export(&fixture, all).await;
        let range = json!({
            "start_at": "2026-01-01T00:00:00Z", "end_at": "2026-01-02T00:00:00+02:00",
            "name": "Ignored", "interval": 7,
        });
        let asked = fixture
            .call("POST", &format!("{path}backfill/"), &range)
            .await;
        assert_eq!(asked.status, 200, "{asked:?}");
        let mut expected = export.clone();
        expected["backfill_id"] = asked.body["backfill_id"].clone();
        assert_eq!(asked.body, expected);
        let one = format!(
            "{path}backfills/{}/",
            asked.body["backfill_id"].as_str().unwrap()
        );
        let read = fixture.get(&one).await;
        let expected = json!({
            "id": asked.body["backfill_id"], "batch_export": export["id"],
            "start_at": "2026-01-01T00:00:00Z", "end_at": "2026-01-01T22:00:00Z",
            "status": "Starting", "created_at": read.body["created_at"], "finished_at": null,
            "last_updated_at": read.body["created_at"],
            "progress": { "total_runs": null, "finished_runs": 0, "progress": null },
            "message": null,
        });
        assert_eq!(read.body, expected);
        let again = fixture
            .call("POST", &format!("{path}backfills/"), &json!({}))
            .await;
        assert_eq!((again.status, &again.body["start_at"]), (201, &Value::Null));
        let list = fixture.get(&format!("{path}backfills/")).await;
        assert_eq!(
            (&list.body["count"], &list.body["results"][1]),
            (&json!(2), &expected)
        );
        let cancelled = fixture
            .call("POST", &format!("{one}cancel/"), &json!({}))
            .await;
        assert_eq!(
            (cancelled.status, &cancelled.body["status"]),
            (200, &json!("Cancelled"))
        );
        let twice = fixture
            .call("POST", &format!("{one}cancel/"), &json!({}))
            .await;
        assert_eq!(twice.error(), (400, "invalid_input", None));
    }
}

async fn a_backfill_of_a_range_without_a_window_is_completed_with_a_message() {
    let fixture = Fixture::new().await;
    let (export, path) = export(&fixture, ORGANIZATION).await;
    // The export is younger than any of its windows.
    let range = json!({ "start_at": export["created_at"] });
    let asked = fixture
        .call("POST", &format!("{path}backfill/"), &range)
        .await;
    assert_eq!(asked.status, 200, "{asked:?}");
    let id = asked.body["backfill_id"].as_str().unwrap();
    let read = fixture.get(&format!("{path}backfills/{id}/")).await;
    assert_eq!(
        (&read.body["status"], &read.body["progress"]["total_runs"]),
        (&json!("Completed"), &json!(0))
    );
    assert!(read.body["message"].is_string(), "{read:?}");
}

async fn an_interval_of_another_version_is_named_with_what_to_set() {
    let fixture = Fixture::new().await;
    for all in [ORGANIZATION, PROJECT] {
        let (_, path) = export(&fixture, all).await;
        let pause = format!("{path}pause/");
        assert_eq!(fixture.call("POST", &pause, &json!({})).await.status, 200);
        fixture
            .execute("UPDATE batch_exports SET \"interval\" = 'fortnight'")
            .await;
        for (method, path, body) in [
            ("POST", format!("{path}unpause/"), json!({})),
            (
                "POST",
                format!("{path}unpause/"),
                json!({ "backfill": true }),
            ),
            ("POST", format!("{path}backfill/"), json!({})),
            ("POST", format!("{path}backfills/"), json!({})),
            ("PATCH", path.clone(), json!({ "paused": false })),
        ] {
            let refused = fixture.call(method, &path, &body).await;
            let expected = (400, "invalid_choice", Some("interval"));
            assert_eq!(refused.error(), expected, "{method} {path}");
            let detail = refused.body["detail"].as_str().unwrap();
            assert!(detail.contains("fortnight"), "{detail}");
            assert!(detail.contains("hour, day, week or every N"), "{detail}");
        }
        let change = json!({ "interval": "day", "paused": false });
        let changed = fixture.call("PATCH", &path, &change).await;
        assert_eq!(
            (changed.status, &changed.body["interval"]),
            (200, &json!("day"))
        );
    }
}

async fn invalid_backfill_ranges_are_refused() {
    let fixture = Fixture::new().await;
    let (_, path) = export(&fixture, ORGANIZATION).await;
    let table = [
        (json!({ "start_at": "2026-01-01T00:00:00" }), "start_at"),
        (json!({ "end_at": "2026-01-01" }), "end_at"),
        (json!({ "start_at": 5 }), "start_at"),
        (
            json!({ "start_at": "2026-01-02T00:00:00Z", "end_at": "2026-01-02T00:00:00Z" }),
            "start_at",
        ),
        (json!({ "end_at": "2999-01-01T00:00:00Z" }), "end_at"),
    ];
    for (range, attr) in table {
        for action in ["backfill/", "backfills/"] {
            let answer = fixture
                .call("POST", &format!("{path}{action}"), &range)
                .await;
            assert_eq!(
                answer.error(),
                (400, "invalid_input", Some(attr)),
                "{action} {range}"
            );
        }
    }
}

async fn logs_are_the_export_and_a_page_of_lines() {
    let fixture = Fixture::new().await;
    let (_, path) = export(&fixture, ORGANIZATION).await;
    let (run_id, run) = begun(&fixture, &path, 0).await;
    let id = path
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    for (level, message) in [(LogLevel::Info, "Begun"), (LogLevel::Error, "Broken")] {
        let line = NewExportLog {
            level,
            message: message.to_owned(),
        };
        ExportLogs::new(&fixture.catalog)
            .write(id, run_id, vec![line])
            .await
            .unwrap();
    }
    fixture
        .call("POST", &format!("{path}pause/"), &json!({}))
        .await;
    let logs = fixture.get(&format!("{path}logs/?limit=2")).await;
    assert_eq!((logs.status, &logs.body["count"]), (200, &json!(3)));
    assert!(
        logs.body["next"]
            .as_str()
            .unwrap()
            .ends_with("logs/?limit=2&offset=2")
    );
    let export = fixture.get(&path).await;
    for (field, value) in export.body.as_object().unwrap() {
        assert_eq!(&logs.body[field], value, "{field}");
    }
    let expected = json!({
        "log_source_id": id, "instance_id": run_id, "level": "ERROR", "message": "Broken",
        "timestamp": logs.body["results"][1]["timestamp"],
    });
    assert_eq!(logs.body["results"][1], expected);
    assert_eq!(logs.body["results"][0]["instance_id"], Value::Null);
    let of_run = fixture.get(&format!("{run}logs/")).await;
    assert_eq!(
        (of_run.status, &of_run.body["results"][0]),
        (200, &expected)
    );
    for (query, count) in [
        (format!("instance_id={run_id}"), 2),
        ("instance_id=nonsense".to_owned(), 0),
        ("level=error,warning".to_owned(), 1),
        ("search=brok".to_owned(), 1),
        ("before=2020-01-01T00:00:00Z".to_owned(), 0),
        ("after=2020-01-01T00:00:00Z".to_owned(), 3),
        ("limit=9999".to_owned(), 3),
    ] {
        let found = fixture.get(&format!("{path}logs/?{query}")).await;
        assert_eq!(found.body["count"], count, "{query}");
    }
    let bad = fixture.get(&format!("{path}logs/?level=LOUD")).await;
    assert_eq!(bad.error(), (400, "invalid_choice", Some("level")));
    let none = fixture.get(&format!("{path}runs/{NOBODY}/logs/")).await;
    assert_eq!(none.error(), (404, "not_found", None));
}

async fn the_steps_of_a_test_are_listed_for_each_type() {
    let fixture = Fixture::new().await;
    let store = "Reach Authenticate Write Read Delete";
    let table = "Reach Authenticate Find Write Read Delete";
    for (kind, expected) in [
        ("S3", store),
        ("AzureBlob", store),
        ("GCS", store),
        ("FileSystem", "Write Read Delete"),
        ("Postgres", table),
        ("Redshift", table),
        ("Snowflake", table),
        ("BigQuery", table),
        ("Databricks", table),
        ("ClickHouse", table),
        ("HTTP", "Reach Authenticate"),
        ("NoOp", ""),
    ] {
        let answer = fixture
            .get(&format!("{ORGANIZATION}test/?destination={kind}"))
            .await;
        assert_eq!(answer.status, 200, "{kind}");
        let mut names = Vec::new();
        for step in answer.body["steps"].as_array().unwrap() {
            assert_eq!(step["result"], Value::Null);
            names.push(step["name"].as_str().unwrap());
        }
        assert_eq!(names.join(" "), expected, "{kind}");
    }
    for (query, code) in [("", "required"), ("destination=FTP", "invalid_choice")] {
        let answer = fixture.get(&format!("{PROJECT}test/?{query}")).await;
        assert_eq!(answer.error(), (400, code, Some("destination")), "{query}");
    }
}

async fn runs_do_not_change_the_version_of_an_export() {
    let fixture = Fixture::new().await;
    for all in [ORGANIZATION, PROJECT] {
        let (_, path) = export(&fixture, all).await;
        let tag = fixture.get(&path).await.header("etag").to_owned();
        let (id, _) = begun(&fixture, &path, 1).await;
        let mut runs = Vec::new();
        for status in [RunStatus::Running, RunStatus::Completed] {
            let progress = RunProgress {
                status,
                ..progress()
            };
            let recorded =
                ExportRuns::new(&fixture.catalog).record(id, None, progress, Duration::ZERO);
            recorded.await.unwrap();
            let now = fixture.get(&path).await;
            assert_eq!(now.header("etag"), tag, "{status:?}");
            assert_eq!(now.header("cache-control"), "no-store");
            runs.push(now.body["latest_runs"].clone());
        }
        assert_ne!(runs[0], runs[1], "they are live");
        let bearer = format!("Bearer {}", fixture.owner_key());
        let headers = [("authorization", &*bearer), ("if-match", &*tag)];
        let named = json!({ "name": "B" }).to_string();
        for status in [200, 412] {
            let changed = fixture.request("PATCH", &path, &headers, named.as_bytes());
            assert_eq!(changed.await.status, status);
        }
        // Pausing is a change.
        let tag = fixture.get(&path).await.header("etag").to_owned();
        let pause = format!("{path}pause/");
        let paused = fixture.call("POST", &pause, &json!({})).await;
        assert_eq!(paused.status, 200);
        assert_ne!(fixture.get(&path).await.header("etag"), tag);
    }
}
