//! Rounds beside a project that sends all it can, and how many ids it may make known.

use crate::stand::{NODES, NOW, Stand, options, update};
use crate::working::{copied, in_one_pass, kept, register};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{PersonUpdate, TeamId};
use millrace_persons::{Round, Worker, WorkerOptions};
use millrace_rows::{Micros, UpdateKind};
use uuid::Uuid;

on_both!(
    nobody_waits_for_a_project_however_much_it_has_waiting,
    few_large_updates_hold_nobody_up_either,
    projects_that_wait_apart_lose_nothing_and_join_the_others_again,
    beyond_the_limit_new_ids_are_left_out_until_the_next_hour,
);

const HOSTILE: i64 = 400_000;
const UPDATES_MAX: usize = 2_000;
/// Rounds until another project's update is applied: the first sees that there is too much of one.
const ROUNDS_MAX: usize = 2;

/// An event of an id of its own.
pub fn of_new_id(team_id: TeamId, number: i64, set: &str) -> PersonUpdate {
    let mut update = update(team_id, number);
    update.kind = UpdateKind::Properties;
    update.place.created_at = Micros(NOW + number);
    update.place.request_id = Uuid::from_u128(1);
    update.distinct_id = format!("id {number}");
    update.other_id = String::new();
    update.group_type = String::new();
    update.person_set = set.to_owned();
    update.person_set_once = String::new();
    update.person_unset = String::new();
    update
}

pub async fn pass(stand: &Stand, at: i64) {
    for node in NODES {
        stand.pass(node, at).await;
    }
}

/// Rounds until ClickHouse has the person of an id.
pub async fn rounds_until(stand: &Stand, worker: &Worker, team_id: TeamId, id: &str) -> usize {
    let sql = format!(
        "SELECT count() FROM `{}`.person_distinct_ids WHERE team_id = {} AND distinct_id = '{id}'",
        stand.database, team_id.0
    );
    for rounds in 1.. {
        worker.round().await.unwrap();
        if stand.ask(&sql, &[]).trim() != "0" {
            return rounds;
        }
        assert!(rounds < 50, "{id} waits");
    }
    0
}

/// All that is left; answers how many rounds it took.
async fn finish(worker: &Worker) -> usize {
    let mut rounds = 1;
    while worker.round().await.unwrap() == Round::More {
        rounds += 1;
    }
    rounds
}

async fn nobody_waits_for_a_project_however_much_it_has_waiting(
    one: TestDatabase,
    _: TestDatabase,
) {
    let stand = Stand::open(&one).await;
    register(&stand).await;
    let worker = stand.worker(UPDATES_MAX);
    let (hostile, other) = (stand.team_id, stand.foreign_team_id);
    for begin in (0..HOSTILE).step_by(50_000) {
        let numbers = begin..begin + 50_000;
        let updates: Vec<_> = numbers.map(|it| of_new_id(hostile, it, "{}")).collect();
        stand.store(&updates);
    }
    stand.store(&[of_new_id(other, HOSTILE, "{}")]);
    pass(&stand, HOSTILE + 1).await;
    let rounds = rounds_until(&stand, &worker, other, &format!("id {HOSTILE}")).await;
    assert!(rounds <= ROUNDS_MAX, "{rounds}");
    // Exports of the other one's persons wait no longer either.
    let passed = stand.catalog.persons_watermark_of(other).await.unwrap();
    assert_eq!(passed, Some(Micros(NOW + HOSTILE + 1).into()));
    // So it is with what comes later, while the backlog is worked off.
    for later in 1..4 {
        let at = HOSTILE + 1_000 * later;
        let more = (1..1_000).map(|it| of_new_id(hostile, at + it, "{}"));
        stand.store(&more.collect::<Vec<_>>());
        stand.store(&[of_new_id(other, at, "{}")]);
        pass(&stand, at + 1_000).await;
        let rounds = rounds_until(&stand, &worker, other, &format!("id {at}")).await;
        assert_eq!(rounds, 1);
    }
    let progress = stand.catalog.person_progress().await.unwrap();
    let [backlog] = progress.backlogs.as_slice() else {
        panic!("{progress:?}");
    };
    // What the others left of each round was its own.
    let applied = backlog.place.created_at.0 - NOW + 1;
    assert!(backlog.team_id == hostile && applied > 3 * UPDATES_MAX as i64 && applied < HOSTILE);
}

