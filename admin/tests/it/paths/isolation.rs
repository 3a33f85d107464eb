//! Requests every operation with ids of another organization, and with malformed ids: nothing is
//! found, nothing is changed.

use super::sample::path_of;
use super::table::{Access, Row, Table};
use super::two_organizations;
use serde_json::json;

on_both!(
    ids_of_another_organization_are_not_found,
    malformed_ids_are_not_found,
    a_body_may_name_only_ids_of_its_own_organization,
);

/// Resources whose ids are secrets: their holders may use them from anywhere.
const SECRETS: [&str; 1] = ["signup"];
/// Malformed and unknown ids.
const NONSENSE: [&str; 8] = [
    "x",
    "0",
    "-1",
    "99999999999999999999",
    "00000000-0000-0000-0000-000000000000",
    "%00",
    "%ff",
    "@nobody",
];

/// Ids in the path of a row, by the segment before each.
fn named(row: &Row) -> Vec<String> {
    let mut named = Vec::new();
    path_of(&row.path, |_, segment| {
        named.push(segment.to_owned());
        String::new()
    });
    named.retain(|segment| !SECRETS.contains(&segment.as_str()));
    named
}

async fn ids_of_another_organization_are_not_found() {
    let (fixture, mine, theirs) = two_organizations().await;
    let operator = fixture.key_of(&mine.people[0].1, &["*", "operator"]).await;
    let before = fixture.contents().await;
    let mut asked = 0;
    for row in Table::read().rows {
        let ids = named(&row).len();
        // Every mix of the organization's own ids with foreign ones, except only its own.
        for foreign in 1..(1_usize << ids) {
            let path = path_of(&row.path, |number, segment| {
                let is_foreign = foreign & (1 << number) != 0;
                let data = if is_foreign { &theirs } else { &mine };
                data.id(segment).to_owned()
            });
            let body = row
                .body
                .as_ref()
                .map_or_else(|| json!({}), |body| mine.body(body));
            let is_operators = row.access == Access::Operator;
            // The operator reaches every organization, so only mixed ids are not found.
            if is_operators && foreign + 1 == 1 << ids {
                continue;
            }
            let key = if is_operators { &operator } else { &mine.key };
            let path = row.address(&path);
            let answer = fixture.call_with(key, &row.method, &path, &body).await;
            let expected = (404, "not_found", None);
            assert_eq!(
                answer.error(),
                expected,
                "{} {path}: {answer:?}",
                row.method
            );
            asked += 1;
        }
    }
    assert!(asked > 150, "{asked}");
    fixture.assert_unchanged(&before, "afterwards").await;
}

async fn malformed_ids_are_not_found() {
    let (fixture, mine, _) = two_organizations().await;
    let operator = fixture.key_of(&mine.people[0].1, &["*", "operator"]).await;
    let before = fixture.contents().await;
    for row in Table::read().rows {
        let ids = row.path.matches(':').count();
        let body = row.body.as_ref();
        let body = body.map_or_else(|| json!({}), |body| mine.body(body));
        for (wrong, id) in (0..ids).flat_map(|wrong| NONSENSE.map(|id| (wrong, id))) {
            let path = path_of(&row.path, |number, segment| {
                let right = mine.id(segment);
                if number == wrong { id } else { right }.to_owned()
            });
            let answer = fixture
                .call_with(&operator, &row.method, &path, &body)
                .await;
            let expected = (404, "not_found", None);
            assert_eq!(answer.error(), expected, "{} {path}", row.method);
        }
    }
    fixture.assert_unchanged(&before, "afterwards").await;
}

async fn a_body_may_name_only_ids_of_its_own_organization() {
    let (fixture, mine, theirs) = two_organizations().await;
    let project_id: i64 = theirs.id("projects").parse().unwrap();
    let access = json!([{ "id": project_id, "level": 1 }]);
    let asked = json!({
        "source": "Other", "method": "export", "total_events": 1, "events_per_minute": 1,
    });
    let key = json!({ "label": "Key", "scopes": ["role:read"] });
    let invite = json!({ "target_email": "new@example.org" });
    let destination = json!({ "type": "NoOp", "config": {} });
    let export = json!({ "name": "New", "interval": "hour", "destination": destination });
    let holders = "organizations/:id/roles/:id/role_memberships";
    let table = [
        (holders, json!({}), "user_uuid", json!(theirs.id("members"))),
        (holders, json!({}), "user_uuid", json!(uuid::Uuid::nil())),
        (
            "organizations/:id/invites",
            invite,
            "private_project_access",
            access,
        ),
        (
            "organizations/:id/batch_exports",
            export,
            "team_id",
            json!(project_id),
        ),
        (
            "organizations/:id/historical_migrations",
            asked,
            "team_id",
            json!(project_id),
        ),
        (
            "personal_api_keys",
            key,
            "scoped_organizations",
            json!([theirs.id("organizations")]),
        ),
    ];
    let before = fixture.contents().await;
    for (path, mut body, field, value) in table {
        let path = mine.path(&format!("/api/{path}/"));
        body[field] = value;
        let answer = fixture.call_with(&mine.key, "POST", &path, &body).await;
        let (status, code, _) = answer.error();
        assert_eq!(
            (status, code),
            (400, "invalid_input"),
            "{path} {body}: {answer:?}"
        );
    }
    fixture.assert_unchanged(&before, "afterwards").await;
}
