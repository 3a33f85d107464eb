//! Rounds, processes that die, nodes that lag.

use crate::stand::{NODES, NOW, Stand, update};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{ApplyOptions, Catalog, NodeStarts, PersonUpdate, UtcTime};
use millrace_persons::Round;
use millrace_rows::{Month, UpdateKind};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

on_both!(
    whoever_dies_the_result_is_that_of_one_pass,
    nothing_is_applied_before_all_nodes_have_passed_it,
    clickhouse_is_not_asked_again_before_nodes_have_passed_more,
    what_was_not_copied_is_copied_first,
    everything_is_copied_again_to_a_clickhouse_of_another_time,
    what_was_applied_long_ago_is_forgotten_and_nothing_else,
    tables_that_are_not_there_yet_are_made,
    a_round_of_many_new_people_is_several_transactions_and_copied_whole,
);

const UPDATES: i64 = 3_000;

/// Persons, ids and groups of a catalog, as lines.
pub async fn kept(catalog: &Catalog) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for it in catalog.changed_persons(0, None, 100_000).await.unwrap() {
        let (id, made, named) = (it.id, it.created_at.0, it.is_identified);
        lines.insert(format!(
            "person {} {id} {made} {named} {} {}",
            it.team_id, it.is_deleted, it.properties
        ));
    }
    for it in catalog.changed_person_ids(0, None, 100_000).await.unwrap() {
        lines.insert(format!(
            "id {} {} {}",
            it.team_id, it.distinct_id, it.person_id
        ));
    }
    for it in catalog.changed_groups(0, None, 100_000).await.unwrap() {
        let (key, made) = (it.group_key, it.created_at.0);
        lines.insert(format!(
            "group {} {} {key} {made} {}",
            it.team_id, it.group_type, it.properties
        ));
    }
    lines
}

/// The same of ClickHouse.
pub fn copied(stand: &Stand) -> BTreeSet<String> {
    let mut lines = String::new();
    for (name, columns, table) in [
        (
            "person",
            "team_id, id, toUnixTimestamp64Micro(created_at), is_identified, is_deleted, properties",
            "persons",
        ),
        (
            "id",
            "team_id, distinct_id, person_id",
            "person_distinct_ids",
        ),
        (
            "group",
            "team_id, group_type, group_key, toUnixTimestamp64Micro(created_at), properties",
            "groups",
        ),
    ] {
        let sql = format!(
            "SELECT concatWithSeparator(' ', '{name}', {columns}) FROM `{}`.{table} FINAL FORMAT TSVRaw",
            stand.database
        );
        let answer = stand.ask(&sql, &[]);
        write!(lines, "{answer}").unwrap();
    }
    lines.lines().map(str::to_owned).collect()
}

/// What one pass over all updates in their order leaves.
pub async fn in_one_pass(database: &TestDatabase, updates: &[PersonUpdate]) -> BTreeSet<String> {
    let stand = Stand::open(database).await;
    let mut updates = updates.to_vec();
    updates.sort_by_key(|update| update.place);
    let from = stand.catalog.person_progress().await.unwrap();
    let options = ApplyOptions::default();
    let applied = stand.catalog.apply_person_updates(&from, &updates, options);
    let applied = applied.await;
    assert_eq!(applied.unwrap().unwrap().count, updates.len());
    kept(&stand.catalog).await
}

pub async fn register(stand: &Stand) {
    for node in NODES {
        stand
            .catalog
            .register_ingest_node(node, "host", &NodeStarts::default())
            .await
            .unwrap();
    }
}

