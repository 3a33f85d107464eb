//! Members: changes of levels, and removal.

use crate::Fixture;
use millrace_catalog::Actor;
use millrace_catalog::Level::{Administrator, Member, Owner};
use millrace_organizations::Organizations;
use serde_json::{Value, json};

on_both!(
    members_are_listed_in_the_order_in_which_they_joined,
    one_member_is_found_by_uuid_and_as_me,
    levels_change_only_from_above,
    levels_are_1_8_or_15_and_an_owner_can_make_another_owner,
    members_leave_or_are_removed_and_the_last_owner_stays,
    other_scopes_and_organizations_give_no_access,
);

const ALL: &str = "/api/organizations/@current/members/";

/// A fixture with one member of each level beside the first owner.
struct MemberFixture {
    fixture: Fixture,
    owner: String,
    co_owner: String,
    administrator: String,
    member: String,
}

impl MemberFixture {
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        Self {
            owner: fixture.owner_key().to_owned(),
            co_owner: fixture.member("cy@example.com", Owner).await,
            administrator: fixture.member("ada@example.com", Administrator).await,
            member: fixture.member("mia@example.com", Member).await,
            fixture,
        }
    }

    fn key(&self, name: &str) -> &str {
        match name {
            "owner" => &self.owner,
            "cy" => &self.co_owner,
            "ada" => &self.administrator,
            "mia" => &self.member,
            other => panic!("nobody is called {other}"),
        }
    }

    /// The path of a member.
    async fn path(&self, name: &str) -> String {
        let mine = format!("{ALL}@me/");
        let me = self.fixture.send("GET", &mine, Some(self.key(name))).await;
        format!("{ALL}{}/", me.body["user"]["uuid"].as_str().unwrap())
    }

    async fn level(&self, path: &str) -> Value {
        self.fixture.get(path).await.body["level"].clone()
    }
}

async fn members_are_listed_in_the_order_in_which_they_joined() {
    let members = MemberFixture::new().await;
    let list = members.fixture.get(ALL).await;
    assert_eq!((list.status, &list.body["count"]), (200, &json!(4)));
    let owner = list.body["results"].as_array().unwrap().iter();
    let owner = owner
        .clone()
        .find(|row| row["user"]["email"] == "owner@localhost")
        .unwrap();
    let expected = json!({
        "id": owner["id"], "level": 15, "joined_at": owner["joined_at"],
        "updated_at": owner["updated_at"], "is_2fa_enabled": false, "has_social_auth": false,
        "user": {
            "id": owner["user"]["id"], "uuid": owner["user"]["uuid"],
            "distinct_id": owner["user"]["distinct_id"],
            "first_name": owner["user"]["first_name"], "last_name": "",
            "email": "owner@localhost", "is_email_verified": false,
            "hedgehog_config": null,
        },
    });
    assert_eq!(owner, &expected);
    for (email, count) in [("MIA@example.com", 1), ("nobody@example.com", 0), ("", 4)] {
        let found = members.fixture.get(&format!("{ALL}?email={email}")).await;
        assert_eq!(found.body["count"], count, "{email}");
    }
    let page = members
        .fixture
        .get(&format!("{ALL}?limit=1&offset=3"))
        .await;
    assert_eq!(page.body["results"].as_array().unwrap().len(), 1);
    assert_eq!(page.body["next"], Value::Null);
}

async fn one_member_is_found_by_uuid_and_as_me() {
    let members = MemberFixture::new().await;
    let path = members.path("mia").await;
    let seen = members.fixture.get(&path).await;
    assert_eq!((seen.status, &seen.body["level"]), (200, &json!(1)));
    let me = members
        .fixture
        .send("GET", &format!("{ALL}@me"), Some(&members.member))
        .await;
    assert_eq!(me.body, seen.body);
    let unknown = uuid::Uuid::now_v7();
    for id in [unknown.to_string(), "mia".to_owned(), "@you".to_owned()] {
        for method in ["GET", "PATCH", "PUT", "DELETE"] {
            let body = json!({ "level": 1 });
            let answer = members
                .fixture
                .call(method, &format!("{ALL}{id}/"), &body)
                .await;
            assert_eq!(answer.error(), (404, "not_found", None), "{method} {id}");
        }
    }
}

