//! Every log line of a request has its id.

use crate::Fixture;
use crate::fixture::TestResponse;
use crate::logs::Logs;
use crate::servers::smtp::SmtpServer;
use millrace_admin::Services;
use millrace_admin::dns::Dns;
use millrace_admin::mail::Outbox;
use serde_json::{Value, json};
use std::time::Duration;

on_both!(
    each_line_of_a_request_has_its_id,
    lines_about_mails_have_the_id_of_the_request_that_sent_them,
);

/// Sets a nameserver where nobody listens.
fn without_nameserver(services: &mut Services) {
    let nobody = ([127, 0, 0, 1], 9).into();
    services.dns = Dns::with_timeout(Some(nobody), Duration::from_millis(10));
}

async fn ask(fixture: &Fixture, id: &str, method: &str, path: &str, body: &Value) -> TestResponse {
    let bearer = format!("Bearer {}", fixture.owner_key());
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("x-request-id", id),
    ];
    let answer = fixture
        .request(method, path, &headers, body.to_string().as_bytes())
        .await;
    assert_eq!(answer.header("x-request-id"), id, "{method} {path}");
    answer
}

async fn each_line_of_a_request_has_its_id() {
    let fixture = Fixture::with_services(without_nameserver).await;
    let below = "/api/organizations/@current/";
    let claim = json!({ "domain": "acme.example" });
    let domain = fixture
        .call("POST", &format!("{below}domains/"), &claim)
        .await;
    let verify = format!(
        "{below}domains/{}/verify/",
        domain.body["id"].as_str().unwrap()
    );
    let logs = Logs::catch();
    let table = [
        ("GET", below, json!({}), 200, &["answered"][..]),
        ("GET", "/api/nothing/", json!({}), 404, &["answered"]),
        (
            "DELETE",
            "/api/organizations/",
            json!({}),
            405,
            &["answered"],
        ),
        ("PATCH", below, json!({ "name": 1 }), 400, &["answered"]),
        (
            "PATCH",
            below,
            json!({ "name": "Acme" }),
            200,
            &["answered"],
        ),
        ("GET", "/signup/a-token", json!({}), 200, &["answered"]),
        (
            "POST",
            &verify,
            json!({}),
            200,
            &["a domain's proof was not found", "answered"],
        ),
    ];
    for (number, (method, path, body, status, messages)) in table.into_iter().enumerate() {
        let id = format!("request-{number}");
        let answer = ask(&fixture, &id, method, path, &body).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        let lines = logs.take();
        let said: Vec<_> = lines.iter().map(|(message, _)| message.as_str()).collect();
        assert_eq!(said, messages, "{method} {path}");
        assert!(lines.iter().all(|(_, of)| *of == json!(id)), "{lines:?}");
    }
}

async fn lines_about_mails_have_the_id_of_the_request_that_sent_them() {
    // The server refuses the first try, so that the retry is logged.
    let smtp = SmtpServer::start(&["--refuse", "451", "1"], false).await;
    let outbox = Outbox::new(smtp.settings("", ""));
    let fixture = Fixture::with_services(|services| {
        services.outbox = Some(outbox.clone());
        services.config.public_url = Some("https://millrace.example".to_owned());
    })
    .await;
    let logs = Logs::catch();
    let invite = json!({ "target_email": "bob@example.org" });
    let path = "/api/organizations/@current/invites/";
    let answer = ask(&fixture, "with-a-mail", "POST", path, &invite).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    outbox.drain(Duration::from_secs(60)).await;
    let mut lines = logs.take();
    lines.sort_by(|a, b| a.0.cmp(&b.0));
    let id = || json!("with-a-mail");
    let expected = ["a mail waits for another try", "answered", "sent a mail"];
    assert_eq!(lines, expected.map(|line| (line.to_owned(), id())));
}
