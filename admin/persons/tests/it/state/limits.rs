//! Limit on the distinct ids and groups of a project that become known within an hour.

use super::{kept, update};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Catalog, ProjectId};
use millrace_organizations::testing::fixture::{Fixture, NOW};
use millrace_persons::{
    AppliedUpdates, ApplyOptions, GrowthKind, GrowthLimits, LimitedProject, PersonStore,
    PersonUpdate,
};
use millrace_rows::{Micros, UpdateKind, person_id};
use serde_json::{Value, json};
use std::collections::BTreeMap;

millrace_catalog::on_both!(
    the_limit_of_new_ids_is_exact_and_renews_with_the_next_hour,
    beyond_the_limit_updates_still_apply_to_known_ids,
    groups_count_as_new_ids,
    properties_grow_by_a_bounded_number_of_bytes_within_an_hour,
);

const HOUR: i64 = 3_600_000_000;

/// Event of an id that arrives in an hour, counted from the present one.
pub fn update_in_hour(project_id: ProjectId, number: i64, hour: i64, id: &str) -> PersonUpdate {
    let mut update = update(project_id, number);
    let start = NOW.0 - NOW.0.rem_euclid(HOUR) + hour * HOUR;
    update.position.created_at = Micros(start + number);
    update.distinct_id = id.to_owned();
    update.person_set = r#"{"a":1}"#.to_owned();
    update
}

fn with_other(mut update: PersonUpdate, kind: UpdateKind, other: &str) -> PersonUpdate {
    update.kind = kind;
    update.other_id = other.to_owned();
    update
}

pub async fn apply(catalog: &Catalog, updates: &[PersonUpdate], max: u64) -> AppliedUpdates {
    let growth = GrowthLimits {
        ids_per_hour_max: Some(max),
        ..GrowthLimits::default()
    };
    apply_within(catalog, updates, growth).await
}

async fn apply_within(
    catalog: &Catalog,
    updates: &[PersonUpdate],
    growth: GrowthLimits,
) -> AppliedUpdates {
    let from = PersonStore::new(catalog).progress().await.unwrap();
    let options = ApplyOptions {
        growth,
        ..ApplyOptions::default()
    };
    let applied = PersonStore::new(catalog)
        .apply(&from, updates, options)
        .await;
    applied.unwrap().unwrap()
}

