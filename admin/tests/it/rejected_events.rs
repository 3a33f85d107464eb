//! Rejected events through the API, over events that are made up. Those of a real server are tested
//! with the program.

use crate::Fixture;
use crate::fake_rejected_events::{
    AWAY, DOUBTFUL, FakeRejectedEvents, REFUSED, SLOW, rejected_event,
};
use millrace_catalog::UtcTime;
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;

on_both!(
    a_selection_is_read_from_the_query,
    an_event_is_read_by_its_id_in_its_own_project,
    a_resend_is_a_dry_run_unless_it_is_told_otherwise,
    a_selection_or_a_change_that_means_nothing_is_refused,
    failures_are_answered_by_their_kind,
    a_key_that_only_reads_sends_nothing,
);

const ALL: &str = "/api/projects/@current/rejected_events/";
const RESEND: &str = "/api/projects/@current/rejected_events/resend/";

/// Fixture whose rejected events can be looked at.
async fn watched() -> (Fixture, Arc<FakeRejectedEvents>) {
    let fake = Arc::new(FakeRejectedEvents::default());
    let events = Arc::clone(&fake);
    let fixture =
        Fixture::with_services(move |services| services.rejected_events = Some(events)).await;
    (fixture, fake)
}

async fn a_selection_is_read_from_the_query() {
    let (fixture, fake) = watched().await;
    let request = Uuid::from_u128(5);
    let query = format!(
        "code=missing_event&after=2026-01-01T00:00:00Z&before=2026-01-02T00:00:00%2B01:00\
         &request_id={request}&unsent=true&limit=2&offset=1"
    );
    let page = fixture.get(&format!("{ALL}?{query}")).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert_eq!(page.body["count"], 33, "the last was sent again");
    assert_eq!(page.body["results"][0]["index"], 3);
    let next = page.body["next"].as_str().unwrap();
    assert!(
        next.contains("unsent=true") && next.contains("offset=3"),
        "{next}"
    );
    let asked = fake.selections.lock().unwrap().pop().unwrap();
    assert_eq!(asked.project_id, fixture.made.project_id.0);
    assert_eq!(asked.code.as_deref(), Some("missing_event"));
    assert_eq!(asked.after, UtcTime::parse("2026-01-01T00:00:00Z"));
    assert_eq!(asked.before, UtcTime::parse("2026-01-01T23:00:00Z"));
    assert_eq!((asked.request_id, asked.unsent), (Some(request), true));
    let groups = fixture
        .get(&format!("{ALL}groups/?code=missing_event"))
        .await;
    assert_eq!(groups.body["results"][0]["events"], 34, "{groups:?}");
    for (query, attr) in [
        ("code=Missing", "code"),
        ("code=a%27b", "code"),
        ("after=yesterday", "after"),
        ("before=2026-01-01T00:00:00", "before"),
        ("request_id=5", "request_id"),
        ("unsent=maybe", "unsent"),
    ] {
        for path in [ALL.to_owned(), format!("{ALL}groups/")] {
            let refused = fixture.get(&format!("{path}?{query}")).await;
            let expected = (400, "invalid_input", Some(attr));
            assert_eq!(refused.error(), expected, "{path} {query}");
        }
    }
}

async fn an_event_is_read_by_its_id_in_its_own_project() {
    let fixture = Fixture::new().await;
    let project_id = fixture.made.project_id.0;
    let own = rejected_event(project_id).to_string();
    let read = fixture.get(&format!("{ALL}{own}/")).await;
    assert_eq!((read.status, &read.body["id"]), (200, &json!(own)));
    assert_eq!(
        (&read.body["raw"], &read.body["raw_bytes"]),
        (&json!("{}"), &json!(2))
    );
    for other in [
        rejected_event(project_id + 1).to_string(),
        own.replace("_0", "_100"),
        own.replace("_0", "_00"),
        own.replace("_0", ""),
    ] {
        let answer = fixture.get(&format!("{ALL}{other}/")).await;
        assert_eq!(answer.error(), (404, "not_found", None), "{other}");
    }
}

