//! Each row with the ids of another organization: nothing is found, nothing is changed.

use super::table::{Access, Row, Table};
use super::two_worlds;
use super::world::path_of;
use serde_json::json;

/// Ids that are secrets rather than names: who has one may use it.
const SECRETS: [&str; 1] = ["signup"];

/// The ids of a row, by the part of the path before each.
fn named(row: &Row) -> Vec<String> {
    let mut named = Vec::new();
    path_of(&row.path, |_, segment| {
        named.push(segment.to_owned());
        String::new()
    });
    named.retain(|segment| !SECRETS.contains(&segment.as_str()));
    named
}

#[tokio::test]
async fn what_is_of_another_organization_is_not_there() {
    let (fixture, mine, theirs) = two_worlds().await;
    let operator = fixture.key_of(&mine.people[0].1, &["*", "operator"]).await;
    let before = fixture.contents().await;
    let mut asked = 0;
    for row in Table::read().rows {
        let ids = named(&row).len();
        // Every way to mix one's own ids with those of others, but for all of one's own.
        for foreign in 1..(1_usize << ids) {
            let path = path_of(&row.path, |number, segment| {
                let is_foreign = foreign & (1 << number) != 0;
                let world = if is_foreign { &theirs } else { &mine };
                world.id(segment).to_owned()
            });
            let body = row
                .body
                .as_ref()
                .map_or_else(|| json!({}), |body| mine.body(body));
            let is_operators = row.access == Access::Operator;
            let key = if is_operators { &operator } else { &mine.key };
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
    let after = fixture.contents().await;
    let changed: Vec<_> = after.symmetric_difference(&before).collect();
    assert!(changed.is_empty(), "{changed:#?}");
}
