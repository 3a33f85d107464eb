//! Secrets are neither in the activity log nor in log lines.

use crate::Fixture;
use crate::fixture::TestResponse;
use crate::logs::Logs;
use crate::servers::smtp::SmtpServer;
use millrace_admin::mail::Outbox;
use millrace_organizations::PluginFamily;
use serde_json::{Value, json};
use std::time::Duration;

on_both!(secrets_are_neither_in_the_activity_log_nor_in_the_log);

const BELOW: &str = "/api/organizations/@current/";
const KEYS: &str = "/api/personal_api_keys/";
/// Part of every secret that this test makes up.
const CANARY: &str = "c4n4ry";

async fn done(fixture: &Fixture, method: &str, path: &str, body: &Value) -> TestResponse {
    let answer = fixture.call(method, path, body).await;
    let is_done = (200..300).contains(&answer.status);
    assert!(is_done, "{method} {path} {body}: {answer:?}");
    answer
}

/// Creates, rolls, changes and deletes keys; returns their values.
async fn keys(fixture: &Fixture) -> Vec<String> {
    let new = json!({ "label": "Key", "scopes": ["organization:read"] });
    let made = done(fixture, "POST", KEYS, &new).await.body;
    let one = format!("{KEYS}{}/", made["id"].as_str().unwrap());
    let rolled = done(fixture, "POST", &format!("{one}roll/"), &json!({})).await;
    done(fixture, "PATCH", &one, &json!({ "label": "Other" })).await;
    done(fixture, "DELETE", &one, &json!({})).await;
    for wrong in [format!("phx_{CANARY}"), CANARY.to_owned()] {
        assert_eq!(fixture.send("GET", BELOW, Some(&wrong)).await.status, 401);
    }
    let project = format!("{BELOW}projects/@current/");
    let before = fixture.get(&project).await.body;
    let after = done(
        fixture,
        "PATCH",
        &format!("{project}reset_token/"),
        &json!({}),
    )
    .await;
    let values = [
        &made["value"],
        &rolled.body["value"],
        &before["api_token"],
        &after.body["api_token"],
    ];
    let values = values.map(|value| value.as_str().unwrap().to_owned());
    [fixture.owner_key().to_owned()]
        .into_iter()
        .chain(values)
        .collect()
}

/// Invites somebody twice and accepts; returns the links' tokens and the first key.
async fn invites(fixture: &Fixture, smtp: &mut SmtpServer) -> Vec<String> {
    let all = format!("{BELOW}invites/");
    let new = json!({ "target_email": "bob@example.org" });
    let made = done(fixture, "POST", &all, &new).await.body;
    let mut secrets = vec![token(&smtp.server.next().await)];
    let resend = format!("{all}{}/resend/", made["id"].as_str().unwrap());
    done(fixture, "POST", &resend, &json!({})).await;
    secrets.push(token(&smtp.server.next().await));
    let once = [
        ("idempotency-key", "once"),
        ("content-type", "application/json"),
    ];
    let mut keys = Vec::new();
    for (secret, looked, joined) in [(&secrets[0], 404, 404), (&secrets[1], 200, 201)] {
        let path = format!("/api/signup/{secret}/");
        fixture.page(&format!("/signup/{secret}")).await;
        assert_eq!(fixture.send("GET", &path, None).await.status, looked);
        let answer = fixture.request("POST", &path, &once, b"{}").await;
        assert_eq!(answer.status, joined, "{answer:?}");
        let key = answer.body["personal_api_key"].as_str();
        keys.extend(key.map(str::to_owned));
    }
    assert_eq!(keys.len(), 1);
    secrets.extend(keys);
    secrets
}

/// Token of the link in a mail.
fn token(mail: &Value) -> String {
    let text = mail["text"].as_str().unwrap();
    let (_, rest) = text.split_once("/signup/").unwrap();
    rest.split_whitespace().next().unwrap().to_owned()
}

