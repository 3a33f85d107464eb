//! Mails of invites, their quotas, and secrecy of their tokens.

use crate::Fixture;
use crate::fixture::TestResponse;
use crate::servers::smtp::SmtpServer;
use millrace_admin::mail::Outbox;
use millrace_catalog::Level;
use millrace_organizations::PersonalKeys;
use serde_json::{Value, json};
use uuid::Uuid;

on_both!(
    every_change_is_in_the_activity_log_without_its_token,
    an_invite_is_mailed_unless_send_email_is_false,
    no_invite_is_stored_when_the_outbox_is_full,
    an_organization_over_its_quota_gets_retry_after,
    a_sender_over_the_quota_is_refused_in_every_organization,
    mails_to_an_address_are_limited_whoever_invites,
);

const ALL: &str = "/api/organizations/@current/invites/";

async fn invited(fixture: &Fixture, body: &Value) -> Value {
    let answer = fixture.call("POST", ALL, body).await;
    assert_eq!(answer.status, 201, "{body}: {answer:?}");
    answer.body
}

async fn every_change_is_in_the_activity_log_without_its_token() {
    let mut smtp = SmtpServer::plain().await;
    let outbox = Outbox::new(smtp.settings("", ""));
    let fixture = Fixture::with_services(|services| {
        services.outbox = Some(outbox);
        services.config.public_url = Some("https://millrace.example".to_owned());
    })
    .await;
    let invite = invited(&fixture, &json!({ "target_email": "bob@example.org" })).await;
    let one = format!("{ALL}{}/", invite["id"].as_str().unwrap());
    let mut tokens = vec![token(&smtp.server.next().await)];
    let resend = format!("{one}resend/");
    let resent = fixture.call("POST", &resend, &json!({})).await;
    assert_eq!(resent.body["emailing_attempt_made"], true);
    tokens.push(token(&smtp.server.next().await));
    assert_ne!(tokens[0], tokens[1]);
    fixture.call("DELETE", &one, &json!({})).await;
    let log = "/api/organizations/@current/activity/?scopes=OrganizationInvite";
    let log = fixture.get(log).await.body;
    let rows = log["results"].as_array().unwrap().iter();
    let told = rows.map(|row| (&row["activity"], &row["item_id"], &row["detail"]["name"]));
    let (id, name) = (&invite["id"], json!("bob@example.org"));
    let expected = ["deleted", "updated", "created"].map(|activity| json!(activity));
    assert_eq!(
        told.collect::<Vec<_>>(),
        expected
            .iter()
            .map(|activity| (activity, id, &name))
            .collect::<Vec<_>>()
    );
    for token in tokens {
        for said in [&invite, &resent.body, &log] {
            assert!(!said.to_string().contains(&token));
        }
    }
}

async fn an_invite_is_mailed_unless_send_email_is_false() {
    let mut smtp = SmtpServer::plain().await;
    let outbox = Outbox::new(smtp.settings("", ""));
    let fixture = Fixture::with_services(|services| {
        services.outbox = Some(outbox);
        services.config.public_url = Some("https://millrace.example".to_owned());
    });
    let fixture = fixture.await;
    let quiet = json!({ "target_email": "quiet@example.org", "send_email": false });
    assert_eq!(
        invited(&fixture, &quiet).await["emailing_attempt_made"],
        false
    );
    let body = json!({
        "target_email": "bob@example.org", "first_name": "Bob",
        "message": ". Bcc: eve@example.net",
    });
    assert_eq!(
        invited(&fixture, &body).await["emailing_attempt_made"],
        true
    );
    let mail = smtp.server.next().await;
    assert_eq!(
        (&mail["to"], &mail["defects"]),
        (&json!(["bob@example.org"]), &json!([]))
    );
    assert_eq!(mail["headers"]["Bcc"], Value::Null, "{mail}");
    assert_eq!(mail["headers"]["To"], "Bob <bob@example.org>");
    assert!(
        mail["headers"]["Reply-To"]
            .as_str()
            .unwrap()
            .contains("owner@localhost")
    );
    let text = mail["text"].as_str().unwrap();
    assert!(text.contains("https://millrace.example/signup/"), "{text}");
    assert!(
        text.contains("Bcc: eve@example.net"),
        "the message is text: {text}"
    );
    let bulk = json!([
        { "target_email": "a@example.org" },
        { "target_email": "quiet@example.org", "send_email": false },
        { "target_email": "c@example.org" },
    ]);
    let many = fixture
        .call("POST", &format!("{ALL}bulk/"), &bulk)
        .await
        .body;
    let attempts = many.as_array().unwrap().iter();
    let attempts: Vec<_> = attempts.map(|one| &one["emailing_attempt_made"]).collect();
    assert_eq!(attempts, [true, false, true]);
    let mut reached =
        [smtp.server.next().await, smtp.server.next().await].map(|mail| mail["to"][0].clone());
    reached.sort_by_key(Value::to_string);
    assert_eq!(reached, ["a@example.org", "c@example.org"]);
}

async fn no_invite_is_stored_when_the_outbox_is_full() {
    let smtp = SmtpServer::start(&["--silent"], false).await;
    let outbox = Outbox::new(smtp.settings("", ""));
    let held = [100, 100, 100, 100, 100, 100, 100, 100, 100, 90];
    let held = held.map(|mails| outbox.reserve(Uuid::new_v4(), mails).unwrap());
    let fixture = Fixture::with_services(|services| {
        services.outbox = Some(outbox);
        services.config.public_url = Some("https://millrace.example".to_owned());
    })
    .await;
    let bulk = (0..11).map(|n| json!({ "target_email": format!("a{n}@b.example") }));
    let path = format!("{ALL}bulk/");
    let refused = fixture.call("POST", &path, &bulk.clone().collect()).await;
    assert_eq!(refused.error(), (503, "unavailable", None));
    assert!(!refused.header("retry-after").is_empty());
    assert_eq!(fixture.get(ALL).await.body["count"], 0);
    let fits = fixture.call("POST", &path, &bulk.take(10).collect()).await;
    assert_eq!(fits.status, 200);
    drop(held);
}

