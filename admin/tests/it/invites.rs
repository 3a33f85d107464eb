//! Invites: fields, levels of the caller, resending and replacing.

use crate::Fixture;
use millrace_catalog::Level::{Administrator, Member, Owner};
use millrace_organizations::Projects;
use serde_json::{Value, json};

on_both!(
    an_invite_has_defaults_and_does_not_show_its_token,
    invalid_addresses_are_refused,
    invalid_fields_of_an_invite_are_named,
    nobody_invites_above_their_own_level,
    only_callers_with_the_invites_level_resend_replace_and_withdraw_it,
    a_bulk_invite_is_made_completely_or_not_at_all,
    an_invite_is_replaced_resent_and_withdrawn,
    members_invite_and_keys_need_the_scope,
);

const ALL: &str = "/api/organizations/@current/invites/";

async fn invited(fixture: &Fixture, body: &Value) -> Value {
    let answer = fixture.call("POST", ALL, body).await;
    assert_eq!(answer.status, 201, "{body}: {answer:?}");
    answer.body
}

fn path(invite: &Value) -> String {
    format!("{ALL}{}/", invite["id"].as_str().unwrap())
}

async fn count(fixture: &Fixture) -> Value {
    fixture.get(ALL).await.body["count"].clone()
}

async fn an_invite_has_defaults_and_does_not_show_its_token() {
    let fixture = Fixture::new().await;
    let body = json!({
        "target_email": "Bob@Example.ORG", "id": "mine", "is_expired": true, "unknown": 1,
    });
    let made = invited(&fixture, &body).await;
    let expected = json!({
        "id": made["id"], "target_email": "Bob@example.org", "first_name": "",
        "emailing_attempt_made": false, "level": 1, "is_expired": false,
        "created_by": made["created_by"], "created_at": made["created_at"],
        "updated_at": made["created_at"], "message": null, "private_project_access": [],
    });
    assert_eq!(made, expected);
    assert_eq!(made["created_by"]["email"], "owner@localhost");
    let project = fixture.made.project_id.0;
    let body = json!({
        "target_email": "cy@example.org", "first_name": "Cy", "level": 8, "message": "Hello",
        "private_project_access": [{ "id": project, "level": "admin" }], "send_email": false,
    });
    let full = invited(&fixture, &body).await;
    for field in [
        "target_email",
        "first_name",
        "level",
        "message",
        "private_project_access",
    ] {
        assert_eq!(full[field], body[field], "{field}");
    }
    let list = fixture.get(ALL).await.body;
    assert_eq!(
        (&list["count"], &list["results"]),
        (&json!(2), &json!([made, full]))
    );
}

async fn invalid_addresses_are_refused() {
    let fixture = Fixture::new().await;
    let long = format!("{}@b.example", "a".repeat(250));
    let table = [
        (json!(null), "null"),
        (json!(""), "blank"),
        (json!(" "), "blank"),
        (json!(5), "invalid_input"),
        (json!("bob"), "invalid_input"),
        (json!(long), "max_length"),
        (json!("a@b.example\r\nBcc: c@d.example"), "invalid_input"),
        (json!("a@b.example, c@d.example"), "invalid_input"),
        (json!("Bob <a@b.example>"), "invalid_input"),
    ];
    for (email, code) in table {
        let body = json!({ "target_email": email });
        let answer = fixture.call("POST", ALL, &body).await;
        assert_eq!(answer.error(), (400, code, Some("target_email")), "{email}");
    }
    let none = fixture.call("POST", ALL, &json!({})).await;
    assert_eq!(none.error(), (400, "required", Some("target_email")));
    let member = json!({ "target_email": "OWNER@localhost" });
    let answer = fixture.call("POST", ALL, &member).await;
    assert_eq!(answer.error(), (400, "invalid_input", None));
    assert_eq!(count(&fixture).await, 0);
}

