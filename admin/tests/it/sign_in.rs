//! Signing in with a browser, and what its session may do.

use crate::Fixture;
use crate::fixture::TestResponse;
use crate::servers::smtp::SmtpServer;
use millrace_admin::ApiConfig;
use millrace_admin::mail::Outbox;
use millrace_catalog::{Actor, Level};
use millrace_organizations::{Invites, NewInvite, Sessions};
use serde_json::{Value, json};
use std::time::Duration;

on_both!(
    a_link_signs_in_and_the_session_does_what_its_user_may,
    a_session_changes_nothing_for_pages_of_other_sites,
    cookies_are_secure_under_tls_and_never_sent_in_the_clear,
    signing_out_ends_the_session_and_removes_the_cookie,
    a_removed_members_session_is_refused_at_once,
    asking_for_a_mail_tells_nothing_about_the_address,
    mails_with_links_are_limited,
    without_mail_nobody_gets_a_link_by_it,
    wrong_links_count_as_wrong_keys,
    an_idempotency_key_keeps_nothing_of_signing_in,
    an_invitation_may_end_in_a_session,
    the_page_keeps_its_links_secret,
);

const SIGN_IN: &str = "/api/sign_in/";
const MAIL: &str = "/api/sign_in/mail/";
const SIGN_OUT: &str = "/api/sign_out/";
const CURRENT: &str = "/api/sessions/@current/";
const HOST: &str = "localhost:8010";
const ORIGIN: &str = "http://localhost:8010";

/// Browser with the cookie of a session.
struct Browser<'a> {
    fixture: &'a Fixture,
    cookie: String,
}

impl Browser<'_> {
    /// Sends a request as a page of our own does.
    async fn send(&self, method: &str, path: &str, body: &Value) -> TestResponse {
        let headers = [("origin", ORIGIN), ("x-millrace-csrf", "1")];
        self.send_with(method, path, &headers, body).await
    }

    async fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> TestResponse {
        let own = [
            ("host", HOST),
            ("cookie", self.cookie.as_str()),
            ("content-type", "application/json"),
        ];
        let headers = [own.as_slice(), headers].concat();
        let body = body.to_string();
        self.fixture
            .request(method, path, &headers, body.as_bytes())
            .await
    }
}

/// Creates a link for a user; returns its token.
async fn link(fixture: &Fixture, email: &str) -> String {
    let link = Sessions::new(&fixture.catalog).create_link(&Actor::system(), email);
    link.await.unwrap().token.expose().to_owned()
}

/// Sends JSON without any credential to a host.
async fn post(fixture: &Fixture, host: &str, path: &str, body: &Value) -> TestResponse {
    let headers = [("host", host), ("content-type", "application/json")];
    let body = body.to_string();
    fixture
        .request("POST", path, &headers, body.as_bytes())
        .await
}

/// Signs a user in; returns the browser.
async fn browser<'a>(fixture: &'a Fixture, email: &str) -> Browser<'a> {
    let token = link(fixture, email).await;
    let opened = post(fixture, HOST, SIGN_IN, &json!({ "token": token })).await;
    assert_eq!(opened.status, 200, "{opened:?}");
    let (cookie, _) = opened.header("set-cookie").split_once(';').unwrap();
    Browser {
        fixture,
        cookie: cookie.to_owned(),
    }
}