async fn an_organization_over_its_quota_gets_retry_after() {
    let smtp = SmtpServer::start(&["--silent"], false).await;
    let outbox = Outbox::new(smtp.settings("", ""));
    let fixture = Fixture::with_services(|services| {
        services.outbox = Some(outbox.clone());
        services.config.public_url = Some("https://millrace.example".to_owned());
    })
    .await;
    let held = outbox.reserve(fixture.made.organization_id, 99).unwrap();
    let bulk = json!([{ "target_email": "a@b.example" }, { "target_email": "c@b.example" }]);
    let path = format!("{ALL}bulk/");
    let refused = fixture.call("POST", &path, &bulk).await;
    assert_eq!(refused.error(), (429, "throttled", None));
    assert!(!refused.header("retry-after").is_empty());
    assert_eq!(fixture.get(ALL).await.body["count"], 0);
    let other = json!({ "name": "Other" });
    let other = fixture.call("POST", "/api/organizations/", &other).await;
    let theirs = path.replace("@current", other.body["id"].as_str().unwrap());
    assert_eq!(fixture.call("POST", &theirs, &bulk).await.status, 200);
    drop(held);
    assert_eq!(fixture.call("POST", &path, &bulk).await.status, 200);
}

/// Token of the link in a mail.
fn token(mail: &Value) -> String {
    let text = mail["text"].as_str().unwrap();
    let (_, rest) = text.split_once("/signup/").unwrap();
    rest.split_whitespace().next().unwrap().to_owned()
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

async fn another_organization(fixture: &Fixture) -> String {
    let other = json!({ "name": "Other" });
    let other = fixture.call("POST", "/api/organizations/", &other).await;
    ALL.replace("@current", other.body["id"].as_str().unwrap())
}

fn detail(answer: &TestResponse) -> &str {
    answer.body["detail"].as_str().unwrap()
}

async fn a_sender_over_the_quota_is_refused_in_every_organization() {
    let smtp = SmtpServer::start(&["--silent"], false).await;
    let (fixture, outbox) = mailing(&smtp).await;
    let key = fixture.owner_key();
    let owner = PersonalKeys::new(&fixture.catalog)
        .authenticate(key)
        .await
        .unwrap()
        .unwrap();
    let elsewhere = outbox.reserve(Uuid::new_v4(), 99).unwrap();
    let held = elsewhere.sent_by(owner.user.id).unwrap();
    let bulk = json!([{ "target_email": "a@b.example" }, { "target_email": "c@b.example" }]);
    let other = another_organization(&fixture).await;
    for all in [ALL, &other] {
        let path = format!("{all}bulk/");
        let refused = fixture.call("POST", &path, &bulk).await;
        assert_eq!(refused.error(), (429, "throttled", None));
        assert!(!refused.header("retry-after").is_empty());
        assert!(detail(&refused).starts_with("You have sent"), "{refused:?}");
        assert_eq!(fixture.get(all).await.body["count"], 0);
    }
    let admin = fixture
        .member("ada@example.com", Level::Administrator)
        .await;
    let path = format!("{ALL}bulk/");
    let theirs = fixture.call_with(&admin, "POST", &path, &bulk).await;
    assert_eq!(theirs.status, 200, "{theirs:?}");
    drop(held);
    let path = format!("{other}bulk/");
    assert_eq!(fixture.call("POST", &path, &bulk).await.status, 200);
}

async fn mails_to_an_address_are_limited_whoever_invites() {
    let smtp = SmtpServer::start(&["--silent"], false).await;
    let (fixture, _) = mailing(&smtp).await;
    let bob = json!({ "target_email": "bob@example.org" });
    let invite = invited(&fixture, &bob).await;
    let one = format!("{ALL}{}/", invite["id"].as_str().unwrap());
    let resend = format!("{one}resend/");
    for _ in 1..10 {
        let again = fixture.call("POST", &resend, &json!({})).await;
        assert_eq!(again.status, 200, "{again:?}");
    }
    let other = another_organization(&fixture).await;
    let admin = fixture
        .member("ada@example.com", Level::Administrator)
        .await;
    let (here, there) = (format!("{ALL}bulk/"), format!("{other}bulk/"));
    let spelled = json!({ "target_email": "BOB@Example.ORG" });
    let two = json!([{ "target_email": "eve@example.org" }, bob.clone()]);
    let table = [
        (&admin[..], &resend[..], json!({})),
        (&admin, ALL, bob.clone()),
        (&admin, ALL, spelled),
        (fixture.owner_key(), &other, bob.clone()),
        (fixture.owner_key(), &here, two.clone()),
        (fixture.owner_key(), &there, two),
    ];
    let before = fixture.contents().await;
    for (key, path, body) in &table {
        let refused = fixture.call_with(key, "POST", path, body).await;
        assert_eq!(refused.error(), (429, "throttled", None), "{path} {body}");
        assert!(!refused.header("retry-after").is_empty());
        let detail = detail(&refused).to_lowercase();
        assert!(detail.contains("bob@example.org"), "{detail}");
        fixture.assert_unchanged(&before, path).await;
    }
    let quiet = json!({ "target_email": "bob@example.org", "send_email": false });
    invited(&fixture, &quiet).await;
    let eve = invited(&fixture, &json!({ "target_email": "eve@example.org" })).await;
    assert_eq!(eve["emailing_attempt_made"], true);
}
