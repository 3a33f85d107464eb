//! Accepting invitations by their tokens.

use crate::Fixture;
use crate::fixture::TestResponse;
use crate::servers::smtp::SmtpServer;
use millrace_admin::mail::Outbox;
use millrace_catalog::Actor;
use millrace_catalog::Level::{self, Administrator, Member};
use millrace_organizations::{Invites, NewInvite};
use serde_json::{Value, json};
use uuid::Uuid;

on_both!(
    a_link_shows_its_invitation_with_the_address_masked,
    a_new_account_gets_its_level_and_a_first_key_once,
    an_existing_account_accepts_with_its_key,
    expired_and_replaced_links_are_not_accepted,
    names_are_checked_and_may_be_left_out,
    a_replayed_signup_does_not_show_the_key_again,
    a_signup_sent_again_while_the_first_runs_is_answered_409,
    other_members_are_mailed_if_the_organization_wants_it,
);

/// Creates an invitation to the first organization; returns its path.
async fn invitation(fixture: &Fixture, email: &str, level: Level) -> String {
    invitation_to(fixture, fixture.made.organization_id, email, level).await
}

async fn invitation_to(fixture: &Fixture, to: Uuid, email: &str, level: Level) -> String {
    let mut new = NewInvite::to(email);
    new.level = level;
    new.first_name = "Bob".to_owned();
    let made = Invites::new(&fixture.catalog)
        .create(&Actor::system(), to, new)
        .await;
    format!("/api/signup/{}/", made.unwrap().token.expose())
}

async fn accept(fixture: &Fixture, path: &str, key: Option<&str>) -> TestResponse {
    let body = json!({ "first_name": " Bob ", "last_name": "Builder", "level": 15 });
    match key {
        Some(key) => fixture.call_with(key, "POST", path, &body).await,
        None => {
            let json = [("content-type", "application/json")];
            fixture
                .request("POST", path, &json, body.to_string().as_bytes())
                .await
        }
    }
}

async fn a_link_shows_its_invitation_with_the_address_masked() {
    let fixture = Fixture::new().await;
    let path = invitation(&fixture, "bob@example.org", Administrator).await;
    let seen = fixture.send("GET", &path, None).await;
    assert_eq!(seen.status, 200, "{seen:?}");
    let name = fixture.get("/api/organizations/@current/").await.body["name"].clone();
    let expected = json!({
        "id": seen.body["id"], "target_email": "b***@example.org", "first_name": "Bob",
        "organization_name": name, "level": 8, "expires_at": seen.body["expires_at"],
    });
    assert_eq!(seen.body, expected);
    let id = seen.body["id"].as_str().unwrap();
    let unknown = "A".repeat(43);
    for token in [id, "x", unknown.as_str(), "%2e%2e", "@current"] {
        let path = format!("/api/signup/{token}/");
        for answer in [
            fixture.send("GET", &path, None).await,
            accept(&fixture, &path, None).await,
        ] {
            assert_eq!(answer.error(), (404, "not_found", None), "{token}");
        }
    }
}