async fn a_link_signs_in_and_the_session_does_what_its_user_may() {
    let fixture = Fixture::new().await;
    fixture.member("mia@example.com", Level::Member).await;
    let token = link(&fixture, "mia@example.com").await;
    let sent = json!({ "token": token });
    let opened = post(&fixture, HOST, SIGN_IN, &sent).await;
    assert_eq!(opened.status, 200, "{opened:?}");
    assert_eq!(opened.body["user"]["email"], "mia@example.com");
    assert_eq!(opened.body["session"]["method"], "link");
    assert_eq!(opened.header("cache-control"), "no-store");
    let (cookie, attributes) = opened.header("set-cookie").split_once(';').unwrap();
    assert_eq!(
        attributes.trim(),
        "Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax"
    );
    let (name, value) = cookie.split_once('=').unwrap();
    assert_eq!((name, value.len()), ("millrace", 43));
    assert!(!opened.body.to_string().contains(value));
    let again = post(&fixture, HOST, SIGN_IN, &sent).await;
    assert_eq!(again.error(), (404, "not_found", None), "it is used up");
    let mia = Browser {
        fixture: &fixture,
        cookie: cookie.to_owned(),
    };
    let nothing = json!({});
    let organization = "/api/organizations/@current/";
    let new_key = json!({ "label": "Laptop", "scopes": ["*"] });
    let table = [
        ("GET", CURRENT, &nothing, 200),
        ("GET", "/api/sessions/", &nothing, 200),
        ("GET", organization, &nothing, 200),
        ("GET", "/api/personal_api_keys/@current/", &nothing, 404),
        ("POST", "/api/personal_api_keys/", &new_key, 201),
        ("PATCH", organization, &nothing, 403),
        ("DELETE", organization, &nothing, 403),
    ];
    for (method, path, body, status) in table {
        let answer = mia.send(method, path, body).await;
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
}

async fn a_session_changes_nothing_for_pages_of_other_sites() {
    let fixture = Fixture::new().await;
    let owner = browser(&fixture, &fixture.made.owner_email).await;
    let header = ("x-millrace-csrf", "1");
    let table: [&[(&str, &str)]; 6] = [
        &[],
        &[header],
        &[("origin", ORIGIN)],
        &[header, ("origin", "http://localhost:9999")],
        &[header, ("origin", "https://localhost:8010")],
        &[header, ("origin", "null")],
    ];
    let before = fixture.contents().await;
    let organization = "/api/organizations/@current/";
    let body = json!({ "name": "Taken over" });
    for headers in table {
        for (method, path) in [
            ("PATCH", organization),
            ("PUT", organization),
            ("DELETE", organization),
            ("POST", "/api/personal_api_keys/"),
            ("POST", SIGN_OUT),
            ("DELETE", CURRENT),
        ] {
            let answer = owner.send_with(method, path, headers, &body).await;
            let expected = (403, "csrf_failed", None);
            assert_eq!(answer.error(), expected, "{method} {path} {headers:?}");
        }
        let read = owner.send_with("GET", organization, headers, &body).await;
        assert_eq!(read.status, 200, "{headers:?}");
    }
    fixture.assert_unchanged(&before, "afterwards").await;
    let bearer = format!("Bearer {}", fixture.owner_key());
    let with_key = [("authorization", bearer.as_str())];
    let changed = owner
        .send_with("PATCH", organization, &with_key, &body)
        .await;
    assert_eq!(changed.status, 200, "a key needs neither: {changed:?}");
}

async fn cookies_are_secure_under_tls_and_never_sent_in_the_clear() {
    let fixture = Fixture::with_services(|services| {
        services.config.public_url = Some("https://millrace.example/admin".to_owned());
    });
    let fixture = fixture.await;
    let token = link(&fixture, &fixture.made.owner_email).await;
    let opened = post(&fixture, HOST, SIGN_IN, &json!({ "token": token })).await;
    let (cookie, attributes) = opened.header("set-cookie").split_once(';').unwrap();
    assert!(cookie.starts_with("__Host-millrace="), "{cookie}");
    assert!(attributes.ends_with("; Secure"), "{attributes}");
    let headers = [("cookie", cookie)];
    let read = fixture.request("GET", CURRENT, &headers, b"").await;
    assert_eq!(read.status, 200, "{read:?}");

    let fixture = Fixture::new().await;
    let token = link(&fixture, &fixture.made.owner_email).await;
    let sent = json!({ "token": token });
    for host in ["admin.example:8010", "10.0.0.1:8010"] {
        let refused = post(&fixture, host, SIGN_IN, &sent).await;
        assert_eq!(refused.error(), (400, "insecure_address", None), "{host}");
    }
    let opened = post(&fixture, HOST, SIGN_IN, &sent).await;
    assert_eq!(opened.status, 200, "the link was not used up");
    let (cookie, _) = opened.header("set-cookie").split_once(';').unwrap();
    let headers = [("host", "admin.example:8010"), ("cookie", cookie)];
    let read = fixture.request("GET", CURRENT, &headers, b"").await;
    assert_eq!(read.error(), (401, "not_authenticated", None));
}

async fn signing_out_ends_the_session_and_removes_the_cookie() {
    let fixture = Fixture::new().await;
    let owner = browser(&fixture, &fixture.made.owner_email).await;
    let nothing = json!({});
    for is_ended in [true, false] {
        let answer = owner.send("POST", SIGN_OUT, &nothing).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.body, json!({ "session_ended": is_ended }));
        let removal = "millrace=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax";
        assert_eq!(answer.header("set-cookie"), removal);
        let read = owner.send("GET", CURRENT, &nothing).await;
        assert_eq!(read.error(), (401, "session_ended", None));
    }
    // What is open to all stays so.
    let schema = owner.send("GET", "/api/schema/", &nothing).await;
    assert_eq!(schema.status, 200);
}

