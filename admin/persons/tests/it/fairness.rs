//! Tests of fairness: rounds beside a project that sends all it can, and the limit on new ids.

use crate::test_env::{NODES, NOW, TestEnv, options, update};
use crate::working::{copied, in_one_pass, kept, register};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{PersonWatermark, ProjectId};
use millrace_persons::{
    GrowthLimits, PersonStore, PersonUpdate, RoundOutcome, Worker, WorkerOptions,
};
use millrace_rows::{Micros, UpdateKind};
use std::time::Duration;
use uuid::Uuid;

on_both!(
    no_project_waits_for_one_with_a_large_backlog,
    no_project_waits_for_a_few_large_updates,
    others_are_applied_and_copied_before_backlogs,
    a_round_out_of_time_leaves_the_rest_of_a_backlog_to_the_next_round,
    deferred_projects_lose_nothing_and_rejoin_the_others,
    new_ids_over_the_limit_are_left_out_until_the_next_hour,
);

const HOSTILE: i64 = 400_000;
const UPDATES_MAX: usize = 2_000;
/// Rounds at most until another project's update is applied: the first one defers the large
/// project.
const ROUNDS_MAX: usize = 2;

/// Update with a distinct id of its own.
pub fn of_new_id(project_id: ProjectId, number: i64, set: &str) -> PersonUpdate {
    let mut update = update(project_id, number);
    update.kind = UpdateKind::Properties;
    update.position.created_at = Micros(NOW + number);
    update.position.request_id = Uuid::from_u128(1);
    update.distinct_id = format!("id {number}");
    update.other_id = String::new();
    update.group_type = String::new();
    update.person_set = set.to_owned();
    update.person_set_once = String::new();
    update.person_unset = String::new();
    update
}

pub async fn pass(env: &TestEnv, at: i64) {
    for node in NODES {
        env.pass(node, at).await;
    }
}

/// Makes rounds until ClickHouse has the person of an id; returns their number.
pub async fn rounds_until(
    env: &TestEnv,
    worker: &Worker,
    project_id: ProjectId,
    id: &str,
) -> usize {
    let sql = format!(
        "SELECT count() FROM `{}`.person_distinct_ids WHERE team_id = {} AND distinct_id = '{id}'",
        env.database, project_id.0
    );
    for rounds in 1.. {
        worker.round().await.unwrap();
        if env.ask(&sql, &[]).trim() != "0" {
            return rounds;
        }
        assert!(rounds < 50, "{id} waits");
    }
    0
}

/// Makes rounds until nothing is left; returns their number.
pub async fn finish(worker: &Worker) -> usize {
    let mut rounds = 1;
    while worker.round().await.unwrap() == RoundOutcome::More {
        rounds += 1;
    }
    rounds
}

async fn no_project_waits_for_one_with_a_large_backlog(one: TestDatabase, _: TestDatabase) {
    let env = TestEnv::open(&one).await;
    register(&env).await;
    let worker = env.worker(UPDATES_MAX);
    let (hostile, other) = (env.project_id, env.foreign_project_id);
    for begin in (0..HOSTILE).step_by(50_000) {
        let numbers = begin..begin + 50_000;
        let updates: Vec<_> = numbers.map(|it| of_new_id(hostile, it, "{}")).collect();
        env.store(&updates);
    }
    env.store(&[of_new_id(other, HOSTILE, "{}")]);
    pass(&env, HOSTILE + 1).await;
    let rounds = rounds_until(&env, &worker, other, &format!("id {HOSTILE}")).await;
    assert!(rounds <= ROUNDS_MAX, "{rounds}");
    // Exports of the other project's persons do not wait longer either.
    let passed = PersonWatermark::new(&env.catalog).of(other).await.unwrap();
    assert_eq!(passed, Some(Micros(NOW + HOSTILE + 1).into()));
    // The same holds for later updates, while the backlog is worked off.
    for later in 1..4 {
        let at = HOSTILE + 1_000 * later;
        let more = (1..1_000).map(|it| of_new_id(hostile, at + it, "{}"));
        env.store(&more.collect::<Vec<_>>());
        env.store(&[of_new_id(other, at, "{}")]);
        pass(&env, at + 1_000).await;
        let rounds = rounds_until(&env, &worker, other, &format!("id {at}")).await;
        assert_eq!(rounds, 1);
    }
    let progress = PersonStore::new(&env.catalog).progress().await.unwrap();
    assert_eq!(progress.backlogs[0].project_id, hostile);
    // The backlog had its part of each round.
    let applied = applied_of_backlog(&env).await;
    assert!(applied > 3 * UPDATES_MAX as i64 && applied < HOSTILE);
}