async fn the_limit_of_new_ids_is_exact_and_renews_with_the_next_hour(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (project, other) = (fixture.project_id, fixture.foreign_project_id);
    let catalog = &fixture.catalog;
    // Three ids may become known: an `$identify` makes two.
    let first = [
        update_in_hour(project, 1, 0, "a"),
        with_other(
            update_in_hour(project, 2, 0, "u"),
            UpdateKind::Identify,
            "d",
        ),
        update_in_hour(project, 3, 0, "a"),
        update_in_hour(project, 4, 0, "b"),
        with_other(update_in_hour(project, 5, 0, "a"), UpdateKind::Alias, "c"),
        update_in_hour(other, 6, 0, "a"),
    ];
    let applied = apply(catalog, &first, 3).await;
    let stats = applied.stats;
    assert_eq!((stats.applied, stats.new_ids, stats.over_limit), (6, 4, 2));
    let start = NOW.0 - NOW.0.rem_euclid(HOUR);
    let limited = |hour: i64| LimitedProject {
        project_id: project,
        hour: Micros(start + hour * HOUR).into(),
        growth: GrowthKind::Ids,
    };
    assert_eq!(applied.limited, [limited(0)]);
    // Another step of that hour does not report the limit again, and known ids are known.
    let applied = apply(
        catalog,
        &[
            update_in_hour(project, 7, 0, "c"),
            update_in_hour(project, 8, 0, "d"),
        ],
        3,
    )
    .await;
    assert_eq!((applied.stats.new_ids, applied.stats.over_limit), (0, 1));
    assert_eq!(applied.limited, []);
    // The hour is that of the arrival: both are in one step.
    let next = ["b", "c", "e", "f", "g"].map(|id| update_in_hour(project, 9, 1, id));
    let applied = apply(catalog, &next, 3).await;
    assert_eq!((applied.stats.new_ids, applied.stats.over_limit), (3, 2));
    assert_eq!(applied.limited, [limited(1)]);
    let (ids, _) = kept(catalog).await;
    let ids: Vec<&str> = ids.keys().map(|(_, id)| id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c", "d", "e", "u", "a"]);
}

fn setting(update: PersonUpdate, set: &str) -> PersonUpdate {
    PersonUpdate {
        person_set: set.to_owned(),
        ..update
    }
}

async fn properties_grow_by_a_bounded_number_of_bytes_within_an_hour(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (project, catalog) = (fixture.project_id, &fixture.catalog);
    // A value of 502 bytes, a key of one, and 80 beside them.
    let text = |letter: &str| format!(r#"{{"a":"{}"}}"#, letter.repeat(500));
    let sets = |number: i64, hour: i64, id: &str, letter: &str| {
        let mut update = setting(update_in_hour(project, number, hour, id), &text(letter));
        update.timestamp = Micros(NOW.0 + number);
        update
    };
    let growth = GrowthLimits {
        bytes_per_hour_max: Some(1_000),
        ..GrowthLimits::default()
    };
    let first = [
        sets(1, 0, "u", "x"),
        sets(2, 0, "v", "x"),
        // Another value of the same length takes no more bytes.
        sets(3, 0, "u", "y"),
        sets(4, 0, "w", "x"),
    ];
    let applied = apply_within(catalog, &first, growth).await;
    assert_eq!(
        (applied.stats.applied, applied.stats.over_byte_limit),
        (4, 2)
    );
    let start = NOW.0 - NOW.0.rem_euclid(HOUR);
    let limited = |hour: i64| LimitedProject {
        project_id: project,
        hour: Micros(start + hour * HOUR).into(),
        growth: GrowthKind::Bytes,
    };
    assert_eq!(applied.limited, [limited(0)]);
    let later = [
        sets(5, 0, "v", "x"),
        sets(6, 1, "w", "z"),
        sets(7, 1, "v", "z"),
    ];
    let applied = apply_within(catalog, &later, growth).await;
    assert_eq!(applied.stats.over_byte_limit, 2);
    assert_eq!(applied.limited, [limited(1)]);
    let (ids, _) = kept(catalog).await;
    for (id, letter) in [("u", Some("y")), ("v", None), ("w", Some("z"))] {
        let expected: Value = letter.map_or(json!({}), |letter| json!({"a": letter.repeat(500)}));
        assert_eq!(ids[&(project.0, id.to_owned())].3, expected, "{id}");
    }
}

async fn beyond_the_limit_updates_still_apply_to_known_ids(database: TestDatabase) {
    use UpdateKind::{Alias, Identify, Merge};
    let fixture = Fixture::open(&database).await;
    let (project, catalog) = (fixture.project_id, &fixture.catalog);
    let first = [
        update_in_hour(project, 1, 0, "u"),
        update_in_hour(project, 2, 0, "v"),
        with_other(update_in_hour(project, 3, 0, "w"), Identify, "d"),
    ];
    let stats = apply(catalog, &first, 4).await.stats;
    assert_eq!((stats.new_ids, stats.over_limit), (4, 0));
    let beyond = [
        (4, "u", Identify, "new1", r#"{"b":2}"#),
        (5, "v", Alias, "new2", r#"{"b":2}"#),
        (6, "new3", Merge, "v", r#"{"c":3}"#),
        (7, "d", Alias, "new4", r#"{"d":4}"#),
        // An update that names only unknown users is dropped as a whole.
        (8, "new5", Identify, "u", r#"{"e":5}"#),
        (9, "new6", Merge, "new7", r#"{"e":5}"#),
    ];
    let beyond = beyond.map(|(number, id, kind, other, set)| {
        setting(
            with_other(update_in_hour(project, number, 0, id), kind, other),
            set,
        )
    });
    let of = |id: &str, set: Value| (person_id(project, id), true, NOW.0, set);
    let w = of("w", json!({"a": 1, "d": 4}));
    let expected = [
        ("d", w.clone()),
        ("u", of("u", json!({"a": 1, "b": 2}))),
        ("v", of("v", json!({"a": 1, "b": 2, "c": 3}))),
        ("w", w),
    ];
    let expected = BTreeMap::from(expected.map(|(id, seen)| ((project.0, id.to_owned()), seen)));
    // Updates that come again change nothing.
    for _ in 0..2 {
        let stats = apply(catalog, &beyond, 4).await.stats;
        assert_eq!((stats.applied, stats.new_ids, stats.over_limit), (6, 0, 6));
        assert_eq!(kept(catalog).await.0, expected);
    }
    // A named person is nobody's device, and a merged id moves no more.
    let mut earlier = with_other(update_in_hour(project, 11, 1, "x"), Identify, "d");
    earlier.timestamp = Micros(NOW.0 - 1);
    let taking = [
        with_other(update_in_hour(project, 10, 1, "x"), Identify, "u"),
        earlier,
    ];
    let applied = apply(catalog, &taking, 4).await;
    assert_eq!((applied.stats.new_ids, applied.stats.refused), (1, 2));
    let first = applied.first_refused.unwrap();
    assert_eq!((first.project_id, first.uuid), (project, taking[0].uuid));
    let (ids, _) = kept(catalog).await;
    let person = |id: &str| ids[&(project.0, id.to_owned())].0;
    for (id, holder) in [("u", "u"), ("d", "w"), ("x", "x")] {
        assert_eq!(person(id), person_id(project, holder), "{id}");
    }
}

async fn groups_count_as_new_ids(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let describe = |number: i64, kind: &str, key: &str| {
        let mut update = update_in_hour(fixture.project_id, number, 0, "");
        update.group_type = kind.to_owned();
        update.group_key = key.to_owned();
        update
    };
    let updates = [
        describe(1, "company", "a"),
        describe(2, "company", "b"),
        describe(3, "company", "a"),
        describe(4, "company", "c"),
        describe(5, "team", "a"),
    ];
    let stats = apply(&fixture.catalog, &updates, 2).await.stats;
    assert_eq!((stats.new_ids, stats.over_limit), (2, 2));
    assert_eq!(kept(&fixture.catalog).await.1.len(), 2);
}
