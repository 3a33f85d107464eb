//! Historical migrations: requested, decided, finished.

use crate::Fixture;
use crate::access;
use millrace_catalog::{Actor, Level, Scopes};
use millrace_organizations::{NewPersonalKey, PersonalKeys};
use serde_json::{Value, json};
use uuid::Uuid;

on_both!(
    every_operation_requires_its_scope_level_and_organization,
    a_migration_is_requested_decided_and_finished,
    imported_events_do_not_change_the_version_and_the_end_does,
    a_rejected_migration_can_be_approved_but_not_finished,
    invalid_fields_of_a_request_are_named,
    the_operator_decides_for_organizations_that_its_key_allows,
);

const ALL: &str = "/api/organizations/@current/historical_migrations/";

async fn operator(fixture: &Fixture) -> String {
    operator_key(fixture, &fixture.made.owner_email, None).await
}

async fn operator_key(fixture: &Fixture, email: &str, only: Option<Uuid>) -> String {
    let new = NewPersonalKey {
        email: email.to_owned(),
        label: "Operator".to_owned(),
        scopes: Scopes::parse(["operator"]).unwrap(),
        expires_at: None,
        scoped_organizations: only.map(|id| vec![id]),
    };
    let key = PersonalKeys::new(&fixture.catalog)
        .create(&Actor::command_line(), new)
        .await;
    key.unwrap().value.expose().to_owned()
}

fn request() -> Value {
    json!({
        "source": "Amplitude", "method": "export", "total_events": 30_000_000,
        "events_per_minute": 20_000,
    })
}