/// Lists destinations of every type that has secrets.
fn destinations() -> Vec<Value> {
    let secret = |name: &str| format!("{CANARY}-{name}");
    let account = format!(
        r#"{{"client_email":"{CANARY}-e","private_key_id":"{CANARY}-i","private_key":"{CANARY}"}}"#
    );
    let database = json!({
        "user": secret("user"), "password": secret("password"), "host": "db.example",
        "database": "events",
    });
    let table = [
        (
            "S3",
            json!({
                "bucket_name": "bucket", "region": "r", "prefix": "p",
                "aws_access_key_id": secret("id"), "aws_secret_access_key": secret("key"),
            }),
        ),
        (
            "AzureBlob",
            json!({
                "container_name": "container",
                "connection_string": format!("AccountName=a;AccountKey={CANARY}"),
            }),
        ),
        (
            "GCS",
            json!({ "bucket_name": "bucket", "service_account_key": account }),
        ),
        ("Postgres", database.clone()),
        ("Redshift", database),
        (
            "Snowflake",
            json!({
                "account": "acme", "user": secret("user"), "database": "d", "warehouse": "w",
                "schema": "s", "password": secret("password"),
            }),
        ),
        (
            "BigQuery",
            json!({
                "project_id": "p", "dataset_id": "d", "private_key": secret("key"),
                "private_key_id": secret("id"), "token_uri": format!("https://a.example/{CANARY}"),
                "client_email": secret("email"),
            }),
        ),
        (
            "Databricks",
            json!({
                "http_path": "/p", "catalog": "c", "schema": "s", "table_name": "t",
                "server_hostname": "a.example", "client_id": secret("id"),
                "client_secret": secret("secret"),
            }),
        ),
        (
            "ClickHouse",
            json!({
                "url": "https://a.example/", "database": "d", "user": secret("user"),
                "password": secret("password"),
            }),
        ),
        (
            "HTTP",
            json!({ "url": "https://a.example/", "token": secret("token") }),
        ),
    ];
    let destinations = table.into_iter();
    destinations
        .map(|(kind, config)| json!({ "type": kind, "config": config }))
        .collect()
}

async fn exports(fixture: &Fixture) {
    let all = format!("{BELOW}batch_exports/");
    for destination in destinations() {
        let new = json!({ "name": "New", "interval": "hour", "destination": destination });
        let made = done(fixture, "POST", &all, &new).await.body;
        let one = format!("{all}{}/", made["id"].as_str().unwrap());
        let nothing = json!({ "type": "NoOp", "config": {} });
        for destination in [destination.clone(), nothing, destination] {
            let change = json!({ "name": "Other", "destination": destination });
            done(fixture, "PATCH", &one, &change).await;
        }
        done(fixture, "POST", &format!("{one}backfill/"), &json!({})).await;
        done(fixture, "DELETE", &one, &json!({})).await;
    }
}

/// Creates plugins with secrets in their addresses and settings.
async fn plugins(fixture: &Fixture) {
    let all = format!("{BELOW}plugins/");
    for url in [
        format!("https://a.example/p?private_token={CANARY}"),
        format!("https://user:{CANARY}@b.example/p"),
    ] {
        done(fixture, "POST", &all, &json!({ "url": url })).await;
    }
    let schema = json!([{ "key": "token", "secret": true }]);
    let new = json!({ "plugin_type": "source", "config_schema": schema });
    let made = done(fixture, "POST", &all, &new).await.body;
    let (id, project_id) = (made["id"].as_i64().unwrap(), fixture.made.project_id);
    let values = json!({ "token": format!("{CANARY}-token") });
    let added = fixture
        .catalog
        .configure_plugin(id, project_id, true, values, None);
    added.await.unwrap();
    let one = format!("{all}{id}/");
    done(fixture, "PATCH", &one, &json!({ "name": "Other" })).await;
    done(fixture, "DELETE", &one, &json!({})).await;
}

async fn secrets_are_neither_in_the_activity_log_nor_in_the_log() {
    let logs = Logs::catch();
    let mut smtp = SmtpServer::starttls(&["--user", "ann", CANARY]).await;
    let outbox = Outbox::new(smtp.settings(&format!("ann:{CANARY}@"), "?tls=required"));
    let fixture = Fixture::with_services(|services| {
        services.outbox = Some(outbox.clone());
        services.config.public_url = Some("https://millrace.example".to_owned());
    })
    .await;
    let mut secrets = vec![CANARY.to_owned()];
    secrets.extend(keys(&fixture).await);
    secrets.extend(invites(&fixture, &mut smtp).await);
    exports(&fixture).await;
    plugins(&fixture).await;
    outbox.drain(Duration::from_secs(60)).await;
    let families = PluginFamily::ALL.map(|family| format!("{}/", family.segment()));
    let places = ["".to_owned(), "projects/@current/".to_owned()];
    let mut outputs = vec![logs.text()];
    for place in places.into_iter().chain(families) {
        let path = format!("{BELOW}{place}activity/?limit=1000");
        let log = done(&fixture, "GET", &path, &json!({})).await.body;
        assert!(log["count"].as_i64() > Some(0), "{path}");
        assert_eq!(log["next"], Value::Null, "{path}");
        outputs.push(log.to_string());
    }
    assert!(outputs[0].contains("answered") && outputs[0].contains("sent a mail"));
    for secret in &secrets {
        for text in &outputs {
            let at = text.find(secret.as_str());
            let around = at.map(|at| text[..at].chars().rev().take(200).collect::<String>());
            let around = around.map(|text| text.chars().rev().collect::<String>());
            assert_eq!(around, None, "a secret follows this");
        }
    }
}