async fn invalid_fields_of_an_invite_are_named() {
    let fixture = Fixture::new().await;
    let theirs = fixture.foreign_organization().await;
    let theirs = Projects::new(&fixture.catalog)
        .list_all(Some(theirs))
        .await
        .unwrap()[0]
        .id;
    let injected = json!("Bob\r\nBcc: c@d.example");
    let unnamed = json!([{ "level": 1 }]);
    let owner = json!([{ "id": 1, "level": 15 }]);
    let unknown = json!([{ "id": 9_999, "level": 1 }]);
    let foreign = json!([{ "id": theirs, "level": 1 }]);
    let table = [
        ("first_name", injected, "invalid_input", ""),
        ("first_name", json!("b".repeat(31)), "max_length", ""),
        ("level", json!(3), "invalid_choice", ""),
        ("level", json!(null), "null", ""),
        ("message", json!("m".repeat(2001)), "max_length", ""),
        ("send_email", json!("yes"), "invalid_input", ""),
        ("private_project_access", json!({}), "not_a_list", ""),
        ("private_project_access", unnamed, "required", "__0__id"),
        (
            "private_project_access",
            owner,
            "invalid_choice",
            "__0__level",
        ),
        ("private_project_access", unknown, "invalid_input", ""),
        ("private_project_access", foreign, "invalid_input", ""),
    ];
    for (field, value, code, below) in table {
        let body = json!({ "target_email": "a@b.example", field: value });
        let answer = fixture.call("POST", ALL, &body).await;
        let attr = format!("{field}{below}");
        assert_eq!(answer.error(), (400, code, Some(&*attr)), "{body}");
    }
    assert_eq!(count(&fixture).await, 0);
}

async fn nobody_invites_above_their_own_level() {
    let fixture = Fixture::new().await;
    let member = fixture.member("mia@example.com", Member).await;
    let administrator = fixture.member("ada@example.com", Administrator).await;
    let project = fixture.made.project_id.0;
    let table = [
        (&member, 1, 1, 201),
        (&member, 8, 1, 403),
        (&member, 15, 1, 403),
        (&member, 1, 8, 400),
        (&administrator, 8, 8, 201),
        (&administrator, 15, 8, 403),
    ];
    for (key, level, in_project, status) in table {
        let body = json!({
            "target_email": "bob@example.org", "level": level,
            "private_project_access": [{ "id": project, "level": in_project }],
        });
        let case = format!("{level} with {in_project}");
        let one = fixture.call_with(key, "POST", ALL, &body).await;
        assert_eq!(one.status, status, "{case}: {one:?}");
        let bulk = format!("{ALL}bulk/");
        let many = fixture.call_with(key, "POST", &bulk, &json!([body])).await;
        let expected = if status == 201 { 200 } else { status };
        assert_eq!(many.status, expected, "{case}: {many:?}");
    }
}

async fn only_callers_with_the_invites_level_resend_replace_and_withdraw_it() {
    let fixture = Fixture::new().await;
    let callers = [
        (1, fixture.member("mia@example.com", Member).await),
        (8, fixture.member("ada@example.com", Administrator).await),
        (15, fixture.member("olga@example.com", Owner).await),
    ];
    for (acting, key) in &callers {
        for level in [1, 8, 15] {
            for (action, done) in [
                ("resend", 200),
                ("replace", 201),
                ("bulk", 200),
                ("DELETE", 204),
            ] {
                let case = format!("{action} for {level} by {acting}");
                let body = json!({ "target_email": "boss@example.org", "level": level });
                let invite = invited(&fixture, &body).await;
                let one = path(&invite);
                let again = json!({ "target_email": "Boss@Example.org" });
                let (method, path, body) = match action {
                    "resend" => ("POST", format!("{one}resend/"), json!({})),
                    "replace" => ("POST", ALL.to_owned(), again),
                    "bulk" => ("POST", format!("{ALL}bulk/"), json!([again])),
                    _ => ("DELETE", one.clone(), json!({})),
                };
                let answer = fixture.call_with(key, method, &path, &body).await;
                if acting >= &level {
                    assert_eq!(answer.status, done, "{case}: {answer:?}");
                } else {
                    let refused = (403, "permission_denied", None);
                    assert_eq!(answer.error(), refused, "{case}");
                    let kept = fixture.get(ALL).await.body["results"].clone();
                    assert_eq!(kept, json!([invite]), "{case}");
                }
                fixture.execute("DELETE FROM organization_invites").await;
            }
        }
    }
}