async fn a_removed_members_session_is_refused_at_once() {
    let fixture = Fixture::new().await;
    let user = fixture
        .member_of(
            fixture.made.organization_id,
            "mia@example.com",
            Level::Member,
        )
        .await;
    let mia = browser(&fixture, "mia@example.com").await;
    let nothing = json!({});
    let read = mia.send("GET", CURRENT, &nothing).await;
    assert_eq!(read.status, 200);
    let member = format!("/api/organizations/@current/members/{}/", user.uuid);
    let removed = fixture.call("DELETE", &member, &nothing).await;
    assert_eq!(removed.status, 204, "{removed:?}");
    let read = mia.send("GET", CURRENT, &nothing).await;
    assert_eq!(read.error(), (401, "session_ended", None));
}

/// Creates a fixture that sends mails; returns it and its outbox.
async fn mailing(smtp: &SmtpServer) -> (Fixture, Outbox) {
    let outbox = Outbox::new(smtp.settings("", ""));
    let fixture = Fixture::with_services(|services| {
        services.outbox = Some(outbox.clone());
        services.config.public_url = Some("https://millrace.example".to_owned());
    });
    (fixture.await, outbox)
}

async fn asking_for_a_mail_tells_nothing_about_the_address() {
    let mut smtp = SmtpServer::plain().await;
    let (fixture, outbox) = mailing(&smtp).await;
    fixture.member("mia@example.com", Level::Member).await;
    let mut answers = Vec::new();
    for email in ["nobody@example.com", "mia@example.com"] {
        // The host of the request is not that of the link.
        let sent = json!({ "email": email });
        let answer = post(&fixture, "evil.example", MAIL, &sent).await;
        let mut headers = answer.headers.clone();
        headers.remove("x-request-id");
        answers.push((answer.status, headers, answer.body));
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0].0, 200, "{answers:?}");
    outbox.drain(Duration::from_secs(60)).await;
    let mail = smtp.server.next().await;
    assert_eq!(mail["to"], json!(["mia@example.com"]), "the only mail");
    let text = mail["text"].as_str().unwrap();
    let (_, rest) = text
        .split_once("https://millrace.example/sign-in#")
        .unwrap();
    let token = rest.split_whitespace().next().unwrap();
    let opened = post(&fixture, HOST, SIGN_IN, &json!({ "token": token })).await;
    assert_eq!(opened.status, 200, "{opened:?}");
    assert_eq!(opened.body["session"]["method"], "mail");
    assert_eq!(opened.body["user"]["is_email_verified"], true);
}

