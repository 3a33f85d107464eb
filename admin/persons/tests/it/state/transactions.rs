//! Size of one transaction of updates: in SQLite all other writers wait for it.

use super::update;
use millrace_catalog::Catalog;
use millrace_catalog::testing::TestDatabase;
use millrace_organizations::testing::fixture::Fixture;
use millrace_persons::{ApplyOptions, PersonStore, PersonUpdate};
use millrace_rows::UpdateKind;
use std::collections::BTreeMap;

millrace_catalog::on_both!(
    a_transaction_has_no_more_rows_than_keep_others_waiting_for_a_moment,
    updates_of_few_people_are_one_transaction,
    large_updates_end_a_transaction_early,
);

/// Rows of one transaction: the bound, and the rows that its last 500 updates may name beyond it.
const ROWS_MAX: usize = 4_000 + 500 * 7;

/// Applies all updates; answers how many each transaction took.
async fn transactions(catalog: &Catalog, mut updates: &[PersonUpdate]) -> Vec<usize> {
    let mut counts = Vec::new();
    while !updates.is_empty() {
        let from = PersonStore::new(catalog).progress().await.unwrap();
        let applied = PersonStore::new(catalog)
            .apply(&from, updates, ApplyOptions::default())
            .await;
        let applied = applied.unwrap().unwrap();
        assert!(applied.progress.version > from.version);
        counts.push(applied.count);
        updates = &updates[applied.count..];
    }
    counts
}

async fn a_transaction_has_no_more_rows_than_keep_others_waiting_for_a_moment(
    database: TestDatabase,
) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    // Half of them make two ids and persons known, and a group each.
    let numbered_update = |number: i64| {
        let mut update = update(fixture.project_id, number);
        update.distinct_id = format!("d{number}");
        if number % 2 == 0 {
            update.kind = UpdateKind::Merge;
            update.other_id = format!("e{number}");
            update.group_type = "company".to_owned();
            update.group_key = number.to_string();
        }
        update
    };
    let updates: Vec<PersonUpdate> = (1..=9_000).map(numbered_update).collect();
    let counts = transactions(catalog, &updates).await;
    assert_eq!(counts.iter().sum::<usize>(), updates.len());
    let mut rows: BTreeMap<i64, usize> = BTreeMap::new();
    for row in PersonStore::new(catalog)
        .changed_persons(0, None, 100_000)
        .await
        .unwrap()
    {
        *rows.entry(row.version).or_default() += 1;
    }
    for row in PersonStore::new(catalog)
        .changed_ids(0, None, 100_000)
        .await
        .unwrap()
    {
        *rows.entry(row.version).or_default() += 1;
    }
    for row in PersonStore::new(catalog)
        .changed_groups(0, None, 100_000)
        .await
        .unwrap()
    {
        *rows.entry(row.version).or_default() += 1;
    }
    assert_eq!(rows.len(), counts.len(), "{rows:?}");
    assert!(rows.values().all(|rows| *rows <= ROWS_MAX), "{rows:?}");
}

async fn updates_of_few_people_are_one_transaction(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let numbered_update = |number: i64| {
        let mut update = update(fixture.project_id, number);
        update.distinct_id = format!("d{}", number % 100);
        update.person_set = format!("{{\"n\":{number}}}");
        update
    };
    let updates: Vec<PersonUpdate> = (1..=5_000).map(numbered_update).collect();
    assert_eq!(transactions(&fixture.catalog, &updates).await, [5_000]);
}

async fn large_updates_end_a_transaction_early(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let text = "x".repeat(20_000);
    let numbered_update = |number: i64| {
        let mut update = update(fixture.project_id, number);
        update.distinct_id = "d".to_owned();
        update.person_set = format!("{{\"k\":\"{text}\"}}");
        update
    };
    // 10 MB of 500.
    let updates: Vec<PersonUpdate> = (1..=1_200).map(numbered_update).collect();
    let counts = transactions(&fixture.catalog, &updates).await;
    assert_eq!(counts, [500, 500, 200]);
}
