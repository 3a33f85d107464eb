//! Personal keys, managed by their owner through another key.

use crate::Fixture;
use serde_json::{Value, json};

on_both!(
    a_key_is_made_read_changed_rolled_and_revoked,
    a_key_creates_and_changes_only_keys_within_its_own_scopes,
    keys_of_other_users_are_not_found,
);

const ALL: &str = "/api/personal_api_keys/";

async fn a_key_is_made_read_changed_rolled_and_revoked() {
    let fixture = Fixture::new().await;
    let new = json!({
        "label": " Deploy ", "scopes": ["role:read"], "expires_at": "2099-01-01T02:00:00+02:00",
    });
    let made = fixture.call("POST", ALL, &new).await;
    assert_eq!(
        (made.status, made.header("cache-control")),
        (201, "no-store")
    );
    assert_eq!(made.body["label"], "Deploy");
    assert_eq!(made.body["expires_at"], "2099-01-01T00:00:00Z");
    let value = made.body["value"].as_str().unwrap().to_owned();
    let path = format!("{ALL}{}/", made.body["id"].as_str().unwrap());

    let shown = fixture.get(&path).await;
    let mask = format!("{}...{}", &value[..4], &value[value.len() - 4..]);
    assert_eq!(
        (shown.status, &shown.body["mask_value"]),
        (200, &json!(mask))
    );
    assert_eq!(shown.body.get("value"), None);
    let own = fixture
        .send("GET", &format!("{ALL}@current/"), Some(&value))
        .await;
    assert_eq!(own.body["id"], made.body["id"]);
    assert_eq!(fixture.get(ALL).await.body["count"], 2);

    let change = json!({ "label": "Other", "expires_at": null, "scopes": ["role:write"] });
    let changed = fixture.call("PATCH", &path, &change).await;
    assert_eq!(changed.status, 200);
    let (label, expires_at) = (&changed.body["label"], &changed.body["expires_at"]);
    assert_eq!((label, expires_at), (&json!("Other"), &Value::Null));

    let rolled = fixture
        .call("POST", &format!("{path}roll/"), &json!({}))
        .await;
    assert_eq!(rolled.status, 200);
    let renewed = rolled.body["value"].as_str().unwrap();
    assert_eq!(fixture.send("GET", ALL, Some(&value)).await.status, 401);
    assert_eq!(fixture.send("GET", ALL, Some(renewed)).await.status, 200);
    assert_eq!(fixture.call("DELETE", &path, &json!({})).await.status, 204);
    assert_eq!(fixture.send("GET", ALL, Some(renewed)).await.status, 401);
    assert_eq!(fixture.get(&path).await.status, 404);
}

async fn a_key_creates_and_changes_only_keys_within_its_own_scopes() {
    let fixture = Fixture::new().await;
    let weak = fixture.key(&["organization:write"]).await;
    let strong = fixture.get(&format!("{ALL}@current/")).await.body["id"].clone();
    let strong = format!("{ALL}{}/", strong.as_str().unwrap());
    let key = |scopes: Value| json!({ "label": "A", "scopes": scopes });
    let table = [
        (
            "POST",
            ALL.to_owned(),
            key(json!(["organization:read"])),
            201,
        ),
        ("POST", ALL.to_owned(), key(json!(["role:read"])), 403),
        ("POST", ALL.to_owned(), key(json!(["*"])), 403),
        ("POST", ALL.to_owned(), key(json!(["operator"])), 403),
        ("PATCH", format!("{ALL}@current/"), key(json!(["*"])), 403),
        ("PATCH", strong.clone(), json!({ "label": "B" }), 403),
        ("POST", format!("{strong}roll/"), json!({}), 403),
        ("DELETE", strong.clone(), json!({}), 403),
        ("GET", strong, json!({}), 200),
    ];
    for (method, path, body, status) in table {
        let answer = fixture.call_with(&weak, method, &path, &body).await;
        assert_eq!(answer.status, status, "{method} {path} {body}");
    }
}

async fn keys_of_other_users_are_not_found() {
    let fixture = Fixture::new().await;
    fixture.user("other@example.com").await;
    let other = fixture.key_of("other@example.com", &["*"]).await;
    let own = fixture.get(&format!("{ALL}@current/")).await.body["id"].clone();
    let path = format!("{ALL}{}/", own.as_str().unwrap());
    for (method, path) in [
        ("GET", path.clone()),
        ("PATCH", path.clone()),
        ("DELETE", path.clone()),
        ("POST", format!("{path}roll/")),
    ] {
        let answer = fixture.call_with(&other, method, &path, &json!({})).await;
        assert_eq!(answer.error(), (404, "not_found", None), "{method} {path}");
    }
    let list = fixture.send("GET", ALL, Some(&other)).await;
    assert_eq!(list.body["count"], 1);
}