async fn until_passed(stand: &Stand, at: i64) {
    while stand.catalog.persons_watermark().await.unwrap() < Some(UtcTime(NOW + at)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn whoever_dies_the_result_is_that_of_one_pass(one: TestDatabase, other: TestDatabase) {
    let stand = Stand::open(&one).await;
    // One project has so much that it waits apart from the other, again and again.
    let team = |number| match number % 7 {
        0 => stand.foreign_team_id,
        _ => stand.team_id,
    };
    let updates: Vec<_> = (0..UPDATES).map(|it| update(team(it), it)).collect();
    let expected = in_one_pass(&other, &updates).await;
    register(&stand).await;
    for node in NODES {
        stand.pass(node, 0).await;
    }
    let steps = 10;
    for step in 0..steps {
        // What comes in a step is stored by two nodes, whose rows lie between one another.
        let of_step = updates.iter().filter(|update| {
            let place = (update.place.created_at.0 - NOW) * steps / (UPDATES / 10);
            place == step
        });
        let (even, odd): (Vec<_>, Vec<_>) = of_step
            .cloned()
            .partition(|update| update.place.request_id.as_u128() % 2 == 0);
        let first = stand.start(37);
        let second = stand.start(53);
        stand.store(&odd);
        stand.store(&even);
        let end = (step + 1) * UPDATES / 10 / steps;
        stand.pass("a", end).await;
        stand.pass("b", end).await;
        tokio::time::sleep(Duration::from_millis(30 * (step as u64 + 1))).await;
        drop(first);
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(second);
    }
    let _last = stand.start(1_000);
    until_passed(&stand, UPDATES / 10).await;
    assert_eq!(kept(&stand.catalog).await, expected);
    assert_eq!(copied(&stand), expected);
}

async fn nothing_is_applied_before_all_nodes_have_passed_it(one: TestDatabase, _: TestDatabase) {
    let stand = Stand::open(&one).await;
    let worker = stand.worker(1_000);
    let updates: Vec<_> = (0..200).map(|it| update(stand.team_id, it)).collect();
    stand.store(&updates);
    assert_eq!(worker.round().await.unwrap(), Round::Done);
    register(&stand).await;
    stand.pass("a", 100).await;
    assert_eq!(worker.round().await.unwrap(), Round::Done);
    assert!(kept(&stand.catalog).await.is_empty());
    stand.pass("b", 7).await;
    assert_eq!(worker.round().await.unwrap(), Round::Done);
    let place = stand.catalog.person_progress().await.unwrap().place;
    assert_eq!(place.created_at.0, NOW + 6);
    stand.pass("b", 100).await;
    assert_eq!(worker.round().await.unwrap(), Round::Done);
    assert_eq!(worker.round().await.unwrap(), Round::Done);
    let progress = stand.catalog.person_progress().await.unwrap();
    assert_eq!(progress.passed, Some(UtcTime(NOW + 100)));
    assert_eq!(kept(&stand.catalog).await, copied(&stand));
}

async fn clickhouse_is_not_asked_again_before_nodes_have_passed_more(
    one: TestDatabase,
    _: TestDatabase,
) {
    let stand = Stand::open(&one).await;
    let worker = stand.worker(1_000);
    register(&stand).await;
    for node in NODES {
        stand.pass(node, 100).await;
    }
    assert_eq!(worker.round().await.unwrap(), Round::Done);
    stand.ask(&format!("DROP DATABASE `{}`", stand.database), b"");
    assert_eq!(worker.round().await.unwrap(), Round::Done);
    for node in NODES {
        stand.pass(node, 101).await;
    }
    assert!(worker.round().await.is_err());
}

async fn what_was_not_copied_is_copied_first(one: TestDatabase, _: TestDatabase) {
    let stand = Stand::open(&one).await;
    register(&stand).await;
    let updates: Vec<_> = (0..200).map(|it| update(stand.team_id, it)).collect();
    stand.store(&updates);
    // Somebody applied a part, and died.
    let mut sorted = updates.clone();
    sorted.sort_by_key(|update| update.place);
    let from = stand.catalog.person_progress().await.unwrap();
    let applied = stand
        .catalog
        .apply_person_updates(&from, &sorted[..90], ApplyOptions::default())
        .await;
    assert_eq!(applied.unwrap().unwrap().count, 90);
    assert!(copied(&stand).is_empty());
    let worker = stand.worker(1_000);
    assert_eq!(worker.round().await.unwrap(), Round::Done);
    assert_eq!(kept(&stand.catalog).await, copied(&stand));
    for node in NODES {
        stand.pass(node, 100).await;
    }
    assert_eq!(worker.round().await.unwrap(), Round::Done);
    assert_eq!(kept(&stand.catalog).await, copied(&stand));
}

async fn everything_is_copied_again_to_a_clickhouse_of_another_time(
    one: TestDatabase,
    _: TestDatabase,
) {
    let stand = Stand::open(&one).await;
    register(&stand).await;
    let updates: Vec<_> = (0..200).map(|it| update(stand.team_id, it)).collect();
    stand.store(&updates);
    for node in NODES {
        stand.pass(node, 100).await;
    }
    let worker = stand.worker(1_000);
    assert_eq!(worker.round().await.unwrap(), Round::Done);
    for table in ["persons", "person_distinct_ids", "groups"] {
        let sql = format!("TRUNCATE TABLE `{}`.{table}", stand.database);
        stand.ask(&sql, &[]);
    }
    assert_eq!(worker.round().await.unwrap(), Round::Done);
    assert!(copied(&stand).is_empty());
    stand.catalog.copy_persons_again().await.unwrap();
    assert_eq!(worker.round().await.unwrap(), Round::Done);
    assert!(!copied(&stand).is_empty());
    assert_eq!(kept(&stand.catalog).await, copied(&stand));
}

const DAY: i64 = 24 * 3_600 * 1_000_000;

/// Updates that arrived so many days before the beginning of 2026.
fn of_day(stand: &Stand, days: i64) -> Vec<PersonUpdate> {
    let of_number = |number| {
        let mut update = update(stand.team_id, number);
        update.place.created_at.0 -= days * DAY;
        update
    };
    (0..20).map(of_number).collect()
}

/// The months of updates that are there.
fn months(stand: &Stand) -> String {
    let sql = format!(
        "SELECT toYYYYMM(created_at) AS month FROM `{}`.person_updates GROUP BY month \
         ORDER BY month FORMAT CSV",
        stand.database
    );
    stand.ask(&sql, &[]).trim().replace('\n', " ")
}

async fn what_was_applied_long_ago_is_forgotten_and_nothing_else(
    one: TestDatabase,
    _: TestDatabase,
) {
    let stand = Stand::open(&one).await;
    let worker = stand.worker(1_000);
    for days in [80, 40, 10] {
        stand.store(&of_day(&stand, days));
    }
    assert_eq!(worker.forget().await.unwrap(), []);
    // One node lags far behind: however old, what it has not passed is kept.
    register(&stand).await;
    stand.pass("a", 0).await;
    stand.pass("b", -60 * DAY).await;
    assert_eq!(worker.round().await.unwrap(), Round::Done);
    assert_eq!(worker.forget().await.unwrap(), []);
    stand.pass("b", 0).await;
    assert_eq!(worker.forget().await.unwrap(), [], "it is not applied yet");
    assert_eq!(worker.round().await.unwrap(), Round::Done);
    let forgotten = worker.forget().await.unwrap();
    assert_eq!(forgotten, [Month(202_510), Month(202_511)]);
    assert_eq!(months(&stand), "202512");
    assert_eq!(worker.forget().await.unwrap(), []);
    // The log of a node that was given up comes back after all.
    stand.store(&of_day(&stand, 81));
    assert_eq!(stand.worker(1).forget().await.unwrap(), [Month(202_510)]);
    assert_eq!(months(&stand), "202512");
    assert_eq!(kept(&stand.catalog).await, copied(&stand));
}

async fn tables_that_are_not_there_yet_are_made(one: TestDatabase, _: TestDatabase) {
    let stand = Stand::open(&one).await;
    stand.ask(&format!("DROP DATABASE `{}`", stand.database), &[]);
    register(&stand).await;
    for node in NODES {
        stand.pass(node, 0).await;
    }
    let _process = stand.start(1_000);
    until_passed(&stand, 0).await;
    let updates: Vec<_> = (0..200).map(|it| update(stand.team_id, it)).collect();
    stand.store(&updates);
    for node in NODES {
        stand.pass(node, 100).await;
    }
    until_passed(&stand, 100).await;
    let kept = kept(&stand.catalog).await;
    assert!(!kept.is_empty());
    assert_eq!(kept, copied(&stand));
}

/// In SQLite others write in between, as who extends the lease.
async fn a_round_of_many_new_people_is_several_transactions_and_copied_whole(
    one: TestDatabase,
    _: TestDatabase,
) {
    let stand = Stand::open(&one).await;
    register(&stand).await;
    let told = |number: i64| PersonUpdate {
        distinct_id: format!("new {number}"),
        other_id: String::new(),
        kind: UpdateKind::Properties,
        ..update(stand.team_id, number)
    };
    let updates: Vec<_> = (0..4_000).map(told).collect();
    stand.store(&updates);
    for node in NODES {
        stand.pass(node, 1_000).await;
    }
    // More than one project's share of a round, but there is no other one that would wait.
    let worker = stand.worker(20_000);
    assert_eq!(worker.round().await.unwrap(), Round::Done);
    let ids = stand.catalog.changed_person_ids(0, None, 10_000).await;
    let ids = ids.unwrap();
    let steps: BTreeSet<i64> = ids.iter().map(|it| it.version).collect();
    assert_eq!(ids.len(), 4_000);
    assert!(steps.len() >= 2, "{steps:?}");
    assert_eq!(copied(&stand), kept(&stand.catalog).await);
}