async fn a_resend_is_a_dry_run_unless_it_is_told_otherwise() {
    let (fixture, fake) = watched().await;
    let chosen = rejected_event(fixture.made.project_id.0);
    let body = json!({
        "events": [chosen.to_string()], "code": "missing_event", "limit": 2,
        "rename": { "user_id": "distinct_id" }, "drop": ["properties.secret"],
        "set": { "properties.plan": { "name": "team" } },
    });
    for dry_run in [None, Some(true), Some(false)] {
        let mut body = body.clone();
        if let Some(dry_run) = dry_run {
            body["dry_run"] = json!(dry_run);
        }
        let answer = fixture.call("POST", RESEND, &body).await;
        let is_dry_run = dry_run.unwrap_or(true);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.body["dry_run"], is_dry_run);
        assert_eq!(answer.body["results"].as_array().unwrap().len(), 2);
        let (actor, resend) = fake.resends.lock().unwrap().pop().unwrap();
        assert!(actor.user_id().is_some(), "{actor:?}");
        assert_eq!((resend.is_dry_run, resend.limit), (is_dry_run, 2));
        assert_eq!(resend.selection.chosen, [chosen]);
        assert!(resend.selection.unsent, "{resend:?}");
        let text = |text: &str| text.to_owned();
        assert_eq!(resend.rename, [(text("user_id"), text("distinct_id"))]);
        assert_eq!(resend.drop, ["properties.secret"]);
        assert_eq!(
            resend.set,
            [(text("properties.plan"), json!({ "name": "team" }))]
        );
    }
    let all = json!({ "resent": true });
    let answer = fixture.call("POST", RESEND, &all).await;
    assert_eq!(answer.body["selected"], 100, "{answer:?}");
    let (_, resend) = fake.resends.lock().unwrap().pop().unwrap();
    assert_eq!((resend.selection.unsent, resend.limit), (false, 100));
    assert!(resend.selection.chosen.is_empty(), "{resend:?}");
}

async fn a_selection_or_a_change_that_means_nothing_is_refused() {
    let (fixture, fake) = watched().await;
    let table = [
        (json!({ "events": ["x"] }), "events__0"),
        (json!({ "code": "A" }), "code"),
        (json!({ "limit": 0 }), "limit"),
        (json!({ "limit": 1_001 }), "limit"),
        (json!({ "after": "yesterday" }), "after"),
        (json!({ "request_id": "5" }), "request_id"),
        (json!({ "rename": { "": "a" } }), "rename"),
        (json!({ "rename": { "a": "" } }), "rename"),
        (json!({ "drop": [""] }), "drop"),
        (json!({ "set": { "": 1 } }), "set"),
        (json!({ "dry_run": "no" }), "dry_run"),
    ];
    for (body, attr) in table {
        let refused = fixture.call("POST", RESEND, &body).await;
        let (status, _, found) = refused.error();
        assert_eq!((status, found), (400, Some(attr)), "{body}: {refused:?}");
    }
    assert!(fake.resends.lock().unwrap().is_empty());
}

async fn failures_are_answered_by_their_kind() {
    let fixture = Fixture::new().await;
    let table = [
        (SLOW, (400, "query_limit_exceeded")),
        (AWAY, (503, "unavailable")),
        (REFUSED, (403, "permission_denied")),
        (DOUBTFUL, (409, "resend_in_doubt")),
    ];
    for (code, expected) in table {
        let listed = fixture.get(&format!("{ALL}?code={code}")).await;
        let resent = fixture.call("POST", RESEND, &json!({ "code": code })).await;
        for answer in [listed, resent] {
            let (status, found, attr) = answer.error();
            assert_eq!(((status, found), attr), (expected, None), "{code}");
        }
    }
}

async fn a_key_that_only_reads_sends_nothing() {
    let fixture = Fixture::new().await;
    let nothing = json!({});
    for (scopes, read, sent) in [
        (["event:read"], 200, 403),
        (["event:write"], 200, 200),
        (["query:read"], 403, 403),
    ] {
        let key = fixture.key(&scopes).await;
        let listed = fixture.send("GET", ALL, Some(&key)).await;
        assert_eq!(listed.status, read, "{scopes:?}");
        let resent = fixture.call_with(&key, "POST", RESEND, &nothing).await;
        assert_eq!(resent.status, sent, "{scopes:?}: {resent:?}");
        let is_page = listed.body.get("results").is_some_and(Value::is_array);
        assert_eq!(is_page, read == 200);
    }
}
