//! Roles and their members.

use crate::Fixture;
use millrace_catalog::Actor;
use millrace_catalog::Level::{Administrator, Member};
use millrace_organizations::{NewRole, NewUser, Roles, Users};
use serde_json::{Value, json};

on_both!(
    a_role_is_made_read_changed_and_deleted,
    invalid_fields_of_a_role_are_named,
    roles_are_listed_in_order_and_filtered,
    members_are_given_a_role_once_and_lose_it,
    leaving_the_organization_removes_the_members_roles,
    members_read_and_administrators_write_by_either_scope,
    roles_of_other_organizations_are_not_found,
);

const ALL: &str = "/api/organizations/@current/roles/";

async fn created(fixture: &Fixture, name: &str) -> Value {
    let answer = fixture.call("POST", ALL, &json!({ "name": name })).await;
    assert_eq!(answer.status, 201, "{name}: {answer:?}");
    answer.body
}

fn path(role: &Value) -> String {
    format!("{ALL}{}/", role["id"].as_str().unwrap())
}

fn holders(role: &Value) -> String {
    format!("{}role_memberships/", path(role))
}

/// UUID of the user of a key.
async fn uuid_of(fixture: &Fixture, key: &str) -> Value {
    let me = "/api/organizations/@current/members/@me/";
    let me = fixture.send("GET", me, Some(key)).await;
    me.body["user"]["uuid"].clone()
}

async fn a_role_is_made_read_changed_and_deleted() {
    let fixture = Fixture::new().await;
    let body = json!({
        "name": " Support ", "feature_flags_access_level": 21, "id": "mine", "members": [1],
    });
    let made = fixture.call("POST", ALL, &body).await;
    assert_eq!(made.status, 201, "{made:?}");
    let expected = json!({
        "id": made.body["id"], "name": "Support", "feature_flags_access_level": 21,
        "created_at": made.body["created_at"], "created_by": made.body["created_by"],
        "members": [],
    });
    assert_eq!(made.body, expected);
    assert_eq!(made.body["created_by"]["email"], "owner@localhost");
    let path = path(&made.body);
    assert_eq!(fixture.get(&path).await.body, expected);
    let change = json!({ "name": "SUPPORT", "feature_flags_access_level": 37 });
    let changed = fixture.call("PATCH", &path, &change).await;
    assert_eq!(
        (changed.status, &changed.body["name"]),
        (200, &json!("SUPPORT"))
    );
    assert_eq!(changed.body["feature_flags_access_level"], 37);
    let same = fixture
        .call("PUT", &path, &json!({ "name": "SUPPORT" }))
        .await;
    assert_eq!((same.status, same.body), (200, changed.body));
    assert_eq!(fixture.call("DELETE", &path, &json!({})).await.status, 204);
    assert_eq!(fixture.get(&path).await.error(), (404, "not_found", None));
}

async fn invalid_fields_of_a_role_are_named() {
    let fixture = Fixture::new().await;
    created(&fixture, "Support").await;
    let other = path(&created(&fixture, "Sales").await);
    let table = [
        (json!({ "name": null }), "null", "name"),
        (json!({ "name": " " }), "blank", "name"),
        (json!({ "name": "n".repeat(201) }), "max_length", "name"),
        (json!({ "name": "sUPPORT" }), "unique", "name"),
        (
            json!({ "name": "New", "feature_flags_access_level": 1 }),
            "invalid_choice",
            "feature_flags_access_level",
        ),
    ];
    for (body, code, attr) in table {
        for (method, path) in [("POST", ALL), ("PATCH", &*other), ("PUT", &*other)] {
            let answer = fixture.call(method, path, &body).await;
            assert_eq!(answer.error(), (400, code, Some(attr)), "{method} {body}");
        }
    }
    for (method, path) in [("POST", ALL), ("PUT", &*other)] {
        let answer = fixture.call(method, path, &json!({})).await;
        assert_eq!(answer.error(), (400, "required", Some("name")), "{method}");
    }
}

