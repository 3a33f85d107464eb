//! Claims of runs, records under them, and the lease of the leader.

use super::{COMMAND_LINE, HOUR, TestEnv};
use millrace_catalog::leases::EXPORTS_LEASE;
use millrace_catalog::testing::{DatabaseKind, TestDatabase, holding};
use millrace_catalog::{RunStatus, UtcTime};
use millrace_exports::{
    BackfillRange, Backfills, BatchExports, ClaimedRun, ExportRuns, NewRun, RunFilter, RunOutcome,
    RunProgress, RunRoundRobin,
};
use millrace_organizations::testing::fixture::{ALL, NOW};
use std::time::Duration;
use uuid::Uuid;

on_both!(
    one_process_at_a_time_holds_a_lease,
    a_run_is_claimed_once_and_by_another_when_the_claim_lapses,
    one_run_of_an_export_is_claimed_at_a_time,
    runs_by_the_clock_go_before_those_of_backfills,
    a_run_that_failed_is_claimed_again_after_its_pause,
    ten_failed_runs_in_a_row_pause_an_export,
    failed_runs_of_backfills_with_unknown_settings_pause_no_export,
    the_outcome_of_a_record_without_an_answer_is_found,
    an_organization_has_its_share_of_the_runs_and_no_more,
    organizations_take_turns_where_one_run_is_made_at_a_time,
);

/// Time that is longer than a test.
pub const LONG: Duration = Duration::from_secs(3_600);

fn told(status: RunStatus) -> RunProgress {
    RunProgress {
        status,
        records_completed: None,
        records_total_count: None,
        bytes_exported: None,
        cursor: None,
        latest_error: None,
        waits: false,
    }
}

pub async fn begun(env: &TestEnv, export_id: Uuid, backfill_id: Option<Uuid>, number: i64) {
    let window = NewRun {
        backfill_id,
        data_interval_start: Some(UtcTime(NOW.0 + number * HOUR)),
        data_interval_end: UtcTime(NOW.0 + (number + 1) * HOUR),
    };
    env.begin_run(export_id, window).await;
}

pub async fn claim(env: &TestEnv, time: Duration) -> Option<ClaimedRun> {
    claim_in_turns(env, time, &mut RunRoundRobin::new(10)).await
}

async fn claim_in_turns(
    env: &TestEnv,
    time: Duration,
    round_robin: &mut RunRoundRobin,
) -> Option<ClaimedRun> {
    let claimed = ExportRuns::new(&env.fixture.catalog).claim(time, round_robin);
    claimed.await.unwrap()
}

pub async fn record(env: &TestEnv, claimed: &ClaimedRun, status: RunStatus) -> RunOutcome {
    let (id, claim) = (claimed.run.id, claimed.run.claim);
    let catalog = &env.fixture.catalog;
    let recorded = ExportRuns::new(catalog).record(id, claim, told(status), LONG);
    recorded.await.unwrap()
}

async fn one_process_at_a_time_holds_a_lease(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (one, other) = (Uuid::new_v4(), Uuid::new_v4());
    let hold = async |holder, time| {
        let held = env.fixture.catalog.hold_lease(EXPORTS_LEASE, holder, time);
        held.await.unwrap()
    };
    assert!(hold(one, LONG).await);
    assert!(!hold(other, LONG).await, "it is held");
    assert!(hold(one, Duration::ZERO).await, "it is one's own");
    assert!(hold(other, LONG).await, "it has lapsed");
    let release = async |holder| {
        let released = env.fixture.catalog.release_lease(EXPORTS_LEASE, holder);
        released.await.unwrap();
    };
    release(one).await;
    assert!(!hold(one, LONG).await, "it was another's");
    release(other).await;
    assert!(hold(one, LONG).await);
}

async fn a_run_is_claimed_once_and_by_another_when_the_claim_lapses(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let export_id = env.made().await.id;
    assert!(claim(&env, LONG).await.is_none());
    begun(&env, export_id, None, 0).await;
    let slow = claim(&env, Duration::ZERO).await.unwrap();
    assert_eq!(slow.run.status, RunStatus::Running);
    let quick = claim(&env, LONG).await.unwrap();
    assert_eq!(quick.run.id, slow.run.id);
    assert!(claim(&env, LONG).await.is_none());
    for status in [RunStatus::Running, RunStatus::Completed, RunStatus::Failed] {
        assert_eq!(record(&env, &slow, status).await, RunOutcome::Lost);
    }
    assert_eq!(
        record(&env, &quick, RunStatus::Running).await,
        RunOutcome::Kept
    );
    assert!(
        claim(&env, LONG).await.is_none(),
        "the record extends the claim"
    );
    assert_eq!(
        record(&env, &quick, RunStatus::Completed).await,
        RunOutcome::Kept
    );
    assert_eq!(
        record(&env, &quick, RunStatus::Running).await,
        RunOutcome::Lost
    );
    assert!(claim(&env, LONG).await.is_none());
}