/// Number of updates that were applied of the only project with a backlog, of those that are
/// numbered from 0.
async fn applied_of_backlog(env: &TestEnv) -> i64 {
    let progress = PersonStore::new(&env.catalog).progress().await.unwrap();
    let [backlog] = progress.backlogs.as_slice() else {
        panic!("{progress:?}");
    };
    backlog.position.created_at.0 - NOW + 1
}

async fn no_project_waits_for_a_few_large_updates(one: TestDatabase, _: TestDatabase) {
    let env = TestEnv::open(&one).await;
    register(&env).await;
    let worker = env.worker_with(WorkerOptions {
        bytes_max: 64 << 10,
        ..options(UPDATES_MAX)
    });
    let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(64 << 10));
    let updates: Vec<_> = (0..UPDATES_MAX as i64 / SHARES)
        .map(|it| of_new_id(env.project_id, it, &large))
        .collect();
    env.store(&updates);
    env.store(&[of_new_id(env.foreign_project_id, 1_000, "{}")]);
    pass(&env, 1_001).await;
    let rounds = rounds_until(&env, &worker, env.foreign_project_id, "id 1000").await;
    assert!(rounds <= ROUNDS_MAX, "{rounds}");
}

async fn others_are_applied_and_copied_before_backlogs(one: TestDatabase, _: TestDatabase) {
    const WAITING: i64 = 1_000;
    let env = TestEnv::open(&one).await;
    register(&env).await;
    let worker = env.worker(UPDATES_MAX);
    let (hostile, other) = (env.project_id, env.foreign_project_id);
    let from = PersonStore::new(&env.catalog).progress().await.unwrap();
    let deferred = PersonStore::new(&env.catalog)
        .defer(&from, &[hostile])
        .await;
    assert_eq!(deferred.unwrap(), 1);
    let updates: Vec<_> = (0..WAITING)
        .map(|it| of_new_id(hostile, it, "{}"))
        .collect();
    env.store(&updates);
    env.store(&[of_new_id(other, WAITING / 2, "{}")]);
    pass(&env, WAITING).await;
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
    let ids = PersonStore::new(&env.catalog)
        .changed_ids(0, None, 10_000)
        .await
        .unwrap();
    assert_eq!(ids.len(), WAITING as usize + 1);
    let (of_other, of_hostile): (Vec<_>, Vec<_>) = ids.iter().partition(|it| it.team_id == other.0);
    // Steps are numbered in their order: what arrived earlier is of a later one.
    let step = of_other[0].version;
    assert!(of_hostile.iter().all(|it| it.version > step), "{step}");
    assert_eq!(copied(&env), kept(&env.catalog).await);
}

async fn a_round_out_of_time_leaves_the_rest_of_a_backlog_to_the_next_round(
    one: TestDatabase,
    _: TestDatabase,
) {
    const WAITING: i64 = 20_000;
    let env = TestEnv::open(&one).await;
    register(&env).await;
    let worker = env.worker_with(WorkerOptions {
        backlogs_max: Duration::ZERO,
        ..options(10_000)
    });
    let (hostile, other) = (env.project_id, env.foreign_project_id);
    let updates: Vec<_> = (0..WAITING)
        .map(|it| of_new_id(hostile, it, "{}"))
        .collect();
    env.store(&updates);
    env.store(&[of_new_id(other, WAITING, "{}")]);
    pass(&env, WAITING + 1).await;
    let rounds = rounds_until(&env, &worker, other, &format!("id {WAITING}")).await;
    assert!(rounds <= ROUNDS_MAX, "{rounds}");
    let applied = applied_of_backlog(&env).await;
    assert!((1..5_000).contains(&applied), "{applied}");
    // The next one reads as little as a round ever does.
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::More);
    let more = applied_of_backlog(&env).await - applied;
    assert!((1..=10_000 / 40).contains(&more), "{more}");
    finish(&worker).await;
    let ids = format!(
        "SELECT uniqExact(distinct_id) FROM `{}`.person_distinct_ids",
        env.database
    );
    assert_eq!(env.ask(&ids, &[]).trim(), (WAITING + 1).to_string());
}

