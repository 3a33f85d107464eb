//! Control characters: refused in every name and label, and harmless where they were stored before
//! the rule.

use crate::Fixture;
use crate::servers::smtp::SmtpServer;
use millrace_admin::mail::Outbox;
use millrace_catalog::text::{CONTROL_CLASS, is_control};
use serde_json::{Value, json};
use std::collections::BTreeSet;

on_both!(
    every_text_of_every_body_is_published_without_control_characters,
    names_and_labels_with_control_characters_are_refused,
    stored_names_with_control_characters_can_be_read_and_changed,
    stored_names_with_control_characters_are_escaped_in_mails,
);

const HOSTILE: [&str; 12] = [
    "a\nb",
    "a\r\nb",
    "a\u{1b}[2Jb",
    "a\u{7f}b",
    "a\u{9b}31mb",
    "a\u{202e}b",
    "a\u{2066}b",
    "a\u{2028}b",
    "a\u{200b}b",
    "a\u{ad}b",
    "a\u{feff}b",
    "a\u{e0062}b",
];
const ORGANIZATION: &str = "/api/organizations/@current/";
/// Fields whose texts may have all characters, as their consumers interpret them.
const FREE: [&str; 5] = [
    "hogql_query",
    "exclude_events",
    "include_events",
    "headers",
    "query",
];

/// Collects the names of a schema's texts that may have control characters.
fn open_texts(
    all: &Value,
    name: &str,
    schema: &Value,
    seen: &mut BTreeSet<String>,
    found: &mut BTreeSet<String>,
) {
    if let Some(reference) = schema["$ref"].as_str() {
        let reference = reference.rsplit('/').next().unwrap();
        if seen.insert(format!("{name} {reference}")) {
            open_texts(all, name, &all[reference], seen, found);
        }
        return;
    }
    let is = |kind: &str| match &schema["type"] {
        Value::String(one) => one == kind,
        Value::Array(several) => several.iter().any(|one| one == kind),
        _ => false,
    };
    let is_closed = ["enum", "const"]
        .iter()
        .any(|word| !schema[*word].is_null());
    let format = schema["format"].as_str().unwrap_or_default();
    let pattern = schema["pattern"].as_str().unwrap_or_default();
    let rest = CONTROL_CLASS.trim_start_matches(r"\u0000-\u001f");
    let is_plain = pattern.contains(rest);
    if is("string") && !is_closed && !is_plain && !["date-time", "uuid", "email"].contains(&format)
    {
        let is_secret = schema["writeOnly"] == true;
        if !is_secret {
            found.insert(name.to_owned());
        }
    }
    for word in ["anyOf", "oneOf", "allOf"] {
        for inner in schema[word].as_array().into_iter().flatten() {
            open_texts(all, name, inner, seen, found);
        }
    }
    if !schema["items"].is_null() {
        open_texts(all, name, &schema["items"], seen, found);
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        open_texts(all, name, inner, seen, found);
    }
}

async fn every_text_of_every_body_is_published_without_control_characters() {
    let fixture = Fixture::new().await;
    let document = fixture.get("/api/schema/").await.body;
    let all = &document["components"]["schemas"];
    let (mut seen, mut found, mut bodies) = (BTreeSet::new(), BTreeSet::new(), 0);
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let body = &operation["requestBody"]["content"]["application/json"]["schema"];
            if !body.is_null() {
                bodies += 1;
                open_texts(
                    all,
                    &format!("{method} {path}"),
                    body,
                    &mut seen,
                    &mut found,
                );
            }
        }
    }
    assert!(bodies > 50, "{bodies}");
    let free: BTreeSet<String> = FREE.iter().map(|name| (*name).to_owned()).collect();
    assert!(found.is_subset(&free), "{found:?}");
    assert!(found.contains("hogql_query"), "{found:?}");
    assert!(!document.to_string().contains("x-text"));
}

