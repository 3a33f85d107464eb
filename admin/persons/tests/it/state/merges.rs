//! Distinct ids that one merge moves, and one transaction.

use super::{kept, update};
use millrace_catalog::testing::TestDatabase;
use millrace_organizations::testing::fixture::Fixture;
use millrace_persons::{AppliedUpdates, ApplyOptions, PersonStore, PersonUpdate};
use millrace_rows::{UpdateKind, person_id};
use std::collections::BTreeMap;

millrace_catalog::on_both!(
    a_person_with_too_many_ids_is_not_merged,
    ids_moved_by_the_same_transaction_count_towards_the_limit,
    merges_of_many_ids_end_a_transaction_early,
);

/// Merge of two ids.
fn merge(fixture: &Fixture, number: i64, id: &str, other: &str) -> PersonUpdate {
    PersonUpdate {
        kind: UpdateKind::Merge,
        distinct_id: id.to_owned(),
        other_id: other.to_owned(),
        ..update(fixture.project_id, number)
    }
}

/// Updates that make persons of so many ids each, called `p 0`, `p 1`, …
fn crowd(fixture: &Fixture, from: i64, name: &str, ids: i64) -> Vec<PersonUpdate> {
    let one = |number| {
        let (id, other) = (format!("{name} 0"), format!("{name} {number}"));
        merge(fixture, from + number, &id, &other)
    };
    (1..ids).map(one).collect()
}

async fn apply(fixture: &Fixture, updates: &[PersonUpdate], max: u64) -> AppliedUpdates {
    let from = PersonStore::new(&fixture.catalog).progress().await.unwrap();
    let options = ApplyOptions {
        merged_ids_max: Some(max),
        ..ApplyOptions::default()
    };
    let applied = PersonStore::new(&fixture.catalog).apply(&from, updates, options);
    applied.await.unwrap().unwrap()
}

/// Numbers of the persons' ids, the largest first.
async fn sizes(fixture: &Fixture) -> Vec<usize> {
    let (ids, _) = kept(&fixture.catalog).await;
    let mut of_persons = BTreeMap::<_, usize>::new();
    for (person, ..) in ids.values() {
        *of_persons.entry(*person).or_default() += 1;
    }
    let mut sizes: Vec<usize> = of_persons.into_values().collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
}

async fn a_person_with_too_many_ids_is_not_merged(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    apply(&fixture, &crowd(&fixture, 1, "a", 4), 3).await;
    apply(&fixture, &crowd(&fixture, 10, "b", 3), 3).await;
    let mut refused = merge(&fixture, 20, "b 0", "a 3");
    refused.person_set = "{\"k\":1}".to_owned();
    let stats = apply(&fixture, &[refused], 3).await.stats;
    assert_eq!((stats.applied, stats.too_many_ids, stats.merged), (1, 1, 0));
    assert_eq!(sizes(&fixture).await, [4, 3]);
    // The event's properties are written all the same.
    let (ids, _) = kept(&fixture.catalog).await;
    let (person, _, _, properties) = &ids[&(fixture.project_id.0, "b 0".to_owned())];
    assert_eq!(*person, person_id(fixture.project_id, "b 0"));
    assert_eq!(properties.to_string(), "{\"k\":1}");
    // The other way round the smaller person is merged.
    let turned = merge(&fixture, 21, "a 0", "b 1");
    let stats = apply(&fixture, &[turned], 3).await.stats;
    assert_eq!((stats.too_many_ids, stats.merged), (0, 1));
    assert_eq!(sizes(&fixture).await, [7]);
}

async fn ids_moved_by_the_same_transaction_count_towards_the_limit(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    // `a` has two ids in the tables, and one more by the same transaction; so has `b`, which is
    // then merged into `a`, and `c`, into which `a` is to be merged, sees six.
    apply(&fixture, &crowd(&fixture, 1, "a", 2), 6).await;
    apply(&fixture, &crowd(&fixture, 10, "b", 2), 6).await;
    let updates = [
        merge(&fixture, 20, "a 0", "a 9"),
        merge(&fixture, 21, "b 0", "b 9"),
        merge(&fixture, 22, "a 0", "b 1"),
        merge(&fixture, 23, "c 0", "c 1"),
        merge(&fixture, 24, "c 0", "a 0"),
    ];
    let stats = apply(&fixture, &updates, 5).await.stats;
    assert_eq!((stats.merged, stats.too_many_ids), (1, 1));
    assert_eq!(sizes(&fixture).await, [6, 2]);
    let again = merge(&fixture, 25, "c 0", "a 0");
    assert_eq!(apply(&fixture, &[again], 6).await.stats.merged, 1);
    assert_eq!(sizes(&fixture).await, [8]);
}

async fn merges_of_many_ids_end_a_transaction_early(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    for (name, number) in ["a", "b", "c", "d", "e"].into_iter().zip(0..) {
        let from = number * 10_000;
        for part in crowd(&fixture, from, name, 1_500).chunks(500) {
            apply(&fixture, part, 2_000).await;
        }
    }
    let mut updates: Vec<PersonUpdate> = ["b", "c", "d", "e"]
        .into_iter()
        .zip(100_000..)
        .map(|(name, number)| merge(&fixture, number, "a 0", &format!("{name} 0")))
        .collect();
    // 4 000 ids and those of the last merge are the most.
    let mut counts = Vec::new();
    while !updates.is_empty() {
        let from = PersonStore::new(&fixture.catalog)
            .progress()
            .await
            .unwrap()
            .version;
        let count = apply(&fixture, &updates, 2_000).await.count;
        let changed = PersonStore::new(&fixture.catalog).changed_ids(from, None, 100_000);
        counts.push((count, changed.await.unwrap().len()));
        updates.drain(..count);
    }
    assert_eq!(counts, [(3, 4_500), (1, 1_500)]);
    assert_eq!(sizes(&fixture).await, [7_500]);
}
