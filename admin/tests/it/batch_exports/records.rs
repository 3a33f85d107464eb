//! Batch exports: created, read, changed, paused, deleted.

use super::{ORGANIZATION, PROJECT, export, made, new_export};
use crate::Fixture;
use millrace_admin::ApiConfig;
use millrace_exports::BatchExports;
use serde_json::{Value, json};

on_both!(
    a_new_export_has_the_fields_that_clients_expect,
    an_export_changes_by_patch_and_put,
    invalid_fields_are_named,
    persons_cannot_be_exported_to_event_endpoints,
    missing_fields_and_foreign_projects_are_named,
    secrets_are_never_returned,
    private_addresses_and_files_need_the_operators_setting,
    pausing_returns_the_whole_export_and_changes_only_its_state,
);

async fn a_new_export_has_the_fields_that_clients_expect() {
    let fixture = Fixture::new().await;
    for all in [ORGANIZATION, PROJECT] {
        let (export, path) = export(&fixture, all).await;
        let expected = json!({
            "id": export["id"], "team_id": fixture.made.project_id.0, "name": "Nightly",
            "model": "events", "interval": "hour", "paused": false,
            "destination": { "type": "S3", "config": {
                "bucket_name": "bucket", "region": "r", "prefix": "p",
            } },
            "created_at": export["created_at"], "last_updated_at": export["created_at"],
            "last_paused_at": null, "start_at": null, "end_at": null, "latest_runs": [],
            "hogql_query": null, "schema": null,
        });
        assert_eq!(export, expected);
        let read = fixture.get(&path).await;
        assert_eq!(read.body, export);
        assert!(!read.header("etag").is_empty());
    }
    for all in [ORGANIZATION, PROJECT] {
        let list = fixture.get(&format!("{all}?limit=1")).await;
        assert_eq!((list.status, &list.body["count"]), (200, &json!(2)));
        assert!(
            list.body["next"]
                .as_str()
                .unwrap()
                .ends_with("limit=1&offset=1")
        );
    }
}

async fn an_export_changes_by_patch_and_put() {
    let fixture = Fixture::new().await;
    let (export, path) = export(&fixture, ORGANIZATION).await;
    let change = json!({
        "name": "Daily", "model": "persons", "interval": "every 30 minutes", "paused": true,
        "start_at": "2026-01-01T01:00:00+01:00", "end_at": "2027-01-01T00:00:00Z",
        "destination": { "config": { "prefix": "q", "unknown": 1 } },
        "id": "x", "team_id": 99, "created_at": "never", "latest_runs": 3, "schema": {},
    });
    let changed = fixture.call("PATCH", &path, &change).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let body = &changed.body;
    assert_eq!(
        (&body["name"], &body["model"]),
        (&json!("Daily"), &json!("persons"))
    );
    assert_eq!(body["start_at"], "2026-01-01T00:00:00Z");
    assert_eq!(body["destination"]["config"]["prefix"], "q");
    assert_eq!(body["destination"]["config"].get("unknown"), None);
    assert!(body["paused"] == true && body["last_paused_at"].is_string());
    assert_eq!(
        (&body["id"], &body["team_id"]),
        (&export["id"], &export["team_id"])
    );

    let put = json!({ "name": "Put", "interval": "week", "destination": { "type": "NoOp" } });
    let replaced = fixture.call("PUT", &path, &put).await;
    assert_eq!(
        (replaced.status, &replaced.body["interval"]),
        (200, &json!("week"))
    );
    assert_eq!(
        replaced.body["destination"],
        json!({ "type": "NoOp", "config": {} })
    );
    for field in ["name", "interval", "destination"] {
        let mut less = put.clone();
        less.as_object_mut().unwrap().remove(field);
        let answer = fixture.call("PUT", &path, &less).await;
        assert_eq!(answer.error(), (400, "required", Some(field)));
    }
    let answer = fixture
        .call("PATCH", &path, &json!({ "start_at": null }))
        .await;
    assert_eq!(answer.body["start_at"], Value::Null);
    assert_eq!(fixture.call("DELETE", &path, &json!({})).await.status, 204);
    assert_eq!(fixture.get(&path).await.error(), (404, "not_found", None));
}