async fn one_run_of_an_export_is_claimed_at_a_time(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (one, other) = (env.made().await.id, env.made().await.id);
    for (export_id, number) in [(one, 0), (one, 1), (other, 0)] {
        begun(&env, export_id, None, number).await;
    }
    let first = claim(&env, LONG).await.unwrap();
    let second = claim(&env, LONG).await.unwrap();
    assert_eq!((first.export.id, second.export.id), (one, other));
    assert!(claim(&env, LONG).await.is_none());
    record(&env, &first, RunStatus::Completed).await;
    let third = claim(&env, LONG).await.unwrap();
    assert_eq!((third.export.id, third.run.ordinal), (one, 2));
}

async fn runs_by_the_clock_go_before_those_of_backfills(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let export_id = env.made().await.id;
    let backfill = env.backfill(export_id).await;
    begun(&env, export_id, Some(backfill), 0).await;
    begun(&env, export_id, None, 0).await;
    let claimed = claim(&env, LONG).await.unwrap();
    assert_eq!(claimed.run.backfill_id, None);
    let open = env.backfills_to_plan().await;
    let [open] = open.as_slice() else {
        panic!("{open:?}");
    };
    let end = UtcTime(NOW.0 + HOUR);
    assert_eq!((open.open_runs, open.windows_until), (1, Some(end)));
}

async fn a_run_that_failed_is_claimed_again_after_its_pause(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let export_id = env.made().await.id;
    begun(&env, export_id, None, 0).await;
    let first = claim(&env, LONG).await.unwrap();
    assert_eq!(
        record(&env, &first, RunStatus::FailedRetryable).await,
        RunOutcome::Kept
    );
    assert!(claim(&env, LONG).await.is_none(), "it waits");
    begun(&env, export_id, None, 1).await;
    let next = claim(&env, LONG).await.unwrap();
    assert_eq!(next.run.ordinal, 2, "which holds up no other");
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    record(&env, &next, RunStatus::Failed).await;
    let retried = ExportRuns::new(catalog).retry(actor, place, export_id, next.run.id);
    retried.await.unwrap();
    let again = claim(&env, LONG).await.unwrap();
    assert_eq!((again.run.id, again.run.failures_count), (next.run.id, 0));
}

async fn ten_failed_runs_in_a_row_pause_an_export(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, place) = (&env.fixture.catalog, env.place());
    let export_id = env.made().await.id;
    let failing = [RunStatus::Failed, RunStatus::TimedOut];
    let mut statuses = vec![RunStatus::Failed; 9];
    statuses.push(RunStatus::Completed);
    statuses.extend(failing.iter().cycle().take(10));
    for (number, status) in statuses.iter().enumerate() {
        env.fixture.pass_micros(1);
        begun(&env, export_id, None, number as i64).await;
        let claimed = claim(&env, LONG).await.unwrap();
        let outcome = record(&env, &claimed, *status).await;
        let is_last = number + 1 == statuses.len();
        let expected = if is_last {
            RunOutcome::Paused
        } else {
            RunOutcome::Kept
        };
        assert_eq!(outcome, expected, "{number}");
    }
    let seen = BatchExports::new(catalog)
        .get(place, export_id)
        .await
        .unwrap()
        .unwrap();
    assert!(seen.export.paused);
    let filter = RunFilter::default();
    let listed = ExportRuns::new(catalog)
        .list(place, export_id, filter, ALL)
        .await;
    assert_eq!(listed.unwrap().unwrap().count, 20);
    env.fixture.pass_micros(1);
    let unpaused = BatchExports::new(catalog).unpause(&env.fixture.actor, place, export_id, false);
    unpaused.await.unwrap();
    for number in 0..10 {
        begun(&env, export_id, None, 20 + number).await;
        let claimed = claim(&env, LONG).await.unwrap();
        let outcome = record(&env, &claimed, RunStatus::Failed).await;
        let is_last = number == 9;
        assert_eq!(outcome == RunOutcome::Paused, is_last, "{number} since");
    }
}

async fn failed_runs_of_backfills_with_unknown_settings_pause_no_export(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let export_id = env.made().await.id;
    let backfill = env.backfill(export_id).await;
    database
        .execute("UPDATE batch_export_backfills SET asked_for = '{}'")
        .await
        .unwrap();
    // Runs of the backfill, and then those of the clock, of which ten pause the export.
    let backfills = [Some(backfill); 12].into_iter().chain([None; 10]);
    for (number, backfill) in backfills.enumerate() {
        env.fixture.pass_micros(1);
        begun(&env, export_id, backfill, number as i64).await;
        let claimed = claim(&env, LONG).await.unwrap();
        assert_eq!(claimed.unknown_settings.is_some(), backfill.is_some());
        let outcome = record(&env, &claimed, RunStatus::Failed).await;
        assert_eq!(outcome == RunOutcome::Paused, number == 21, "{number}");
    }
}

