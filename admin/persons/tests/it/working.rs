//! Tests of rounds: processes that die, nodes that lag, retention.

use crate::test_env::{NODES, NOW, TestEnv, update};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Catalog, NodeStarts, Nodes, UtcTime};
use millrace_persons::{ApplyOptions, Failure, PersonStore, PersonUpdate, RoundOutcome};
use millrace_rows::{Month, UpdateKind};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

on_both!(
    killed_processes_leave_the_result_of_a_single_pass,
    an_update_is_applied_only_once_all_nodes_have_passed_it,
    clickhouse_is_not_asked_again_while_the_watermark_stands,
    uncopied_changes_are_copied_first,
    everything_is_copied_again_to_a_restored_clickhouse,
    another_clickhouse_gets_all_that_was_copied_before,
    only_months_applied_long_ago_are_dropped,
    missing_tables_are_created,
    an_answer_that_is_not_clickhouses_is_no_progress,
    an_answer_to_an_earlier_query_is_no_progress,
    a_round_of_many_new_persons_takes_several_transactions_and_is_copied_whole,
);

const UPDATES: i64 = 3_000;

/// Persons, ids and groups in a catalog, as lines.
pub async fn kept(catalog: &Catalog) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for it in PersonStore::new(catalog)
        .changed_persons(0, None, 100_000)
        .await
        .unwrap()
    {
        let (id, made, named) = (it.id, it.created_at.0, it.is_identified);
        lines.insert(format!(
            "person {} {id} {made} {named} {} {}",
            it.team_id, it.is_deleted, it.properties
        ));
    }
    for it in PersonStore::new(catalog)
        .changed_ids(0, None, 100_000)
        .await
        .unwrap()
    {
        lines.insert(format!(
            "id {} {} {}",
            it.team_id, it.distinct_id, it.person_id
        ));
    }
    for it in PersonStore::new(catalog)
        .changed_groups(0, None, 100_000)
        .await
        .unwrap()
    {
        let (key, made) = (it.group_key, it.created_at.0);
        lines.insert(format!(
            "group {} {} {key} {made} {}",
            it.team_id, it.group_type, it.properties
        ));
    }
    lines
}

/// Persons, ids and groups in ClickHouse, as lines.
pub fn copied(env: &TestEnv) -> BTreeSet<String> {
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
            env.database
        );
        let answer = env.ask(&sql, &[]);
        write!(lines, "{answer}").unwrap();
    }
    lines.lines().map(str::to_owned).collect()
}

/// Result of a single pass over all updates in their order.
pub async fn in_one_pass(database: &TestDatabase, updates: &[PersonUpdate]) -> BTreeSet<String> {
    let env = TestEnv::open(database).await;
    let mut updates = updates.to_vec();
    updates.sort_by_key(|update| update.position);
    let from = PersonStore::new(&env.catalog).progress().await.unwrap();
    let options = ApplyOptions::default();
    let applied = PersonStore::new(&env.catalog).apply(&from, &updates, options);
    let applied = applied.await;
    assert_eq!(applied.unwrap().unwrap().count, updates.len());
    kept(&env.catalog).await
}

pub async fn register(env: &TestEnv) {
    for node in NODES {
        Nodes::new(&env.catalog)
            .register(node, "host", &NodeStarts::default())
            .await
            .unwrap();
    }
}