/// Invalid fields, with the code and the field of their refusal.
fn bad_fields() -> Vec<(Value, &'static str, &'static str)> {
    let config = |config: Value| json!({ "type": "S3", "config": config });
    vec![
        (json!({ "name": null }), "null", "name"),
        (json!({ "name": " " }), "blank", "name"),
        (json!({ "name": "x".repeat(401) }), "max_length", "name"),
        (json!({ "model": "sessions" }), "invalid_choice", "model"),
        (json!({ "interval": "month" }), "invalid_choice", "interval"),
        (json!({ "interval": 5 }), "invalid_input", "interval"),
        (json!({ "paused": "no" }), "invalid_input", "paused"),
        (
            json!({ "start_at": "2026-01-01T00:00:00" }),
            "invalid_input",
            "start_at",
        ),
        (json!({ "end_at": "tomorrow" }), "invalid_input", "end_at"),
        (
            json!({ "last_paused_at": 5 }),
            "invalid_input",
            "last_paused_at",
        ),
        (
            json!({ "start_at": "2026-01-02T00:00:00Z", "end_at": "2026-01-01T00:00:00Z" }),
            "invalid_input",
            "end_at",
        ),
        (json!({ "destination": null }), "null", "destination"),
        (
            json!({ "destination": "S3" }),
            "invalid_input",
            "destination",
        ),
        (
            json!({ "destination": { "type": "FTP" } }),
            "invalid_choice",
            "destination__type",
        ),
        (
            json!({ "destination": { "type": "Postgres", "config": {} } }),
            "required",
            "destination__config__user",
        ),
        (
            json!({ "destination": config(json!({ "bucket_name": "bucket", "region": "r", "prefix": 5 })) }),
            "invalid_input",
            "destination__config__prefix",
        ),
        (
            json!({ "destination": config(json!({
                "bucket_name": "bucket", "region": "r", "prefix": "p", "compression": "zip" })) }),
            "invalid_input",
            "destination__config__compression",
        ),
        (
            json!({ "hogql_query": "DROP TABLE events" }),
            "invalid_input",
            "hogql_query",
        ),
    ]
}

async fn invalid_fields_are_named() {
    let fixture = Fixture::new().await;
    let (_, path) = export(&fixture, ORGANIZATION).await;
    for (bad, code, attr) in bad_fields() {
        let mut new = new_export();
        new.as_object_mut()
            .unwrap()
            .extend(bad.as_object().unwrap().clone());
        for (method, path, body) in [("POST", ORGANIZATION, &new), ("PATCH", &path, &bad)] {
            let answer = fixture.call(method, path, body).await;
            assert_eq!(answer.error(), (400, code, Some(attr)), "{method} {bad}");
        }
    }
}

async fn persons_cannot_be_exported_to_event_endpoints() {
    let fixture = Fixture::new().await;
    let http =
        json!({ "type": "HTTP", "config": { "url": "https://in.example.com/", "token": "t" } });
    let table = json!({ "type": "Postgres", "config": {
        "host": "db.example.com", "database": "d", "user": "u", "password": "p" } });
    let new = |destination: &Value| {
        let mut new = new_export();
        (new["destination"], new["model"]) = (destination.clone(), json!("persons"));
        new
    };
    let refused = (400, "invalid_input", Some("model"));
    let answer = fixture.call("POST", ORGANIZATION, &new(&http)).await;
    assert_eq!(answer.error(), refused);
    let made = fixture.call("POST", ORGANIZATION, &new(&table)).await;
    assert_eq!(made.status, 201, "{made:?}");
    // A change of the destination or of the model cannot lead there either.
    let path = format!("{ORGANIZATION}{}/", made.body["id"].as_str().unwrap());
    let change = json!({ "destination": http });
    assert_eq!(fixture.call("PATCH", &path, &change).await.error(), refused);
    let both = json!({ "destination": http, "model": "events" });
    assert_eq!(fixture.call("PATCH", &path, &both).await.status, 200);
    let change = json!({ "model": "persons" });
    assert_eq!(fixture.call("PATCH", &path, &change).await.error(), refused);
}

async fn missing_fields_and_foreign_projects_are_named() {
    let fixture = Fixture::new().await;
    for (field, attr) in [
        ("name", "name"),
        ("interval", "interval"),
        ("destination", "destination"),
    ] {
        let mut new = new_export();
        new.as_object_mut().unwrap().remove(field);
        let answer = fixture.call("POST", ORGANIZATION, &new).await;
        assert_eq!(answer.error(), (400, "required", Some(attr)));
    }
    let mut new = new_export();
    new["team_id"] = json!(999_999);
    let answer = fixture.call("POST", ORGANIZATION, &new).await;
    assert_eq!(answer.error(), (400, "invalid_input", Some("team_id")));
}

