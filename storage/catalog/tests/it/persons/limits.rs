//! How many distinct ids and groups of a project may become known by what arrives within an hour.

use super::{kept, update};
use crate::fixture::{Fixture, NOW};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    AppliedUpdates, ApplyOptions, Catalog, LimitedProject, PersonUpdate, TeamId,
};
use millrace_rows::{Micros, UpdateKind, person_id};
use serde_json::{Value, json};
use std::collections::BTreeMap;

on_both!(
    the_limit_of_new_ids_is_kept_exactly_and_opens_with_the_next_hour,
    beyond_the_limit_known_ids_are_named_and_have_their_properties,
    groups_count_as_new_ids,
);

const HOUR: i64 = 3_600_000_000;

/// An event of an id that arrives in an hour, counted from that of now.
pub fn told(team_id: TeamId, number: i64, hour: i64, id: &str) -> PersonUpdate {
    let mut update = update(team_id, number);
    let start = NOW.0 - NOW.0.rem_euclid(HOUR) + hour * HOUR;
    update.place.created_at = Micros(start + number);
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
    let from = catalog.person_progress().await.unwrap();
    let options = ApplyOptions {
        new_ids_per_hour_max: Some(max),
        ..ApplyOptions::default()
    };
    let applied = catalog.apply_person_updates(&from, updates, options).await;
    applied.unwrap().unwrap()
}

async fn the_limit_of_new_ids_is_kept_exactly_and_opens_with_the_next_hour(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (team, other) = (fixture.team_id, fixture.foreign_team_id);
    let catalog = &fixture.catalog;
    // Three ids may become known: an `$identify` makes two.
    let first = [
        told(team, 1, 0, "a"),
        with_other(told(team, 2, 0, "u"), UpdateKind::Identify, "d"),
        told(team, 3, 0, "a"),
        told(team, 4, 0, "b"),
        with_other(told(team, 5, 0, "a"), UpdateKind::Alias, "c"),
        told(other, 6, 0, "a"),
    ];
    let applied = apply(catalog, &first, 3).await;
    let tally = applied.tally;
    assert_eq!((tally.applied, tally.new_ids, tally.over_limit), (6, 4, 2));
    let start = NOW.0 - NOW.0.rem_euclid(HOUR);
    let limited = |hour: i64| LimitedProject {
        team_id: team,
        hour: Micros(start + hour * HOUR).into(),
    };
    assert_eq!(applied.limited, [limited(0)]);
    // In another step of that hour it is not told again, and known ids are known.
    let applied = apply(catalog, &[told(team, 7, 0, "c"), told(team, 8, 0, "d")], 3).await;
    assert_eq!((applied.tally.new_ids, applied.tally.over_limit), (0, 1));
    assert_eq!(applied.limited, []);
    // The hour is that of the arrival: both are in one step.
    let next = ["b", "c", "e", "f", "g"].map(|id| told(team, 9, 1, id));
    let applied = apply(catalog, &next, 3).await;
    assert_eq!((applied.tally.new_ids, applied.tally.over_limit), (3, 2));
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

async fn beyond_the_limit_known_ids_are_named_and_have_their_properties(database: TestDatabase) {
    use UpdateKind::{Alias, Identify, Merge};
    let fixture = Fixture::open(&database).await;
    let (team, catalog) = (fixture.team_id, &fixture.catalog);
    let first = [
        told(team, 1, 0, "u"),
        told(team, 2, 0, "v"),
        with_other(told(team, 3, 0, "w"), Identify, "d"),
    ];
    let tally = apply(catalog, &first, 4).await.tally;
    assert_eq!((tally.new_ids, tally.over_limit), (4, 0));
    let beyond = [
        (4, "u", Identify, "new1", r#"{"b":2}"#),
        (5, "v", Alias, "new2", r#"{"b":2}"#),
        (6, "new3", Merge, "v", r#"{"c":3}"#),
        (7, "d", Alias, "new4", r#"{"d":4}"#),
        // Nothing is left of an unknown user, or of two.
        (8, "new5", Identify, "u", r#"{"e":5}"#),
        (9, "new6", Merge, "new7", r#"{"e":5}"#),
    ];
    let beyond = beyond.map(|(number, id, kind, other, set)| {
        setting(with_other(told(team, number, 0, id), kind, other), set)
    });
    let of = |id: &str, set: Value| (person_id(team, id), true, NOW.0, set);
    let w = of("w", json!({"a": 1, "d": 4}));
    let expected = [
        ("d", w.clone()),
        ("u", of("u", json!({"a": 1, "b": 2}))),
        ("v", of("v", json!({"a": 1, "b": 2, "c": 3}))),
        ("w", w),
    ];
    let expected = BTreeMap::from(expected.map(|(id, seen)| ((team.0, id.to_owned()), seen)));
    // What comes again changes nothing.
    for _ in 0..2 {
        let tally = apply(catalog, &beyond, 4).await.tally;
        assert_eq!((tally.applied, tally.new_ids, tally.over_limit), (6, 0, 6));
        assert_eq!(kept(catalog).await.0, expected);
    }
    // Whoever was named is nobody's device, and what was merged goes over to nobody.
    let mut earlier = with_other(told(team, 11, 1, "x"), Identify, "d");
    earlier.timestamp = Micros(NOW.0 - 1);
    let taking = [with_other(told(team, 10, 1, "x"), Identify, "u"), earlier];
    let tally = apply(catalog, &taking, 4).await.tally;
    assert_eq!((tally.new_ids, tally.refused), (1, 2));
    let (ids, _) = kept(catalog).await;
    let person = |id: &str| ids[&(team.0, id.to_owned())].0;
    for (id, holder) in [("u", "u"), ("d", "w"), ("x", "x")] {
        assert_eq!(person(id), person_id(team, holder), "{id}");
    }
}

async fn groups_count_as_new_ids(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let describe = |number: i64, kind: &str, key: &str| {
        let mut update = told(fixture.team_id, number, 0, "");
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
    let tally = apply(&fixture.catalog, &updates, 2).await.tally;
    assert_eq!((tally.new_ids, tally.over_limit), (2, 2));
    assert_eq!(kept(&fixture.catalog).await.1.len(), 2);
}