async fn roles_are_listed_in_order_and_filtered() {
    let fixture = Fixture::new().await;
    let first = created(&fixture, "B").await;
    let body = json!({ "name": "A", "feature_flags_access_level": 21 });
    let second = fixture.call("POST", ALL, &body).await.body;
    let id = first["id"].as_str().unwrap();
    let table = [
        (String::new(), vec![&first, &second]),
        ("?limit=1&offset=1".to_owned(), vec![&second]),
        (format!("?id={id}"), vec![&first]),
        ("?id=b".to_owned(), vec![]),
        ("?name=A".to_owned(), vec![&second]),
        ("?name=a".to_owned(), vec![]),
        ("?feature_flags_access_level=21".to_owned(), vec![&second]),
        ("?feature_flags_access_level=x".to_owned(), vec![]),
        (format!("?id={id}&name=A"), vec![]),
    ];
    for (query, expected) in table {
        let list = fixture.get(&format!("{ALL}{query}")).await;
        assert_eq!(list.body["results"], json!(expected), "{query}");
    }
}

async fn members_are_given_a_role_once_and_lose_it() {
    let fixture = Fixture::new().await;
    let mia = fixture.member("mia@example.com", Member).await;
    let uuid = uuid_of(&fixture, &mia).await;
    let role = created(&fixture, "Support").await;
    let all = holders(&role);
    let given = fixture
        .call("POST", &all, &json!({ "user_uuid": uuid }))
        .await;
    assert_eq!(given.status, 201, "{given:?}");
    let member = fixture.send(
        "GET",
        "/api/organizations/@current/members/@me/",
        Some(&mia),
    );
    let member = member.await.body;
    let expected = json!({
        "id": given.body["id"], "role_id": role["id"], "user": member["user"],
        "organization_member": member, "joined_at": given.body["joined_at"],
        "updated_at": given.body["joined_at"],
    });
    assert_eq!(given.body, expected);
    let one = format!("{all}{}/", given.body["id"].as_str().unwrap());
    assert_eq!(fixture.get(&one).await.body, expected);
    assert_eq!(fixture.get(&all).await.body["results"], json!([expected]));
    assert_eq!(
        fixture.get(&path(&role)).await.body["members"],
        json!([expected])
    );

    let new = NewUser {
        email: "stranger@example.net".to_owned(),
        ..NewUser::default()
    };
    let stranger = Users::new(&fixture.catalog).create(new).await.unwrap().uuid;
    let unknown = json!(uuid::Uuid::now_v7());
    for (body, code, attr) in [
        (json!({ "user_uuid": uuid }), "invalid_input", None),
        (json!({ "user_uuid": unknown }), "invalid_input", None),
        (json!({ "user_uuid": stranger }), "invalid_input", None),
        (
            json!({ "user_uuid": "mia" }),
            "invalid_input",
            Some("user_uuid"),
        ),
        (json!({ "user_uuid": null }), "null", Some("user_uuid")),
        (json!({}), "required", Some("user_uuid")),
    ] {
        let answer = fixture.call("POST", &all, &body).await;
        assert_eq!(answer.error(), (400, code, attr), "{body}: {answer:?}");
    }
    assert_eq!(fixture.call("PATCH", &one, &json!({})).await.status, 405);
    assert_eq!(fixture.call("DELETE", &one, &json!({})).await.status, 204);
    for method in ["GET", "DELETE"] {
        let gone = fixture.call(method, &one, &json!({})).await;
        assert_eq!(gone.error(), (404, "not_found", None), "{method}");
    }
    assert_eq!(fixture.get(&all).await.body["count"], 0);
}