async fn secrets_are_never_returned() {
    let fixture = Fixture::new().await;
    let (_, path) = export(&fixture, ORGANIZATION).await;
    let secret = json!({ "destination": { "config": { "aws_secret_access_key": "s3cret-two" } } });
    fixture.call("PATCH", &path, &secret).await;
    fixture
        .call("PATCH", &path, &json!({ "name": "Other" }))
        .await;
    let paths = [
        path.clone(),
        ORGANIZATION.to_owned(),
        format!("{path}logs/"),
        "/api/organizations/@current/activity/".to_owned(),
    ];
    for path in paths {
        let answer = fixture.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        let text = answer.body.to_string();
        assert!(
            !text.contains("s3cret") && !text.contains("AKIA"),
            "{path}: {text}"
        );
    }
    let id = path.trim_start_matches(ORGANIZATION).trim_end_matches('/');
    let place = millrace_exports::ExportPlace {
        organization_id: fixture.made.organization_id,
        project_id: None,
    };
    let kept = BatchExports::new(&fixture.catalog)
        .get(place, id.parse().unwrap())
        .await;
    let export = kept.unwrap().unwrap().export;
    let names: Vec<_> = export
        .destination_secrets
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert_eq!(names, ["aws_access_key_id", "aws_secret_access_key"]);
}

async fn private_addresses_and_files_need_the_operators_setting() {
    let table = [
        json!({ "type": "HTTP", "config": { "url": "http://127.0.0.1/", "token": "t" } }),
        json!({ "type": "HTTP", "config": { "url": "http://[::ffff:10.0.0.1]/", "token": "t" } }),
        json!({ "type": "Postgres", "config": {
            "user": "u", "password": "p", "host": "192.168.1.1", "database": "d" } }),
        json!({ "type": "FileSystem", "config": { "path": "daily" } }),
    ];
    let strict = Fixture::new().await;
    let lenient = Fixture::with(ApiConfig {
        allow_private_destinations: true,
        export_root: Some("/exports".into()),
        ..ApiConfig::default()
    })
    .await;
    for destination in table {
        let mut new = new_export();
        new["destination"] = destination;
        let refused = strict.call("POST", ORGANIZATION, &new).await;
        let attr = refused.body["attr"].as_str().unwrap_or_default().to_owned();
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (400, &json!("invalid_input"))
        );
        assert!(attr.starts_with("destination__config__"), "{attr}");
        made(&lenient, ORGANIZATION, &new).await;
    }
    let mut outside = new_export();
    outside["destination"] = json!({ "type": "FileSystem", "config": { "path": "../etc" } });
    let refused = lenient.call("POST", ORGANIZATION, &outside).await;
    assert_eq!(
        refused.error(),
        (400, "invalid_input", Some("destination__config__path"))
    );
}

async fn pausing_returns_the_whole_export_and_changes_only_its_state() {
    let fixture = Fixture::new().await;
    let (export, path) = export(&fixture, ORGANIZATION).await;
    let body = json!({ "name": "Ignored", "interval": 5, "paused": "x" });
    for _ in 0..2 {
        let paused = fixture.call("POST", &format!("{path}pause/"), &body).await;
        assert_eq!((paused.status, &paused.body["paused"]), (200, &json!(true)));
        assert!(paused.body["last_paused_at"].is_string());
        assert_eq!(
            (&paused.body["name"], &paused.body["interval"]),
            (&export["name"], &export["interval"])
        );
    }
    let unpaused = fixture
        .call("POST", &format!("{path}unpause/"), &body)
        .await;
    assert_eq!(
        (unpaused.status, &unpaused.body["paused"]),
        (200, &json!(false))
    );
    assert!(unpaused.body["last_paused_at"].is_string());
    assert_eq!(unpaused.body["backfill_id"], Value::Null);
    fixture
        .call("POST", &format!("{path}pause/"), &json!({}))
        .await;
    let body = json!({ "backfill": true });
    let missed = fixture
        .call("POST", &format!("{path}unpause/"), &body)
        .await;
    assert!(missed.body["backfill_id"].is_string(), "{missed:?}");
    let refused = fixture
        .call(
            "POST",
            &format!("{path}unpause/"),
            &json!({ "backfill": 1 }),
        )
        .await;
    assert_eq!(refused.error(), (400, "invalid_input", Some("backfill")));
    let log = fixture
        .get("/api/organizations/@current/activity/?scopes=BatchExport")
        .await;
    assert!(log.body["results"].as_array().unwrap().iter().any(|entry| {
        entry["scope"] == "BatchExport" && entry["detail"]["changes"][0]["field"] == "paused"
    }));
}