/// Part of a round that is one share.
const SHARES: i64 = 10;

async fn deferred_projects_lose_nothing_and_rejoin_the_others(
    one: TestDatabase,
    other: TestDatabase,
) {
    let env = TestEnv::open(&one).await;
    register(&env).await;
    let project = |number| match number % 5 {
        0 => env.foreign_project_id,
        _ => env.project_id,
    };
    let updates: Vec<_> = (0..900).map(|it| update(project(it), it)).collect();
    let expected = in_one_pass(&other, &updates).await;
    let worker = env.worker(20);
    let mut stored = 0;
    for part in updates.chunks(300) {
        env.store(part);
        stored += 300;
        pass(&env, stored / 10).await;
        // Not to the end: some updates are left when the next ones arrive.
        for _ in 0..9 {
            assert_eq!(worker.round().await.unwrap(), RoundOutcome::More);
        }
        let progress = PersonStore::new(&env.catalog).progress().await.unwrap();
        assert!(!progress.backlogs.is_empty());
    }
    assert!(finish(&worker).await > 5);
    let progress = PersonStore::new(&env.catalog).progress().await.unwrap();
    assert_eq!(progress.backlogs, []);
    let project_ids = [env.project_id, env.foreign_project_id];
    for project_id in project_ids {
        let passed = PersonWatermark::new(&env.catalog)
            .of(project_id)
            .await
            .unwrap();
        assert_eq!(passed, Some(Micros(NOW + 90).into()));
    }
    assert_eq!(kept(&env.catalog).await, expected);
    assert_eq!(copied(&env), expected);
    // Later updates are in the common order again.
    let more = update(env.project_id, 901);
    env.store(std::slice::from_ref(&more));
    pass(&env, 91).await;
    assert_eq!(worker.round().await.unwrap(), RoundOutcome::Done);
    let place = PersonStore::new(&env.catalog)
        .progress()
        .await
        .unwrap()
        .position;
    assert_eq!(place, more.position);
}

async fn new_ids_over_the_limit_are_left_out_until_the_next_hour(
    one: TestDatabase,
    _: TestDatabase,
) {
    const HOUR: i64 = 3_600_000_000;
    let env = TestEnv::open(&one).await;
    register(&env).await;
    let worker = env.worker_with(WorkerOptions {
        growth: GrowthLimits {
            ids_per_hour_max: Some(50),
            ..GrowthLimits::default()
        },
        ..options(20)
    });
    let at = |hour: i64, number: i64| {
        let mut update = of_new_id(env.project_id, hour * 1_000 + number, "{}");
        update.position.created_at = Micros(NOW + hour * HOUR + number);
        update
    };
    for hour in 0..2 {
        let updates: Vec<_> = (0..120).map(|it| at(hour, it)).collect();
        env.store(&updates);
    }
    env.store(&[of_new_id(env.foreign_project_id, 1, "{}")]);
    pass(&env, 2 * HOUR).await;
    finish(&worker).await;
    let kept = kept(&env.catalog).await;
    let known = |project: ProjectId, number: i64| {
        let start = format!("id {} id {number} ", project.0);
        kept.iter().any(|line| line.starts_with(&start))
    };
    // The first ids of each hour are known.
    for hour in 0..2 {
        for number in 0..120 {
            let is_known = known(env.project_id, hour * 1_000 + number);
            assert_eq!(is_known, number < 50, "{hour} {number}");
        }
    }
    assert!(known(env.foreign_project_id, 1));
}