async fn mails_with_links_are_limited() {
    let smtp = SmtpServer::plain().await;
    let (fixture, _) = mailing(&smtp).await;
    let ask = async |email: &str| post(&fixture, HOST, MAIL, &json!({ "email": email })).await;
    for _ in 0..3 {
        assert_eq!(ask("nobody@example.com").await.status, 200);
    }
    let refused = ask("Nobody@Example.com").await;
    assert_eq!(refused.error(), (429, "throttled", None));
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!((3_000..=3_600).contains(&wait), "{wait}");
    for number in 0..6 {
        let email = format!("other{number}@example.com");
        assert_eq!(ask(&email).await.status, 200, "{email}");
    }
    // The refused one counted for the client.
    assert_eq!(ask("last@example.com").await.status, 429);
}

async fn without_mail_nobody_gets_a_link_by_it() {
    let fixture = Fixture::new().await;
    let sent = json!({ "email": fixture.made.owner_email });
    let answer = post(&fixture, HOST, MAIL, &sent).await;
    assert_eq!(answer.error(), (400, "mail_not_configured", None));
}

async fn wrong_links_count_as_wrong_keys() {
    let fixture = Fixture::with(ApiConfig {
        wrong_keys_per_minute_max: 2,
        ..Fixture::unthrottled()
    });
    let fixture = fixture.await;
    let wrong = json!({ "token": "A".repeat(43) });
    for expected in [404, 404, 429] {
        let answer = post(&fixture, HOST, SIGN_IN, &wrong).await;
        assert_eq!(answer.status, expected, "{answer:?}");
    }
    browser(&fixture, &fixture.made.owner_email).await;
}

async fn an_idempotency_key_keeps_nothing_of_signing_in() {
    let fixture = Fixture::new().await;
    let before = fixture.contents().await;
    let headers = [
        ("host", HOST),
        ("content-type", "application/json"),
        ("idempotency-key", "one"),
    ];
    for (path, body, status) in [
        (SIGN_IN, json!({ "token": "A".repeat(43) }), 404),
        (SIGN_OUT, json!({}), 200),
    ] {
        let body = body.to_string();
        let answer = fixture
            .request("POST", path, &headers, body.as_bytes())
            .await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        assert!(!answer.headers.contains_key("idempotent-replayed"));
    }
    fixture.assert_unchanged(&before, "strangers").await;
}

async fn an_invitation_may_end_in_a_session() {
    let fixture = Fixture::new().await;
    let invites = Invites::new(&fixture.catalog);
    let organization = fixture.made.organization_id;
    let new = NewInvite::to("bob@example.com");
    let sent = invites.create(&Actor::system(), organization, new).await;
    let path = format!("/api/signup/{}/", sent.unwrap().token.expose());
    let wanted = json!({ "first_name": "Bob", "session": true });
    let refused = post(&fixture, "admin.example", &path, &wanted).await;
    assert_eq!(refused.error(), (400, "insecure_address", None));
    let joined = post(&fixture, HOST, &path, &wanted).await;
    assert_eq!(joined.status, 201, "{joined:?}");
    assert_eq!(joined.body["personal_api_key"], Value::Null);
    let (cookie, _) = joined.header("set-cookie").split_once(';').unwrap();
    let bob = Browser {
        fixture: &fixture,
        cookie: cookie.to_owned(),
    };
    let me = "/api/organizations/@current/members/@me/";
    let read = bob.send("GET", me, &json!({})).await;
    assert_eq!(read.body["user"]["email"], "bob@example.com", "{read:?}");
}

async fn the_page_keeps_its_links_secret() {
    let fixture = Fixture::new().await;
    for (method, path, status) in [
        ("GET", "/sign-in", 200),
        ("GET", "/sign-in/", 200),
        ("HEAD", "/sign-in", 200),
        ("POST", "/sign-in", 404),
        ("GET", "/sign-in/token", 404),
    ] {
        let answer = fixture.send(method, path, None).await;
        assert_eq!(answer.status, status, "{method} {path}");
    }
    let page = fixture.send("GET", "/sign-in", None).await;
    for (name, value) in [
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        assert_eq!(page.header(name), value, "{name}");
    }
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"));
    assert!(!policy.contains("unsafe"), "{policy}");
}