async fn until_passed(env: &TestEnv, at: i64) {
    while PersonStore::new(&env.catalog).watermark().await.unwrap() < Some(UtcTime(NOW + at)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn killed_processes_leave_the_result_of_a_single_pass(
    one: TestDatabase,
    other: TestDatabase,
) {
    let env = TestEnv::open(&one).await;
    // One project has so many updates that it is deferred again and again.
    let project = |number| match number % 7 {
        0 => env.foreign_project_id,
        _ => env.project_id,
    };
    let updates: Vec<_> = (0..UPDATES).map(|it| update(project(it), it)).collect();
    let expected = in_one_pass(&other, &updates).await;
    register(&env).await;
    for node in NODES {
        env.pass(node, 0).await;
    }
    let steps = 10;
    for step in 0..steps {
        // Updates of a step are stored by two nodes, whose rows alternate.
        let of_step = updates.iter().filter(|update| {
            let place = (update.position.created_at.0 - NOW) * steps / (UPDATES / 10);
            place == step
        });
        let (even, odd): (Vec<_>, Vec<_>) = of_step
            .cloned()
            .partition(|update| update.position.request_id.as_u128() % 2 == 0);
        let first = env.start(37);
        let second = env.start(53);
        env.store(&odd);
        env.store(&even);
        let end = (step + 1) * UPDATES / 10 / steps;
        env.pass("a", end).await;
        env.pass("b", end).await;
        tokio::time::sleep(Duration::from_millis(30 * (step as u64 + 1))).await;
        drop(first);
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(second);
    }
    let _last = env.start(1_000);
    until_passed(&env, UPDATES / 10).await;
    assert_eq!(kept(&env.catalog).await, expected);
    assert_eq!(copied(&env), expected);
}

async fn an_update_is_applied_only_once_all_nodes_have_passed_it(
    one: TestDatabase,
    _: TestDatabase,
) {
    let env = TestEnv::open(&one).await;
    let worker = env.worker(1_000);
    let updates: Vec<_> = (0..200).map(|it| update(env.project_id, it)).collect();
    env.store(&updates);
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
    register(&env).await;
    env.pass("a", 100).await;
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
    assert!(kept(&env.catalog).await.is_empty());
    env.pass("b", 7).await;
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
    let place = PersonStore::new(&env.catalog)
        .progress()
        .await
        .unwrap()
        .position;
    assert_eq!(place.created_at.0, NOW + 6);
    env.pass("b", 100).await;
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
    let progress = PersonStore::new(&env.catalog).progress().await.unwrap();
    assert_eq!(progress.passed, Some(UtcTime(NOW + 100)));
    assert_eq!(kept(&env.catalog).await, copied(&env));
}

async fn clickhouse_is_not_asked_again_while_the_watermark_stands(
    one: TestDatabase,
    _: TestDatabase,
) {
    let env = TestEnv::open(&one).await;
    let worker = env.worker(1_000);
    register(&env).await;
    for node in NODES {
        env.pass(node, 100).await;
    }
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
    env.ask(&format!("DROP DATABASE `{}`", env.database), b"");
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
    for node in NODES {
        env.pass(node, 101).await;
    }
    assert!(worker.round().await.is_err());
}

async fn an_answer_that_is_not_clickhouses_is_no_progress(one: TestDatabase, _: TestDatabase) {
    let env = TestEnv::open(&one).await;
    register(&env).await;
    let updates: Vec<_> = (0..200).map(|it| update(env.project_id, it)).collect();
    env.store(&updates);
    for node in NODES {
        env.pass(node, 100).await;
    }
    let before = PersonStore::new(&env.catalog).progress().await.unwrap();
    for page in ["", "<html>We are back soon</html>"] {
        let failed = env.worker_behind(page).round().await.unwrap_err();
        assert!(matches!(failed, Failure::Unproven), "{page}: {failed}");
        let progress = PersonStore::new(&env.catalog).progress().await.unwrap();
        assert_eq!(progress.passed, before.passed, "{page}");
    }
    while env.worker(1_000).round().await.unwrap() == RoundOutcome::More {}
    assert!(!kept(&env.catalog).await.is_empty());
    assert_eq!(kept(&env.catalog).await, copied(&env));
}

async fn an_answer_to_an_earlier_query_is_no_progress(one: TestDatabase, _: TestDatabase) {
    let env = TestEnv::open(&one).await;
    register(&env).await;
    for node in NODES {
        env.pass(node, 0).await;
    }
    let worker = env.worker_behind_cache("ORDER BY created_at, request_id");
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
    let before = PersonStore::new(&env.catalog).progress().await.unwrap();
    let updates: Vec<_> = (0..200).map(|it| update(env.project_id, it)).collect();
    env.store(&updates);
    for node in NODES {
        env.pass(node, 100).await;
    }
    let failed = worker.round().await.unwrap_err();
    assert!(matches!(failed, Failure::Unproven), "{failed}");
    let progress = PersonStore::new(&env.catalog).progress().await.unwrap();
    assert_eq!(progress.passed, before.passed);
    while env.worker(1_000).round().await.unwrap() == RoundOutcome::More {}
    assert!(!kept(&env.catalog).await.is_empty());
    assert_eq!(kept(&env.catalog).await, copied(&env));
}

async fn uncopied_changes_are_copied_first(one: TestDatabase, _: TestDatabase) {
    let env = TestEnv::open(&one).await;
    register(&env).await;
    let updates: Vec<_> = (0..200).map(|it| update(env.project_id, it)).collect();
    env.store(&updates);
    // Another process applied a part, and died.
    let mut sorted = updates.clone();
    sorted.sort_by_key(|update| update.position);
    let from = PersonStore::new(&env.catalog).progress().await.unwrap();
    let applied = PersonStore::new(&env.catalog)
        .apply(&from, &sorted[..90], ApplyOptions::default())
        .await;
    assert_eq!(applied.unwrap().unwrap().count, 90);
    assert!(copied(&env).is_empty());
    let worker = env.worker(1_000);
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
    assert_eq!(kept(&env.catalog).await, copied(&env));
    for node in NODES {
        env.pass(node, 100).await;
    }
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
    assert_eq!(kept(&env.catalog).await, copied(&env));
}

async fn everything_is_copied_again_to_a_restored_clickhouse(one: TestDatabase, _: TestDatabase) {
    let env = TestEnv::open(&one).await;
    register(&env).await;
    let updates: Vec<_> = (0..200).map(|it| update(env.project_id, it)).collect();
    env.store(&updates);
    for node in NODES {
        env.pass(node, 100).await;
    }
    let worker = env.worker(1_000);
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
    for table in ["persons", "person_distinct_ids", "groups"] {
        let sql = format!("TRUNCATE TABLE `{}`.{table}", env.database);
        env.ask(&sql, &[]);
    }
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
    assert!(copied(&env).is_empty());
    PersonStore::new(&env.catalog).copy_again().await.unwrap();
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
    assert!(!copied(&env).is_empty());
    assert_eq!(kept(&env.catalog).await, copied(&env));
}

async fn another_clickhouse_gets_all_that_was_copied_before(one: TestDatabase, _: TestDatabase) {
    let env = TestEnv::open(&one).await;
    register(&env).await;
    let updates: Vec<_> = (0..200).map(|it| update(env.project_id, it)).collect();
    env.store(&updates);
    for node in NODES {
        env.pass(node, 100).await;
    }
    while env.worker(1_000).round().await.unwrap() == RoundOutcome::More {}
    let all = copied(&env);
    assert!(!all.is_empty());
    let other = env.with_another_clickhouse().await;
    for table in ["persons", "person_distinct_ids", "groups"] {
        let process = other.start(1_000);
        while copied(&other) != all {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        drop(process);
        // The next process misses them in a single table, too.
        other.ask(&format!("TRUNCATE TABLE `{}`.{table}", other.database), b"");
    }
}

const DAY: i64 = 24 * 3_600 * 1_000_000;

/// Updates that arrived so many days before the beginning of 2026.
fn of_day(env: &TestEnv, days: i64) -> Vec<PersonUpdate> {
    let of_number = |number| {
        let mut update = update(env.project_id, number);
        update.position.created_at.0 -= days * DAY;
        update
    };
    (0..20).map(of_number).collect()
}

/// Months of the stored updates.
fn months(env: &TestEnv) -> String {
    let sql = format!(
        "SELECT toYYYYMM(created_at) AS month FROM `{}`.person_updates GROUP BY month \
         ORDER BY month FORMAT CSV",
        env.database
    );
    env.ask(&sql, &[]).trim().replace('\n', " ")
}

async fn only_months_applied_long_ago_are_dropped(one: TestDatabase, _: TestDatabase) {
    let env = TestEnv::open(&one).await;
    let worker = env.worker(1_000);
    for days in [80, 40, 10] {
        env.store(&of_day(&env, days));
    }
    assert_eq!(worker.apply_retention().await.unwrap(), []);
    // One node lags far behind: updates that it has not passed are kept, however old.
    register(&env).await;
    env.pass("a", 0).await;
    env.pass("b", -60 * DAY).await;
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
    assert_eq!(worker.apply_retention().await.unwrap(), []);
    env.pass("b", 0).await;
    assert_eq!(
        worker.apply_retention().await.unwrap(),
        [],
        "it is not applied yet"
    );
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
    let forgotten = worker.apply_retention().await.unwrap();
    assert_eq!(forgotten, [Month(202_510), Month(202_511)]);
    assert_eq!(months(&env), "202512");
    assert_eq!(worker.apply_retention().await.unwrap(), []);
    // Old updates arrive from the log of a node that was given up.
    env.store(&of_day(&env, 81));
    assert_eq!(
        env.worker(1).apply_retention().await.unwrap(),
        [Month(202_510)]
    );
    assert_eq!(months(&env), "202512");
    assert_eq!(kept(&env.catalog).await, copied(&env));
}

async fn missing_tables_are_created(one: TestDatabase, _: TestDatabase) {
    let env = TestEnv::open(&one).await;
    env.ask(&format!("DROP DATABASE `{}`", env.database), &[]);
    register(&env).await;
    for node in NODES {
        env.pass(node, 0).await;
    }
    let _process = env.start(1_000);
    until_passed(&env, 0).await;
    let updates: Vec<_> = (0..200).map(|it| update(env.project_id, it)).collect();
    env.store(&updates);
    for node in NODES {
        env.pass(node, 100).await;
    }
    until_passed(&env, 100).await;
    let kept = kept(&env.catalog).await;
    assert!(!kept.is_empty());
    assert_eq!(kept, copied(&env));
}

/// In SQLite others write in between, like the task that renews the lease.
async fn a_round_of_many_new_persons_takes_several_transactions_and_is_copied_whole(
    one: TestDatabase,
    _: TestDatabase,
) {
    let env = TestEnv::open(&one).await;
    register(&env).await;
    let told = |number: i64| PersonUpdate {
        distinct_id: format!("new {number}"),
        other_id: String::new(),
        kind: UpdateKind::Properties,
        ..update(env.project_id, number)
    };
    let updates: Vec<_> = (0..4_000).map(told).collect();
    env.store(&updates);
    for node in NODES {
        env.pass(node, 1_000).await;
    }
    // More than one project's share of a round, but there is no other one that would wait.
    let worker = env.worker(20_000);
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
    let ids = PersonStore::new(&env.catalog)
        .changed_ids(0, None, 10_000)
        .await;
    let ids = ids.unwrap();
    let steps: BTreeSet<i64> = ids.iter().map(|it| it.version).collect();
    assert_eq!(ids.len(), 4_000);
    assert!(steps.len() >= 2, "{steps:?}");
    assert_eq!(copied(&env), kept(&env.catalog).await);
}
