//! Backfills of one organization cost another one no turn.

use super::{COMMAND_LINE, HOUR, Stand, blame, new_export};
use crate::fixture::NOW;
use millrace_catalog::limits::{OPEN_BACKFILLS_MAX, OPEN_BACKFILLS_OF_ORGANIZATION_MAX};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    BACKFILL_RUNS_AHEAD, BackfillRange, BackfillTurns, BatchExportBackfill, ChangeError,
    ExportWriter, UtcTime,
};
use uuid::Uuid;

on_both!(
    a_customer_with_150_open_backfills_keeps_no_other_waiting,
    every_backfill_has_its_turn_and_the_first_again,
    what_has_runs_ahead_or_all_of_them_is_not_planned,
    an_organization_has_so_many_backfills_that_have_not_ended,
);

async fn ask(stand: &Stand, export_id: Uuid) -> Result<BatchExportBackfill, ChangeError> {
    let (catalog, actor) = (&stand.fixture.catalog, &stand.fixture.actor);
    let range = BackfillRange::default();
    let asked = catalog.start_export_backfill(actor, stand.place(), export_id, range);
    asked.await
}

async fn foreign(stand: &Stand) -> Uuid {
    let catalog = &stand.fixture.catalog;
    let writer = ExportWriter {
        actor: &COMMAND_LINE,
        place: stand.foreign_place(),
        ..stand.writer()
    };
    let export = catalog.create_batch_export(writer, new_export()).await;
    let (id, range) = (export.unwrap().export.id, BackfillRange::default());
    let asked = catalog.start_export_backfill(&COMMAND_LINE, stand.foreign_place(), id, range);
    asked.await.unwrap().id
}

async fn a_customer_with_150_open_backfills_keeps_no_other_waiting(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let exports = [stand.made().await.id, stand.made().await.id];
    for number in 0..150 {
        ask(&stand, exports[number % 2]).await.unwrap();
    }
    let other = foreign(&stand).await;
    let mut turns = BackfillTurns::default();
    let mut planned = Vec::new();
    for _ in 0..4 {
        let next = stand.fixture.catalog.next_backfill_to_plan(&turns, &[]);
        let next = next.await.unwrap().unwrap();
        turns.had(&next);
        planned.push(next.backfill.id);
    }
    let turns_of_other = planned.iter().filter(|id| **id == other).count();
    assert_eq!(turns_of_other, 2, "every second one");
    let busy = [stand.place().organization_id];
    let next = stand.fixture.catalog.next_backfill_to_plan(&turns, &busy);
    assert_eq!(next.await.unwrap().unwrap().backfill.id, other);
}

async fn every_backfill_has_its_turn_and_the_first_again(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let exports = [stand.made().await.id, stand.made().await.id];
    let mut asked = Vec::new();
    for number in 0..150 {
        asked.push(ask(&stand, exports[number % 2]).await.unwrap().id);
    }
    let mut turns = BackfillTurns::default();
    let mut planned = Vec::new();
    for _ in 0..151 {
        let next = stand.fixture.catalog.next_backfill_to_plan(&turns, &[]);
        let next = next.await.unwrap().unwrap();
        turns.had(&next);
        planned.push(next.backfill.id);
    }
    let again = planned.pop();
    assert_eq!(again, planned.first().copied());
    planned.sort_unstable();
    asked.sort_unstable();
    assert_eq!(planned, asked);
}

async fn what_has_runs_ahead_or_all_of_them_is_not_planned(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let catalog = &stand.fixture.catalog;
    let export_id = stand.made().await.id;
    let id = ask(&stand, export_id).await.unwrap().id;
    let begin = async |number: i64| {
        let window = (UtcTime(number * HOUR), UtcTime((number + 1) * HOUR));
        let begun = catalog.begin_backfill_run(id, window).await.unwrap();
        assert!(begun.is_some());
    };
    let ahead = i64::try_from(BACKFILL_RUNS_AHEAD).unwrap();
    let mut made = 0;
    while !stand.backfills_to_plan().await.is_empty() {
        begin(made).await;
        made += 1;
    }
    assert!((1..=ahead).contains(&made), "{made}");
    let (actor, place) = (&stand.fixture.actor, stand.place());
    let cancelled = catalog.cancel_export_backfill(actor, place, export_id, id);
    cancelled.await.unwrap();

    let id = ask(&stand, export_id).await.unwrap().id;
    assert!(catalog.plan_export_backfill(id, 2).await.unwrap());
    let windows = |number: i64| {
        (
            UtcTime(NOW.0 + number * HOUR),
            UtcTime(NOW.0 + (number + 1) * HOUR),
        )
    };
    for number in 0..2 {
        assert_eq!(stand.backfills_to_plan().await.len(), 1, "{number} of two");
        catalog
            .begin_backfill_run(id, windows(number))
            .await
            .unwrap();
    }
    assert!(stand.backfills_to_plan().await.is_empty(), "it has both");
}

async fn an_organization_has_so_many_backfills_that_have_not_ended(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let exports = OPEN_BACKFILLS_OF_ORGANIZATION_MAX / OPEN_BACKFILLS_MAX;
    for _ in 0..exports {
        let id = stand.made().await.id;
        for _ in 0..OPEN_BACKFILLS_MAX {
            ask(&stand, id).await.unwrap();
        }
    }
    let id = stand.made().await.id;
    let error = ask(&stand, id).await.unwrap_err();
    assert_eq!(blame(&error), (None, "invalid_input"));
    let words = format!("at most {OPEN_BACKFILLS_OF_ORGANIZATION_MAX} backfills");
    assert!(error.to_string().contains(&words), "{error}");
    assert!(error.to_string().contains("cancel one"), "{error}");
    foreign(&stand).await;
}
