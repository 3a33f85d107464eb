//! An address is verified only by the link that was mailed to it. In these tests an owner who
//! wants to verify a foreign address has every response of the API, and cannot read the mail.

use crate::Fixture;
use crate::fixture::TestResponse;
use crate::servers::smtp::SmtpServer;
use millrace_admin::mail::Outbox;
use millrace_organizations::Users;
use serde_json::{Value, json};
use std::collections::BTreeSet;

on_both!(
    nothing_that_an_inviter_sees_verifies_an_address,
    only_the_newest_mail_verifies_an_address,
);

const ALL: &str = "/api/organizations/@current/invites/";
const VICTIM: &str = "victim@example.org";

async fn fixture(smtp: &SmtpServer) -> Fixture {
    let outbox = Outbox::new(smtp.settings("", ""));
    Fixture::with_services(|services| {
        services.outbox = Some(outbox);
        services.config.public_url = Some("https://millrace.example".to_owned());
    })
    .await
}

/// Token of the link in a mail.
fn token(mail: &Value) -> String {
    let text = mail["text"].as_str().unwrap();
    let (_, rest) = text.split_once("/signup/").unwrap();
    rest.split_whitespace().next().unwrap().to_owned()
}

async fn accept(fixture: &Fixture, token: &str) -> TestResponse {
    let json = [("content-type", "application/json")];
    let path = format!("/api/signup/{token}/");
    fixture.request("POST", &path, &json, b"{}").await
}

/// Collects every text of a response that could be part of a path: values and their parts.
fn words(answer: &TestResponse, into: &mut BTreeSet<String>) {
    let headers = answer.headers.values().map(|value| value.to_str().unwrap());
    let texts = headers.map(str::to_owned).chain([answer.body.to_string()]);
    for text in texts {
        let is_apart = |c: char| !(c.is_ascii_alphanumeric() || "-_@.".contains(c));
        let words = text.split(is_apart).filter(|word| !word.is_empty());
        into.extend(words.map(str::to_owned));
    }
}

async fn nothing_that_an_inviter_sees_verifies_an_address() {
    let mut smtp = SmtpServer::plain().await;
    let fixture = fixture(&smtp).await;
    let mut seen = BTreeSet::new();
    let body = json!({ "target_email": VICTIM, "message": "{link}" }).to_string();
    let bearer = format!("Bearer {}", fixture.owner_key());
    let headers = [
        ("content-type", "application/json"),
        ("authorization", bearer.as_str()),
        ("idempotency-key", "again"),
    ];
    let made = fixture
        .request("POST", ALL, &headers, body.as_bytes())
        .await;
    assert_eq!(made.body["emailing_attempt_made"], true);
    let one = format!("{ALL}{}/", made.body["id"].as_str().unwrap());
    let answers = [
        fixture
            .request("POST", ALL, &headers, body.as_bytes())
            .await,
        fixture.get(ALL).await,
        fixture.get("/api/organizations/@current/activity/").await,
        fixture
            .call("POST", &format!("{one}resend/"), &json!({}))
            .await,
        fixture
            .call("PATCH", &one, &json!({ "token": "mine" }))
            .await,
        fixture
            .get(&format!(
                "/api/signup/{}/",
                made.body["id"].as_str().unwrap()
            ))
            .await,
        fixture
            .call(
                "POST",
                &format!("{ALL}bulk/"),
                &json!([{ "target_email": VICTIM }]),
            )
            .await,
        made,
    ];
    for answer in &answers {
        words(answer, &mut seen);
    }
    assert!(seen.len() > 50, "{seen:?}");
    // The longest first, as secrets are long: after some guesses the answer is 429.
    let mut tried: Vec<&String> = seen.iter().collect();
    tried.sort_by_key(|word| std::cmp::Reverse(word.len()));
    for (number, word) in tried.into_iter().enumerate() {
        let refused = accept(&fixture, word).await;
        let is_told = refused.status == 404 || (refused.status == 429 && number > 10);
        assert!(is_told, "{word}: {refused:?}");
    }
    let user = Users::new(&fixture.catalog).by_email(VICTIM).await.unwrap();
    assert!(user.is_none(), "{user:?}");
    for _ in 0..3 {
        let mail = smtp.server.next().await;
        assert_eq!(mail["to"], json!([VICTIM]));
        assert!(!seen.contains(&token(&mail)));
    }
}

async fn only_the_newest_mail_verifies_an_address() {
    let mut smtp = SmtpServer::plain().await;
    let fixture = fixture(&smtp).await;
    let mut mailed = Vec::new();
    for is_mailed in [true, true, false] {
        let body = json!({ "target_email": VICTIM, "send_email": is_mailed });
        let made = fixture.call("POST", ALL, &body).await;
        assert_eq!(made.body["emailing_attempt_made"], is_mailed, "{made:?}");
        if is_mailed {
            mailed.push(token(&smtp.server.next().await));
        }
        let resend = format!("{ALL}{}/resend/", made.body["id"].as_str().unwrap());
        assert_eq!(fixture.call("POST", &resend, &json!({})).await.status, 200);
        mailed.push(token(&smtp.server.next().await));
    }
    let newest = mailed.pop().unwrap();
    for token in &mailed {
        let refused = accept(&fixture, token).await;
        assert_eq!(refused.error(), (404, "not_found", None), "{token}");
    }
    let accepted = accept(&fixture, &newest).await;
    assert_eq!(accepted.body["user"]["is_email_verified"], true);
}