async fn levels_change_only_from_above() {
    // Caller, member, new level, and the expected result.
    let table = [
        ("mia", "ada", 1, (403, "permission_denied")),
        ("mia", "mia", 8, (403, "permission_denied")),
        ("ada", "mia", 8, (200, "")),
        ("ada", "mia", 15, (403, "permission_denied")),
        ("ada", "ada", 1, (403, "permission_denied")),
        ("ada", "ada", 8, (403, "permission_denied")),
        ("ada", "owner", 1, (403, "permission_denied")),
        ("owner", "ada", 1, (200, "")),
        ("owner", "mia", 15, (200, "")),
        ("owner", "owner", 8, (403, "permission_denied")),
        ("cy", "owner", 1, (200, "")),
    ];
    for (who, whom, level, (status, code)) in table {
        let members = MemberFixture::new().await;
        let path = members.path(whom).await;
        let before = members.level(&path).await;
        for method in ["PATCH", "PUT"] {
            let body = json!({ "level": level });
            let answer = members
                .fixture
                .call_with(members.key(who), method, &path, &body)
                .await;
            let case = format!("{method}: {who} sets {whom} to {level}: {answer:?}");
            assert_eq!(answer.status, status, "{case}");
            assert_eq!(
                answer.body["code"].as_str().unwrap_or_default(),
                code,
                "{case}"
            );
            let after = if status == 200 {
                json!(level)
            } else {
                before.clone()
            };
            assert_eq!(members.level(&path).await, after, "{case}");
        }
    }
}

async fn levels_are_1_8_or_15_and_an_owner_can_make_another_owner() {
    let members = MemberFixture::new().await;
    let path = members.path("mia").await;
    let table = [
        (
            "PATCH",
            json!({ "level": 2 }),
            (400, "invalid_choice", Some("level")),
        ),
        (
            "PATCH",
            json!({ "level": "8" }),
            (400, "invalid_choice", Some("level")),
        ),
        (
            "PATCH",
            json!({ "level": 8.5 }),
            (400, "invalid_choice", Some("level")),
        ),
        (
            "PATCH",
            json!({ "level": null }),
            (400, "null", Some("level")),
        ),
        ("PUT", json!({}), (400, "required", Some("level"))),
    ];
    for (method, body, expected) in table {
        let answer = members.fixture.call(method, &path, &body).await;
        assert_eq!(answer.error(), expected, "{method} {body}");
    }
    let read_only = json!({ "id": 1, "user": {}, "joined_at": "never", "unknown": true });
    let unchanged = members.fixture.call("PATCH", &path, &read_only).await;
    assert_eq!(
        (unchanged.status, &unchanged.body["level"]),
        (200, &json!(1))
    );
    let promoted = members
        .fixture
        .call("PATCH", &path, &json!({ "level": 15 }))
        .await;
    assert_eq!(promoted.body["level"], 15);
    assert_eq!(members.level(&members.path("owner").await).await, 15);
}

async fn members_leave_or_are_removed_and_the_last_owner_stays() {
    let table = [
        ("mia", "mia", (204, "")),
        ("mia", "ada", (403, "permission_denied")),
        ("ada", "mia", (204, "")),
        ("ada", "ada", (204, "")),
        ("ada", "cy", (403, "permission_denied")),
        ("owner", "ada", (204, "")),
        ("owner", "cy", (204, "")),
        ("owner", "owner", (204, "")),
    ];
    for (who, whom, (status, code)) in table {
        let members = MemberFixture::new().await;
        let path = members.path(whom).await;
        let answer = members
            .fixture
            .send("DELETE", &path, Some(members.key(who)))
            .await;
        let case = format!("{who} removes {whom}: {answer:?}");
        assert_eq!(answer.status, status, "{case}");
        assert_eq!(
            answer.body["code"].as_str().unwrap_or_default(),
            code,
            "{case}"
        );
        let left = members
            .fixture
            .send("GET", &path, Some(members.key(whom)))
            .await
            .status;
        assert_eq!(left, if status == 204 { 404 } else { 200 }, "{case}");
    }
    let alone = Fixture::new().await;
    let answer = alone
        .send("DELETE", &format!("{ALL}@me/"), Some(alone.owner_key()))
        .await;
    assert_eq!(answer.error(), (400, "invalid_input", None));
}

async fn other_scopes_and_organizations_give_no_access() {
    let members = MemberFixture::new().await;
    let path = members.path("mia").await;
    let reader = members.fixture.key(&["organization_member:read"]).await;
    let other = members.fixture.key(&["organization:write"]).await;
    let level = json!({ "level": 8 });
    for (key, method, status) in [
        (&reader, "GET", 200),
        (&reader, "PATCH", 403),
        (&reader, "DELETE", 403),
        (&other, "GET", 403),
        (&other, "PATCH", 403),
    ] {
        let answer = members.fixture.call_with(key, method, &path, &level).await;
        assert_eq!(answer.status, status, "{method}");
    }
    let system = Actor::system();
    let foreign = Organizations::new(&members.fixture.catalog).create(&system, "Theirs", None);
    let foreign = path.replace("@current", &foreign.await.unwrap().id.to_string());
    for method in ["GET", "PATCH", "DELETE"] {
        let answer = members.fixture.call(method, &foreign, &level).await;
        assert_eq!(answer.error(), (404, "not_found", None), "{method}");
    }
    let gone = members
        .fixture
        .send("DELETE", &path, Some(&members.member))
        .await;
    assert_eq!(gone.status, 204);
    let after = members
        .fixture
        .send("GET", ALL, Some(&members.member))
        .await;
    assert_eq!(
        after.error(),
        (404, "not_found", None),
        "the key lost access"
    );
}