async fn leaving_the_organization_removes_the_members_roles() {
    let fixture = Fixture::new().await;
    let mia = fixture.member("mia@example.com", Member).await;
    let uuid = uuid_of(&fixture, &mia).await;
    let role = created(&fixture, "Support").await;
    let given = json!({ "user_uuid": uuid });
    fixture.call("POST", &holders(&role), &given).await;
    let leave = "/api/organizations/@current/members/@me/";
    let left = fixture.send("DELETE", leave, Some(&mia)).await;
    assert_eq!(left.status, 204);
    assert_eq!(fixture.get(&path(&role)).await.body["members"], json!([]));
}

async fn members_read_and_administrators_write_by_either_scope() {
    let fixture = Fixture::new().await;
    let member = fixture.member("mia@example.com", Member).await;
    let administrator = fixture.member("ada@example.com", Administrator).await;
    let role = fixture.key(&["role:write"]).await;
    let organization = fixture.key(&["organization:write"]).await;
    let reader = fixture.key(&["role:read"]).await;
    let other = fixture.key(&["organization_member:write"]).await;
    let (mia, ada) = (
        uuid_of(&fixture, &member).await,
        uuid_of(&fixture, &administrator).await,
    );
    for (number, (key, reads, writes)) in [
        (&member, true, false),
        (&reader, true, false),
        (&other, false, false),
        (&administrator, true, true),
        (&role, true, true),
        (&organization, true, true),
    ]
    .into_iter()
    .enumerate()
    {
        let made = created(&fixture, &format!("Role {number}")).await;
        let (one, all) = (path(&made), holders(&made));
        let given = json!({ "user_uuid": mia });
        let holder = fixture.call("POST", &all, &given).await.body;
        let holder = format!("{all}{}/", holder["id"].as_str().unwrap());
        let body = json!({ "name": format!("Other {number}"), "user_uuid": ada });
        for (method, path, may, status) in [
            ("GET", ALL, reads, 200),
            ("GET", &*one, reads, 200),
            ("GET", &*all, reads, 200),
            ("GET", &*holder, reads, 200),
            ("PATCH", &*one, writes, 200),
            ("POST", &*all, writes, 201),
            ("DELETE", &*holder, writes, 204),
            ("DELETE", &*one, writes, 204),
            ("POST", ALL, writes, 201),
        ] {
            let answer = fixture.call_with(key, method, path, &body).await;
            let expected = if may { status } else { 403 };
            assert_eq!(answer.status, expected, "{number}: {method} {path}");
        }
    }
}

async fn roles_of_other_organizations_are_not_found() {
    let fixture = Fixture::new().await;
    let theirs = fixture.foreign_organization().await;
    let system = Actor::system();
    let role = Roles::new(&fixture.catalog).create(&system, theirs, NewRole::named("Theirs"));
    let theirs = format!("{ALL}{}/", role.await.unwrap().role.id);
    let mine = created(&fixture, "Mine").await;
    let me = uuid_of(&fixture, fixture.owner_key()).await;
    let body = json!({ "name": "New", "user_uuid": me });
    let holder = fixture.call("POST", &holders(&mine), &body).await.body;
    let holder = holder["id"].as_str().unwrap();
    let under_theirs = format!("{theirs}role_memberships/");
    let other = created(&fixture, "Other").await;
    for (method, path) in [
        ("GET", theirs.clone()),
        ("PATCH", theirs.clone()),
        ("DELETE", theirs.clone()),
        ("GET", under_theirs.clone()),
        ("POST", under_theirs.clone()),
        ("GET", format!("{under_theirs}{holder}/")),
        ("DELETE", format!("{under_theirs}{holder}/")),
        ("GET", format!("{}{holder}/", holders(&other))),
        ("DELETE", format!("{}{holder}/", holders(&other))),
        ("GET", format!("{ALL}support/")),
        ("GET", format!("{}support/", holders(&mine))),
    ] {
        let answer = fixture.call(method, &path, &body).await;
        assert_eq!(answer.error(), (404, "not_found", None), "{method} {path}");
    }
    let kept = fixture.get(&holders(&mine)).await;
    assert_eq!(kept.body["count"], 1);
}