async fn the_outcome_of_a_record_without_an_answer_is_found(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let export_id = env.made().await.id;
    let found = async |claimed: &ClaimedRun| {
        let found = ExportRuns::new(catalog).recorded(claimed.run.id, RunStatus::Failed);
        found.await.unwrap()
    };
    for number in 0..10 {
        env.fixture.pass_micros(1);
        begun(&env, export_id, None, number).await;
        let claimed = claim(&env, LONG).await.unwrap();
        assert_eq!(found(&claimed).await, RunOutcome::Lost, "{number}");
        let outcome = record(&env, &claimed, RunStatus::Failed).await;
        assert_eq!(outcome == RunOutcome::Paused, number == 9, "{number}");
        assert_eq!(found(&claimed).await, outcome, "{number}");
    }
    // Somebody pauses the export soon after a record.
    env.fixture.pass_micros(1);
    let unpaused = BatchExports::new(catalog).unpause(actor, place, export_id, false);
    unpaused.await.unwrap();
    begun(&env, export_id, None, 10).await;
    let claimed = claim(&env, LONG).await.unwrap();
    record(&env, &claimed, RunStatus::Failed).await;
    env.fixture.pass_micros(1);
    let paused = BatchExports::new(catalog).pause(actor, place, export_id);
    paused.await.unwrap();
    assert_eq!(found(&claimed).await, RunOutcome::Kept);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_run_waits_longer_for_a_lock_than_its_progress() {
    let database = TestDatabase::of(DatabaseKind::Postgres).await;
    let env = TestEnv::open(&database).await;
    let export_id = env.made().await.id;
    begun(&env, export_id, None, 0).await;
    let claimed = claim(&env, LONG).await.unwrap();
    let lock = format!("SELECT 1 FROM batch_exports WHERE id = '{export_id}' FOR UPDATE");
    let holder = holding(&database, &lock).await;
    let (id, claim, catalog) = (claimed.run.id, claimed.run.claim, &env.fixture.catalog);
    let ended = tokio::spawn({
        let catalog = catalog.clone();
        let completed = told(RunStatus::Completed);
        async move {
            ExportRuns::new(&catalog)
                .record(id, claim, completed, LONG)
                .await
        }
    });
    for _ in 0..2 {
        let running = told(RunStatus::Running);
        let progress = ExportRuns::new(catalog).record(id, claim, running, LONG);
        progress.await.unwrap_err();
    }
    holder.rollback().await.unwrap();
    assert_eq!(ended.await.unwrap().unwrap(), RunOutcome::Kept);
}

/// Windows by the clock of three exports of one organization, and one of a backfill of the other.
async fn hostile_and_other(env: &TestEnv) {
    for _ in 0..3 {
        let export_id = env.made().await.id;
        for number in 0..3 {
            begun(env, export_id, None, number).await;
        }
    }
    let catalog = &env.fixture.catalog;
    let export_id = env.foreign_export().await.id;
    let asked = Backfills::new(catalog).start(
        &COMMAND_LINE,
        env.foreign_place(),
        export_id,
        BackfillRange::default(),
    );
    let backfill_id = asked.await.unwrap().id;
    for number in 0..2 {
        begun(env, export_id, Some(backfill_id), number).await;
    }
}

async fn an_organization_has_its_share_of_the_runs_and_no_more(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    hostile_and_other(&env).await;
    let (hostile, other) = (env.fixture.organization_id, env.fixture.foreign_id);
    for (slots, share) in [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2)] {
        assert_eq!(
            RunRoundRobin::new(slots),
            RunRoundRobin::new(2 * share),
            "{slots}"
        );
    }
    let mut round_robin = RunRoundRobin::new(4);
    let mut claimed = Vec::new();
    while let Some(run) = claim_in_turns(&env, LONG, &mut round_robin).await {
        claimed.push(run);
    }
    let of = |id| {
        claimed
            .iter()
            .filter(|run| run.export.organization_id == id)
            .count()
    };
    assert_eq!(
        (of(hostile), of(other)),
        (2, 1),
        "one export has one run at a time"
    );
    let others = claimed
        .iter()
        .find(|run| run.export.organization_id == other)
        .unwrap();
    record(&env, others, RunStatus::Completed).await;
    // The hostile organization's runs go on for ever.
    let next = claim_in_turns(&env, LONG, &mut round_robin).await.unwrap();
    assert_eq!(next.export.organization_id, other);
    record(&env, &next, RunStatus::Completed).await;
    assert!(claim_in_turns(&env, LONG, &mut round_robin).await.is_none());
}

async fn organizations_take_turns_where_one_run_is_made_at_a_time(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    hostile_and_other(&env).await;
    let (hostile, other) = (env.fixture.organization_id, env.fixture.foreign_id);
    let mut round_robin = RunRoundRobin::new(1);
    let mut made = Vec::new();
    for _ in 0..6 {
        let run = claim_in_turns(&env, LONG, &mut round_robin).await.unwrap();
        record(&env, &run, RunStatus::Completed).await;
        made.push(run.export.organization_id);
    }
    assert_eq!(made, [hostile, other, hostile, other, hostile, hostile]);
}