async fn names_and_labels_with_control_characters_are_refused() {
    let fixture = Fixture::new().await;
    let keys = "/api/personal_api_keys/";
    let of = |path: &str| format!("{ORGANIZATION}{path}");
    let destination = json!({ "type": "NoOp", "config": {} });
    let table = [
        ("POST", "/api/organizations/".to_owned(), json!({}), "name"),
        ("PATCH", ORGANIZATION.to_owned(), json!({}), "name"),
        ("POST", of("projects/"), json!({}), "name"),
        ("PATCH", of("projects/@current/"), json!({}), "name"),
        ("POST", keys.to_owned(), json!({ "scopes": ["*"] }), "label"),
        ("POST", of("invites/"), json!({}), "target_email"),
        (
            "POST",
            of("invites/"),
            json!({ "target_email": "a@example.org" }),
            "first_name",
        ),
        (
            "POST",
            of("invites/"),
            json!({ "target_email": "a@example.org" }),
            "message",
        ),
        ("POST", of("roles/"), json!({}), "name"),
        ("POST", of("domains/"), json!({}), "domain"),
        (
            "POST",
            of("domains/"),
            json!({ "domain": "example.org" }),
            "saml_entity_id",
        ),
        ("POST", of("proxy_records/"), json!({}), "domain"),
        (
            "POST",
            of("batch_exports/"),
            json!({ "interval": "hour", "destination": destination }),
            "name",
        ),
        (
            "POST",
            of("plugins/"),
            json!({ "plugin_type": "source" }),
            "name",
        ),
        (
            "POST",
            of("historical_migrations/"),
            json!({ "method": "m", "total_events": 1, "events_per_minute": 1 }),
            "source",
        ),
        (
            "POST",
            of("historical_migrations/"),
            json!({ "source": "s", "total_events": 1, "events_per_minute": 1 }),
            "method",
        ),
    ];
    for (method, path, more, field) in table {
        for hostile in HOSTILE {
            let mut body = more.clone();
            body[field] = json!(hostile);
            let answer = fixture.call(method, &path, &body).await;
            let refused = (400, "invalid_input", Some(field));
            assert_eq!(answer.error(), refused, "{method} {path} {body}");
            let detail = answer.body["detail"].as_str().unwrap();
            assert!(!detail.contains(is_control), "{detail:?}");
        }
    }
}

/// Stores names with control characters by SQL, as from before the rule.
async fn store_hostile_names(fixture: &Fixture, hostile: &str) {
    let text = hostile.replace('\'', "''");
    for sql in [
        format!("UPDATE organizations SET name = '{text}'"),
        format!("UPDATE projects SET name = '{text}'"),
        format!("UPDATE users SET first_name = '{text}', last_name = ''"),
    ] {
        fixture.execute(&sql).await;
    }
}

async fn stored_names_with_control_characters_can_be_read_and_changed() {
    let fixture = Fixture::new().await;
    for hostile in HOSTILE {
        store_hostile_names(&fixture, hostile).await;
        let changes = [
            (ORGANIZATION.to_owned(), json!({ "enforce_2fa": true })),
            (
                format!("{ORGANIZATION}projects/@current/"),
                json!({ "anonymize_ips": true }),
            ),
        ];
        for (path, other) in changes {
            let seen = fixture.get(&path).await;
            assert_eq!((seen.status, &seen.body["name"]), (200, &json!(hostile)));
            let changed = fixture.call("PATCH", &path, &other).await;
            assert_eq!(changed.status, 200, "{path}: {changed:?}");
            let renamed = fixture
                .call("PATCH", &path, &json!({ "name": "New" }))
                .await;
            assert_eq!(
                (renamed.status, &renamed.body["name"]),
                (200, &json!("New"))
            );
        }
    }
}

async fn stored_names_with_control_characters_are_escaped_in_mails() {
    let mut smtp = SmtpServer::plain().await;
    let outbox = Outbox::new(smtp.settings("", ""));
    let fixture = Fixture::with_services(|services| {
        services.outbox = Some(outbox);
        services.config.public_url = Some("https://millrace.example".to_owned());
    })
    .await;
    let hostile = "Acme\r\nBcc: eve@example.net\u{9b}2J\u{202e}";
    let escaped = r"Acme\u{d}\u{a}Bcc: eve@example.net\u{9b}2J\u{202e}";
    let invite = json!({ "target_email": "bob@example.org" });
    let path = format!("{ORGANIZATION}invites/");
    let made = fixture.call("POST", &path, &invite).await;
    assert_eq!(made.status, 201, "{made:?}");
    smtp.server.next().await;
    store_hostile_names(&fixture, hostile).await;
    let text = hostile.replace('\'', "''");
    let old = format!("UPDATE organization_invites SET first_name = '{text}', message = '{text}'");
    fixture.execute(&old).await;
    let resend = format!("{path}{}/resend/", made.body["id"].as_str().unwrap());
    let resent = fixture.call("POST", &resend, &json!({})).await;
    assert_eq!(resent.status, 200, "{resent:?}");
    let mail = smtp.server.next().await;
    assert_eq!(
        (&mail["to"], &mail["defects"]),
        (&json!(["bob@example.org"]), &json!([]))
    );
    assert_eq!(mail["headers"]["Bcc"], Value::Null, "{mail}");
    let subject = mail["headers"]["Subject"].as_str().unwrap();
    assert!(subject.contains(escaped), "{subject}");
    let plain = mail["text"].as_str().unwrap();
    // The organization, the inviter twice, the greeting and the message.
    assert!(plain.matches(escaped).count() >= 4, "{plain}");
    let is_other = |c| c != '\n' && c != '\r' && is_control(c);
    assert!(!plain.contains(is_other), "{plain:?}");
}
