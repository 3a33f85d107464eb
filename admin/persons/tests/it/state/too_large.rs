//! Limit on the properties of one person or group: an update beyond it is left out and named.

use super::{kept, update};
use millrace_catalog::ProjectId;
use millrace_catalog::testing::TestDatabase;
use millrace_organizations::testing::fixture::Fixture;
use millrace_persons::{AppliedUpdates, ApplyOptions, PersonStore, PersonUpdate};
use millrace_rows::{PERSON_PROPERTIES_BYTES_MAX, UpdateKind};
use serde_json::{Map, Value, json};

millrace_catalog::on_both!(
    an_update_that_is_too_large_changes_nothing_and_its_largest_property_is_named,
    a_group_that_is_too_large_is_named_by_its_largest_property_or_name,
    persons_that_have_too_much_together_are_merged_and_their_largest_property_is_named,
);

/// Text of so many KiB.
fn text(kib: usize) -> String {
    "x".repeat(kib << 10)
}

fn sets(project_id: ProjectId, number: i64, id: &str, set: &Value) -> PersonUpdate {
    PersonUpdate {
        distinct_id: id.to_owned(),
        person_set: set.to_string(),
        ..update(project_id, number)
    }
}

async fn apply(fixture: &Fixture, updates: &[PersonUpdate]) -> AppliedUpdates {
    let from = PersonStore::new(&fixture.catalog).progress().await.unwrap();
    let applied = PersonStore::new(&fixture.catalog).apply(&from, updates, ApplyOptions::default());
    applied.await.unwrap().unwrap()
}

async fn an_update_that_is_too_large_changes_nothing_and_its_largest_property_is_named(
    database: TestDatabase,
) {
    let fixture = Fixture::open(&database).await;
    let project = fixture.project_id;
    let many: Map<String, Value> = (0..8_000)
        .map(|number| (format!("k{number}"), json!(1)))
        .collect();
    let long = "n".repeat(640 << 10);
    let table = [
        ("with what is there", json!({"b": text(400), "c": 1}), "b"),
        ("by itself", json!({"b": text(700), "c": 1}), "b"),
        // What a newer event has set would not be replaced.
        ("by itself, older", json!({"a": text(700), "c": 1}), "a"),
        ("of many properties", Value::Object(many), "k7999"),
        (
            "of a long name",
            json!({ (long.as_str()): 1 }),
            &long[..100],
        ),
    ];
    let there = json!({"a": text(300)});
    for ((case, set, property), number) in table.into_iter().zip(1_i64..) {
        let id = format!("d{number}");
        let mut first = sets(project, 10 * number, &id, &there);
        first.timestamp.0 += 1;
        let large = sets(project, 10 * number + 1, &id, &set);
        let applied = apply(&fixture, &[first, large.clone()]).await;
        assert_eq!(
            (applied.stats.applied, applied.stats.too_large),
            (2, 1),
            "{case}"
        );
        let left_out = applied.first_too_large.unwrap();
        assert_eq!(
            (
                left_out.project_id,
                left_out.uuid,
                left_out.property.as_str()
            ),
            (project, large.uuid, property),
            "{case}"
        );
        assert!(left_out.bytes > PERSON_PROPERTIES_BYTES_MAX, "{case}");
        let (ids, _) = kept(&fixture.catalog).await;
        assert_eq!(ids[&(project.0, id)].3, there, "{case}");
    }
}

async fn a_group_that_is_too_large_is_named_by_its_largest_property_or_name(
    database: TestDatabase,
) {
    let fixture = Fixture::open(&database).await;
    let describe = |number: i64, key: &str, set: &Value| PersonUpdate {
        group_type: "company".to_owned(),
        group_key: key.to_owned(),
        group_set: set.to_string(),
        ..update(fixture.project_id, number)
    };
    let long = "k".repeat(2_000);
    let table = [
        ("k", json!({"a": 1, "b": text(700)}), "b", (700 << 10) + 83),
        (long.as_str(), json!({"a": 1}), "$group_key", 2_000),
    ];
    for ((key, set, property, bytes), number) in table.into_iter().zip(1_i64..) {
        let applied = apply(&fixture, &[describe(number, key, &set)]).await;
        let left_out = applied.first_too_large.unwrap();
        assert_eq!(
            (left_out.property.as_str(), left_out.property_bytes),
            (property, bytes)
        );
    }
    // The group is there, without these properties.
    let (_, groups) = kept(&fixture.catalog).await;
    let properties: Vec<_> = groups.values().map(|(_, properties)| properties).collect();
    assert_eq!(properties, [&json!({})]);
}

async fn persons_that_have_too_much_together_are_merged_and_their_largest_property_is_named(
    database: TestDatabase,
) {
    let fixture = Fixture::open(&database).await;
    let project = fixture.project_id;
    let large = json!({"a": text(400)});
    let merge = PersonUpdate {
        kind: UpdateKind::Merge,
        distinct_id: "x".to_owned(),
        other_id: "y".to_owned(),
        ..update(project, 3)
    };
    let updates = [
        sets(project, 1, "x", &large),
        sets(project, 2, "y", &json!({"b": text(300)})),
        merge,
    ];
    let applied = apply(&fixture, &updates).await;
    assert_eq!((applied.stats.merged, applied.stats.too_large), (1, 1));
    let left_out = applied.first_too_large.unwrap();
    assert_eq!(
        (left_out.uuid, left_out.property.as_str()),
        (updates[2].uuid, "a")
    );
    let (ids, _) = kept(&fixture.catalog).await;
    for id in ["x", "y"] {
        assert_eq!(ids[&(project.0, id.to_owned())].3, large, "{id}");
    }
}