async fn a_new_account_gets_its_level_and_a_first_key_once() {
    let fixture = Fixture::new().await;
    let path = invitation(&fixture, "Bob@Example.org", Administrator).await;
    let made = accept(&fixture, &path, None).await;
    assert_eq!(made.status, 201, "{made:?}");
    let user = &made.body["user"];
    assert_eq!(user["email"], "bob@example.org");
    assert_eq!(
        (&user["first_name"], &user["last_name"]),
        (&json!("Bob"), &json!("Builder"))
    );
    assert_eq!(made.body["level"], 8, "what the body says of it is ignored");
    assert_eq!(
        made.body["organization_id"],
        fixture.made.organization_id.to_string()
    );
    let key = made.body["personal_api_key"].as_str().unwrap();
    let me = fixture
        .send("GET", "/api/organizations/@current/members/@me/", Some(key))
        .await;
    assert_eq!((me.status, &me.body["level"]), (200, &json!(8)));
    let mine = fixture
        .send("GET", "/api/personal_api_keys/@current/", Some(key))
        .await;
    assert_eq!(
        (&mine.body["scopes"], &mine.body["value"]),
        (&json!(["*"]), &Value::Null)
    );
    for answer in [
        fixture.send("GET", &path, None).await,
        accept(&fixture, &path, None).await,
    ] {
        assert_eq!(answer.error(), (404, "not_found", None), "it is used up");
    }
    let log = fixture
        .get("/api/organizations/@current/activity/")
        .await
        .body;
    let newest = &log["results"].as_array().unwrap()[..3];
    let emails = newest
        .iter()
        .any(|row| row["user"]["email"] == "bob@example.org");
    assert!(emails, "{newest:?}");
    let token = path.split('/').nth(3).unwrap();
    assert!(!log.to_string().contains(token) && !log.to_string().contains(key));
}

async fn an_existing_account_accepts_with_its_key() {
    let fixture = Fixture::new().await;
    let theirs = fixture.foreign_organization().await;
    let member = fixture.member("mia@example.com", Member).await;
    let stranger = fixture.key(&["*"]).await;
    let path = invitation_to(&fixture, theirs, "mia@example.com", Administrator).await;
    let steps = [
        (None, (400, "account_exists", None)),
        (Some(stranger.as_str()), (400, "invalid_recipient", None)),
        (Some("phx_garbage"), (401, "authentication_failed", None)),
    ];
    for (key, expected) in steps {
        assert_eq!(
            accept(&fixture, &path, key).await.error(),
            expected,
            "{key:?}"
        );
    }
    let joined = accept(&fixture, &path, Some(&member)).await;
    assert_eq!(
        (joined.status, &joined.body["level"]),
        (200, &json!(8)),
        "{joined:?}"
    );
    assert_eq!(joined.body["personal_api_key"], Value::Null);
    assert_eq!(
        joined.body["user"]["first_name"], "",
        "an account keeps its names"
    );
    let at = format!("/api/organizations/{theirs}/members/@me/");
    assert_eq!(
        fixture.send("GET", &at, Some(&member)).await.body["level"],
        8
    );
    assert_eq!(accept(&fixture, &path, Some(&member)).await.status, 404);
}

async fn expired_and_replaced_links_are_not_accepted() {
    let fixture = Fixture::new().await;
    let path = invitation(&fixture, "bob@example.org", Member).await;
    fixture
        .execute("UPDATE organization_invites SET expires_at = 0")
        .await;
    for answer in [
        fixture.send("GET", &path, None).await,
        accept(&fixture, &path, None).await,
    ] {
        assert_eq!(answer.error(), (400, "expired", None));
    }
    let list = "/api/organizations/@current/invites/";
    let id = fixture.get(list).await.body["results"][0]["id"].clone();
    let resend = format!("{list}{}/resend/", id.as_str().unwrap());
    assert_eq!(fixture.call("POST", &resend, &json!({})).await.status, 200);
    assert_eq!(
        fixture.send("GET", &path, None).await.error(),
        (404, "not_found", None)
    );

    let second = invitation(&fixture, "bob@example.org", Member).await;
    let third = invitation(&fixture, "bob@example.org", Member).await;
    assert_eq!(
        accept(&fixture, &second, None).await.status,
        404,
        "it was replaced"
    );
    let delete = fixture.get(list).await.body["results"][0]["id"].clone();
    let delete = format!("{list}{}/", delete.as_str().unwrap());
    assert_eq!(
        fixture.call("DELETE", &delete, &json!({})).await.status,
        204
    );
    assert_eq!(
        accept(&fixture, &third, None).await.status,
        404,
        "it was withdrawn"
    );
}