/// Requests a migration; returns it and its path.
async fn asked(fixture: &Fixture) -> (Value, String) {
    let made = fixture.call("POST", ALL, &request()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let path = format!("{ALL}{}/", made.body["id"].as_str().unwrap());
    (made.body, path)
}

/// Activities of migrations in the log, newest first.
async fn activities(fixture: &Fixture) -> Vec<String> {
    let log = fixture.get("/api/organizations/@current/activity/").await;
    let entries = log.body["results"].as_array().unwrap().iter();
    entries
        .filter(|entry| entry["scope"] == "HistoricalMigration")
        .map(|entry| entry["activity"].as_str().unwrap().to_owned())
        .collect()
}

async fn every_operation_requires_its_scope_level_and_organization() {
    const READ: &[&str] = &["historical_migration:read", "historical_migration:write"];
    const WRITE: &[&str] = &["historical_migration:write", "*"];
    const ONE: &str = "historical_migrations/01890f00-0000-7000-8000-000000000000/";
    let fixture = Fixture::new().await;
    let rules = [
        ("GET", "historical_migrations/", READ, Level::Member),
        (
            "POST",
            "historical_migrations/",
            WRITE,
            Level::Administrator,
        ),
        ("GET", ONE, READ, Level::Member),
        ("PATCH", ONE, WRITE, Level::Administrator),
        ("PUT", ONE, WRITE, Level::Administrator),
    ];
    access::check(&fixture, &rules).await;
    let answer = fixture
        .call("DELETE", &format!("{ALL}x/"), &json!({}))
        .await;
    assert_eq!(answer.status, 405);
}

async fn a_migration_is_requested_decided_and_finished() {
    let fixture = Fixture::new().await;
    let operator = operator(&fixture).await;
    let (asked, path) = asked(&fixture).await;
    let mut expected = request();
    for (field, value) in [
        ("id", asked["id"].clone()),
        ("team_id", json!(fixture.made.project_id.0)),
        ("state", json!("requested")),
        ("events_imported", json!(0)),
        ("created_at", asked["created_at"].clone()),
        ("decided_at", Value::Null),
        ("note", Value::Null),
    ] {
        expected[field] = value;
    }
    assert_eq!(asked, expected);
    assert_eq!(fixture.get(&path).await.body, asked);
    assert_eq!(fixture.get(ALL).await.body["results"], json!([asked]));

    for action in ["approve/", "reject/"] {
        let refused = fixture
            .call("POST", &format!("{path}{action}"), &json!({}))
            .await;
        assert_eq!(
            refused.error(),
            (403, "permission_denied", None),
            "{action}"
        );
    }
    let body = json!({ "note": "Welcome" });
    let approved = fixture
        .call_with(&operator, "POST", &format!("{path}approve/"), &body)
        .await;
    assert_eq!(
        (approved.status, &approved.body["state"]),
        (200, &json!("approved"))
    );
    assert_eq!(approved.body["note"], "Welcome");
    assert!(approved.body["decided_at"].is_string());
    let unchanged = fixture
        .call(
            "PATCH",
            &path,
            &json!({ "note": "mine", "total_events": 1 }),
        )
        .await;
    assert_eq!((unchanged.status, &unchanged.body), (200, &approved.body));
    let finished = fixture
        .call("PATCH", &path, &json!({ "state": "finished" }))
        .await;
    assert_eq!(
        (finished.status, &finished.body["state"]),
        (200, &json!("finished"))
    );
    for action in ["approve/", "reject/"] {
        let late = fixture
            .call_with(&operator, "POST", &format!("{path}{action}"), &json!({}))
            .await;
        assert_eq!(
            late.error(),
            (400, "invalid_input", Some("state")),
            "{action}"
        );
    }
    assert_eq!(
        activities(&fixture).await,
        ["updated", "updated", "created"]
    );
}

/// A client that polls with `If-None-Match` must see the end of the import.
async fn imported_events_do_not_change_the_version_and_the_end_does() {
    let fixture = Fixture::new().await;
    let operator = operator(&fixture).await;
    let (_, path) = asked(&fixture).await;
    let approve = format!("{path}approve/");
    let approved = fixture
        .call_with(&operator, "POST", &approve, &json!({}))
        .await;
    assert_eq!(approved.status, 200);
    let tag = fixture.get(&path).await.header("etag").to_owned();
    let came = "UPDATE historical_migrations SET events_imported = 5";
    fixture.execute(came).await;
    let now = fixture.get(&path).await;
    assert_eq!(
        (now.header("etag"), &now.body["events_imported"]),
        (&*tag, &json!(5))
    );
    // As after the last event of the import.
    let ended = "UPDATE historical_migrations SET state = 'finished'";
    fixture.execute(ended).await;
    let bearer = format!("Bearer {}", fixture.owner_key());
    let with = |condition: &'static str| [("authorization", &*bearer), (condition, &*tag)];
    let known = fixture
        .request("GET", &path, &with("if-none-match"), b"")
        .await;
    assert_eq!(
        (known.status, &known.body["state"]),
        (200, &json!("finished"))
    );
    let end = json!({ "state": "finished" }).to_string();
    let late = fixture
        .request("PATCH", &path, &with("if-match"), end.as_bytes())
        .await;
    assert_eq!(late.status, 412);
}

async fn a_rejected_migration_can_be_approved_but_not_finished() {
    let fixture = Fixture::new().await;
    let operator = operator(&fixture).await;
    let (_, path) = asked(&fixture).await;
    let rejected = fixture
        .call_with(&operator, "POST", &format!("{path}reject/"), &json!({}))
        .await;
    assert_eq!(
        (rejected.status, &rejected.body["state"]),
        (200, &json!("rejected"))
    );
    let finished = fixture
        .call("PATCH", &path, &json!({ "state": "finished" }))
        .await;
    assert_eq!(finished.error(), (400, "invalid_input", Some("state")));
    let approved = fixture
        .call_with(&operator, "POST", &format!("{path}approve/"), &json!({}))
        .await;
    assert_eq!(approved.body["state"], "approved");
}

async fn invalid_fields_of_a_request_are_named() {
    let fixture = Fixture::new().await;
    let (_, path) = asked(&fixture).await;
    let other = fixture
        .call("POST", "/api/organizations/", &json!({ "name": "Other" }))
        .await;
    let theirs = format!(
        "/api/organizations/{}/projects/",
        other.body["id"].as_str().unwrap()
    );
    let foreign = fixture.get(&theirs).await.body["results"][0]["id"].clone();
    let table = [
        ("source", Value::Null, "null"),
        ("source", json!(" "), "blank"),
        ("method", json!("x".repeat(201)), "max_length"),
        ("total_events", json!(0), "min_value"),
        ("total_events", json!("5"), "invalid_input"),
        ("events_per_minute", json!(-1), "min_value"),
        ("events_per_minute", json!(1.5), "invalid_input"),
        ("team_id", foreign, "invalid_input"),
        ("team_id", json!(999_999), "invalid_input"),
        ("team_id", Value::Null, "null"),
    ];
    for (field, value, code) in table {
        let mut body = request();
        body[field] = value;
        let answer = fixture.call("POST", ALL, &body).await;
        assert_eq!(answer.error(), (400, code, Some(field)), "{body}");
    }
    for field in ["source", "method", "total_events", "events_per_minute"] {
        let mut body = request();
        body.as_object_mut().unwrap().remove(field);
        let answer = fixture.call("POST", ALL, &body).await;
        assert_eq!(answer.error(), (400, "required", Some(field)));
    }
    for (method, body, code) in [
        ("PATCH", json!({ "state": "approved" }), "invalid_choice"),
        ("PUT", json!({}), "required"),
    ] {
        let answer = fixture.call(method, &path, &body).await;
        assert_eq!(answer.error(), (400, code, Some("state")), "{body}");
    }
}

async fn the_operator_decides_for_organizations_that_its_key_allows() {
    let fixture = Fixture::new().await;
    let own = fixture.made.organization_id;
    fixture.user("op@millrace.example").await;
    let anywhere = operator_key(&fixture, "op@millrace.example", None).await;
    let elsewhere = fixture.foreign_organization().await;
    let there = operator_key(&fixture, "op@millrace.example", Some(elsewhere)).await;
    let here = operator_key(&fixture, "op@millrace.example", Some(own)).await;
    let all = ALL.replace("@current", &own.to_string());
    let (asked, _) = asked(&fixture).await;
    let path = format!("{all}{}/", asked["id"].as_str().unwrap());
    let at_theirs = path.replace(&own.to_string(), &elsewhere.to_string());
    let nobodys = path.replace(&own.to_string(), &Uuid::nil().to_string());
    let hidden = (404, "not_found", None);
    let table = [
        (&anywhere, &at_theirs, hidden),
        (&anywhere, &nobodys, hidden),
        (&there, &path, hidden),
        (&anywhere, &path, (200, "", None)),
        (&here, &path, (200, "", None)),
    ];
    for (key, path, expected) in table {
        for action in ["reject/", "approve/"] {
            let path = format!("{path}{action}");
            let answer = fixture.call_with(key, "POST", &path, &json!({})).await;
            assert_eq!(answer.error(), expected, "{path}: {answer:?}");
        }
    }
    for (method, path) in [("GET", &path), ("PATCH", &path), ("GET", &all)] {
        let body = json!({ "state": "finished" });
        let answer = fixture.call_with(&anywhere, method, path, &body).await;
        assert_eq!(answer.status, 403, "{method}: {answer:?}");
    }
    let log = fixture
        .get("/api/organizations/@current/activity/?scopes=HistoricalMigration")
        .await;
    assert_eq!(
        log.body["results"][0]["user"]["email"],
        "op@millrace.example"
    );
}