async fn few_large_updates_hold_nobody_up_either(one: TestDatabase, _: TestDatabase) {
    let stand = Stand::open(&one).await;
    register(&stand).await;
    let worker = stand.worker_with(WorkerOptions {
        bytes_max: 64 << 10,
        ..options(UPDATES_MAX)
    });
    let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(64 << 10));
    let updates: Vec<_> = (0..UPDATES_MAX as i64 / SHARES)
        .map(|it| of_new_id(stand.team_id, it, &large))
        .collect();
    stand.store(&updates);
    stand.store(&[of_new_id(stand.foreign_team_id, 1_000, "{}")]);
    pass(&stand, 1_001).await;
    let rounds = rounds_until(&stand, &worker, stand.foreign_team_id, "id 1000").await;
    assert!(rounds <= ROUNDS_MAX, "{rounds}");
}

/// So few updates are no more than a share of a round.
const SHARES: i64 = 10;

async fn projects_that_wait_apart_lose_nothing_and_join_the_others_again(
    one: TestDatabase,
    other: TestDatabase,
) {
    let stand = Stand::open(&one).await;
    register(&stand).await;
    let team = |number| match number % 5 {
        0 => stand.foreign_team_id,
        _ => stand.team_id,
    };
    let updates: Vec<_> = (0..900).map(|it| update(team(it), it)).collect();
    let expected = in_one_pass(&other, &updates).await;
    let worker = stand.worker(20);
    let mut stored = 0;
    for part in updates.chunks(300) {
        stand.store(part);
        stored += 300;
        pass(&stand, stored / 10).await;
        // Not to the end: something is left when the next arrives.
        for _ in 0..9 {
            assert_eq!(worker.round().await.unwrap(), Round::More);
        }
        let progress = stand.catalog.person_progress().await.unwrap();
        assert!(!progress.backlogs.is_empty());
    }
    assert!(finish(&worker).await > 5);
    let progress = stand.catalog.person_progress().await.unwrap();
    assert_eq!(progress.backlogs, []);
    let teams = [stand.team_id, stand.foreign_team_id];
    for team_id in teams {
        let passed = stand.catalog.persons_watermark_of(team_id).await.unwrap();
        assert_eq!(passed, Some(Micros(NOW + 90).into()));
    }
    assert_eq!(kept(&stand.catalog).await, expected);
    assert_eq!(copied(&stand), expected);
    // And what comes now is in the common order again.
    let more = update(stand.team_id, 901);
    stand.store(std::slice::from_ref(&more));
    pass(&stand, 91).await;
    assert_eq!(worker.round().await.unwrap(), Round::Done);
    let place = stand.catalog.person_progress().await.unwrap().place;
    assert_eq!(place, more.place);
}

async fn beyond_the_limit_new_ids_are_left_out_until_the_next_hour(
    one: TestDatabase,
    _: TestDatabase,
) {
    const HOUR: i64 = 3_600_000_000;
    let stand = Stand::open(&one).await;
    register(&stand).await;
    let worker = stand.worker_with(WorkerOptions {
        new_ids_per_hour_max: Some(50),
        ..options(20)
    });
    let at = |hour: i64, number: i64| {
        let mut update = of_new_id(stand.team_id, hour * 1_000 + number, "{}");
        update.place.created_at = Micros(NOW + hour * HOUR + number);
        update
    };
    for hour in 0..2 {
        let updates: Vec<_> = (0..120).map(|it| at(hour, it)).collect();
        stand.store(&updates);
    }
    stand.store(&[of_new_id(stand.foreign_team_id, 1, "{}")]);
    pass(&stand, 2 * HOUR).await;
    finish(&worker).await;
    let kept = kept(&stand.catalog).await;
    let known = |team: TeamId, number: i64| {
        let start = format!("id {} id {number} ", team.0);
        kept.iter().any(|line| line.starts_with(&start))
    };
    // The first of each hour.
    for hour in 0..2 {
        for number in 0..120 {
            let is_known = known(stand.team_id, hour * 1_000 + number);
            assert_eq!(is_known, number < 50, "{hour} {number}");
        }
    }
    assert!(known(stand.foreign_team_id, 1));
}