async fn names_are_checked_and_may_be_left_out() {
    let fixture = Fixture::new().await;
    let path = invitation(&fixture, "bob@example.org", Member).await;
    let json = [("content-type", "application/json")];
    let long = "n".repeat(151);
    let table = [
        (
            json!({ "first_name": long }),
            "max_length",
            Some("first_name"),
        ),
        (
            json!({ "last_name": "a\r\nb" }),
            "invalid_input",
            Some("last_name"),
        ),
        (json!({ "last_name": null }), "null", Some("last_name")),
        (json!([]), "invalid_input", None),
    ];
    for (body, code, attr) in table {
        let answer = fixture
            .request("POST", &path, &json, body.to_string().as_bytes())
            .await;
        assert_eq!(answer.error(), (400, code, attr), "{body}");
    }
    let made = fixture.request("POST", &path, &[], b"").await;
    assert_eq!(
        (made.status, &made.body["user"]["first_name"]),
        (201, &json!(""))
    );
    let other = fixture.send("DELETE", &path, None).await;
    assert_eq!(
        (other.status, other.header("allow")),
        (405, "GET, HEAD, POST")
    );
}

async fn a_replayed_signup_does_not_show_the_key_again() {
    let fixture = Fixture::new().await;
    let path = invitation(&fixture, "bob@example.org", Member).await;
    let headers = [("idempotency-key", "once")];
    let first = fixture.request("POST", &path, &headers, b"").await;
    let again = fixture.request("POST", &path, &headers, b"").await;
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(again.header("idempotent-replayed"), "true");
    assert!(first.body["personal_api_key"].is_string());
    let mut expected = first.body.clone();
    expected["personal_api_key"] = Value::Null;
    assert_eq!(again.body, expected);
}

async fn a_signup_sent_again_while_the_first_runs_is_answered_409() {
    let fixture = Fixture::new().await;
    let path = invitation(&fixture, "bob@example.org", Member).await;
    let headers = [("idempotency-key", "once")];
    let first = fixture.request("POST", &path, &headers, b"").await;
    assert_eq!(first.status, 201);
    // As while the first request has used the invite up, and its response is not kept yet.
    let on_its_way = "UPDATE idempotency_keys SET status = NULL";
    fixture.execute(on_its_way).await;
    let again = fixture.request("POST", &path, &headers, b"").await;
    assert_eq!(again.error(), (409, "idempotency_in_progress", None));
    let other = [("idempotency-key", "other")];
    let other = fixture.request("POST", &path, &other, b"").await;
    assert_eq!(other.error(), (404, "not_found", None));
}

async fn other_members_are_mailed_if_the_organization_wants_it() {
    let mut smtp = SmtpServer::plain().await;
    let outbox = Outbox::new(smtp.settings("", ""));
    let fixture = Fixture::with_services(|services| {
        services.outbox = Some(outbox);
        services.config.public_url = Some("https://millrace.example".to_owned());
    })
    .await;
    fixture
        .execute("UPDATE users SET email = 'ann@example.com'")
        .await;
    let quiet = json!({ "is_member_join_email_enabled": false });
    fixture
        .call("PATCH", "/api/organizations/@current/", &quiet)
        .await;
    let path = invitation(&fixture, "quiet@example.org", Member).await;
    assert_eq!(accept(&fixture, &path, None).await.status, 201);
    let loud = json!({ "is_member_join_email_enabled": true });
    fixture
        .call("PATCH", "/api/organizations/@current/", &loud)
        .await;
    let path = invitation(&fixture, "bob@example.org", Member).await;
    assert_eq!(accept(&fixture, &path, None).await.status, 201);
    let mut recipients = Vec::new();
    for _ in 0..2 {
        let mail = smtp.server.next().await;
        assert!(
            mail["headers"]["Subject"]
                .as_str()
                .unwrap()
                .starts_with("Bob Builder joined ")
        );
        recipients.push(mail["to"][0].as_str().unwrap().to_owned());
    }
    recipients.sort();
    assert_eq!(recipients, ["ann@example.com", "quiet@example.org"]);
}