async fn a_bulk_invite_is_made_completely_or_not_at_all() {
    let fixture = Fixture::new().await;
    let bulk = format!("{ALL}bulk/");
    let to = |email: &str| json!({ "target_email": email });
    let many = |count: usize| {
        (0..count)
            .map(|n| to(&format!("a{n}@b.example")))
            .collect::<Value>()
    };
    let table = [
        (
            json!([to("a@b.example"), to("nobody")]),
            "invalid_input",
            Some("1__target_email"),
        ),
        (
            json!([to("a@b.example"), {}]),
            "required",
            Some("1__target_email"),
        ),
        (
            json!([to("a@b.example"), to("c@b.example"), to("A@B.example")]),
            "duplicate",
            Some("2__target_email"),
        ),
        (
            json!([to("a@b.example"), to("owner@localhost")]),
            "invalid_input",
            Some("1__target_email"),
        ),
        (json!([to("a@b.example"), 5]), "invalid_input", Some("1")),
        (many(21), "max_length", None),
        (json!({}), "required", Some("target_email")),
        (json!("a@b.example"), "not_a_list", None),
        (json!(null), "null", None),
    ];
    for (body, code, attr) in table {
        let answer = fixture.call("POST", &bulk, &body).await;
        assert_eq!(answer.error(), (400, code, attr), "{body}: {answer:?}");
        assert_eq!(count(&fixture).await, 0, "{body}");
    }
    let all = fixture.call("POST", &bulk, &many(20)).await;
    assert_eq!(all.status, 200);
    assert_eq!(all.body, fixture.get(ALL).await.body["results"]);
    let one = fixture.call("POST", &bulk, &to("one@b.example")).await;
    assert_eq!(
        (one.status, &one.body["target_email"]),
        (200, &json!("one@b.example"))
    );
    let none = fixture.call("POST", &bulk, &json!([])).await;
    assert_eq!((none.status, none.body), (200, json!([])));
    assert_eq!(count(&fixture).await, 21);
}

async fn an_invite_is_replaced_resent_and_withdrawn() {
    let fixture = Fixture::new().await;
    let first = invited(&fixture, &json!({ "target_email": "bob@example.org" })).await;
    let second = invited(
        &fixture,
        &json!({ "target_email": "BOB@example.org", "level": 8 }),
    )
    .await;
    assert_ne!(first["id"], second["id"]);
    assert_eq!(count(&fixture).await, 1);
    fixture
        .execute("UPDATE organization_invites SET expires_at = 0")
        .await;
    assert_eq!(
        fixture.get(ALL).await.body["results"][0]["is_expired"],
        true
    );

    let resent = fixture
        .call("POST", &format!("{}resend/", path(&second)), &json!({}))
        .await;
    assert_eq!(resent.status, 200, "{resent:?}");
    let same = (
        &resent.body["id"],
        &resent.body["is_expired"],
        &resent.body["level"],
    );
    assert_eq!(same, (&second["id"], &json!(false), &json!(8)));
    for (method, status) in [
        ("GET", 405),
        ("PATCH", 405),
        ("DELETE", 204),
        ("DELETE", 404),
    ] {
        let answer = fixture.call(method, &path(&second), &json!({})).await;
        assert_eq!(answer.status, status, "{method}");
    }
    for id in [&first["id"], &second["id"], &json!("bob"), &json!("@me")] {
        let one = format!("{ALL}{}/", id.as_str().unwrap());
        for (method, path) in [("DELETE", one.clone()), ("POST", format!("{one}resend/"))] {
            let answer = fixture.call(method, &path, &json!({})).await;
            assert_eq!(answer.error(), (404, "not_found", None), "{method} {path}");
        }
    }
    assert_eq!(count(&fixture).await, 0);
}

async fn members_invite_and_keys_need_the_scope() {
    let fixture = Fixture::new().await;
    let invite = invited(&fixture, &json!({ "target_email": "bob@example.org" })).await;
    let member = fixture.member("mia@example.com", Member).await;
    let reader = fixture.key(&["organization_member:read"]).await;
    let other = fixture.key(&["organization:write"]).await;
    let (one, bulk) = (path(&invite), format!("{ALL}bulk/"));
    let resend = format!("{one}resend/");
    let calls = [
        ("GET", ALL, [200, 200, 403]),
        ("POST", ALL, [201, 403, 403]),
        ("POST", bulk.as_str(), [200, 403, 403]),
        ("POST", resend.as_str(), [404, 403, 403]),
        ("DELETE", one.as_str(), [404, 403, 403]),
    ];
    let body = json!({ "target_email": "bob@example.org" });
    for (method, path, statuses) in calls {
        for (key, status) in [&member, &reader, &other].into_iter().zip(statuses) {
            let answer = fixture.call_with(key, method, path, &body).await;
            assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        }
    }
}
