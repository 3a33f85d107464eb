//! Fairness of backfills: those of one organization cost another one no turn.

use super::{COMMAND_LINE, HOUR, TestEnv, violation};
use millrace_catalog::limits::{OPEN_BACKFILLS_MAX, OPEN_BACKFILLS_OF_ORGANIZATION_MAX};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{BatchExportBackfill, ChangeError, UtcTime};
use millrace_exports::{
    BACKFILL_RUNS_AHEAD, BackfillRange, BackfillRoundRobin, Backfills, ExportRuns,
};
use millrace_organizations::testing::fixture::NOW;
use uuid::Uuid;

on_both!(
    a_customer_with_150_open_backfills_keeps_no_other_waiting,
    every_backfill_has_its_turn_and_the_first_again,
    a_backfill_with_enough_or_all_runs_made_is_not_planned,
    an_organization_has_a_limit_of_open_backfills,
);

async fn ask(env: &TestEnv, export_id: Uuid) -> Result<BatchExportBackfill, ChangeError> {
    let (catalog, actor) = (&env.fixture.catalog, &env.fixture.actor);
    let range = BackfillRange::default();
    let asked = Backfills::new(catalog).start(actor, env.place(), export_id, range);
    asked.await
}

async fn foreign(env: &TestEnv) -> Uuid {
    let catalog = &env.fixture.catalog;
    let (id, range) = (env.foreign_export().await.id, BackfillRange::default());
    let asked = Backfills::new(catalog).start(&COMMAND_LINE, env.foreign_place(), id, range);
    asked.await.unwrap().id
}

async fn a_customer_with_150_open_backfills_keeps_no_other_waiting(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let exports = [env.made().await.id, env.made().await.id];
    for number in 0..150 {
        ask(&env, exports[number % 2]).await.unwrap();
    }
    let other = foreign(&env).await;
    let mut round_robin = BackfillRoundRobin::default();
    let mut planned = Vec::new();
    for _ in 0..4 {
        let next = Backfills::new(&env.fixture.catalog).next_to_plan(&round_robin, &[]);
        let next = next.await.unwrap().unwrap();
        round_robin.mark_served(&next);
        planned.push(next.backfill.id);
    }
    let turns_of_other = planned.iter().filter(|id| **id == other).count();
    assert_eq!(turns_of_other, 2, "every second one");
    let busy = [env.place().organization_id];
    let next = Backfills::new(&env.fixture.catalog).next_to_plan(&round_robin, &busy);
    assert_eq!(next.await.unwrap().unwrap().backfill.id, other);
}

async fn every_backfill_has_its_turn_and_the_first_again(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let exports = [env.made().await.id, env.made().await.id];
    let mut asked = Vec::new();
    for number in 0..150 {
        asked.push(ask(&env, exports[number % 2]).await.unwrap().id);
    }
    let mut round_robin = BackfillRoundRobin::default();
    let mut planned = Vec::new();
    for _ in 0..151 {
        let next = Backfills::new(&env.fixture.catalog).next_to_plan(&round_robin, &[]);
        let next = next.await.unwrap().unwrap();
        round_robin.mark_served(&next);
        planned.push(next.backfill.id);
    }
    let again = planned.pop();
    assert_eq!(again, planned.first().copied());
    planned.sort_unstable();
    asked.sort_unstable();
    assert_eq!(planned, asked);
}

async fn a_backfill_with_enough_or_all_runs_made_is_not_planned(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let export_id = env.made().await.id;
    let id = ask(&env, export_id).await.unwrap().id;
    let begin = async |number: i64| {
        let window = (UtcTime(number * HOUR), UtcTime((number + 1) * HOUR));
        let begun = ExportRuns::new(catalog)
            .begin_of_backfill(id, window)
            .await
            .unwrap();
        assert!(begun.is_some());
    };
    let ahead = i64::try_from(BACKFILL_RUNS_AHEAD).unwrap();
    let mut made = 0;
    while !env.backfills_to_plan().await.is_empty() {
        begin(made).await;
        made += 1;
    }
    assert!((1..=ahead).contains(&made), "{made}");
    let (actor, place) = (&env.fixture.actor, env.place());
    let cancelled = Backfills::new(catalog).cancel(actor, place, export_id, id);
    cancelled.await.unwrap();

    let id = ask(&env, export_id).await.unwrap().id;
    assert!(Backfills::new(catalog).plan(id, 2).await.unwrap());
    let windows = |number: i64| {
        (
            UtcTime(NOW.0 + number * HOUR),
            UtcTime(NOW.0 + (number + 1) * HOUR),
        )
    };
    for number in 0..2 {
        assert_eq!(env.backfills_to_plan().await.len(), 1, "{number} of two");
        ExportRuns::new(catalog)
            .begin_of_backfill(id, windows(number))
            .await
            .unwrap();
    }
    assert!(env.backfills_to_plan().await.is_empty(), "it has both");
}

async fn an_organization_has_a_limit_of_open_backfills(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let exports = OPEN_BACKFILLS_OF_ORGANIZATION_MAX / OPEN_BACKFILLS_MAX;
    for _ in 0..exports {
        let id = env.made().await.id;
        for _ in 0..OPEN_BACKFILLS_MAX {
            ask(&env, id).await.unwrap();
        }
    }
    let id = env.made().await.id;
    let error = ask(&env, id).await.unwrap_err();
    assert_eq!(violation(&error), (None, "invalid_input"));
    let words = format!("at most {OPEN_BACKFILLS_OF_ORGANIZATION_MAX} backfills");
    assert!(error.to_string().contains(&words), "{error}");
    assert!(error.to_string().contains("cancel one"), "{error}");
    foreign(&env).await;
}
