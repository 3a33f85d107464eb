//! Backfills are planned apart from windows by the clock, and from those of others.

use super::slow_counts::SlowCounts;
use super::stand::{Stand, WINDOW, new_export};
use millrace_catalog::testing::{TestDatabase, on_both};
use millrace_catalog::{Actor, BackfillRange, DestinationType, ExportPlace, RunStatus, TeamId};
use serde_json::json;
use uuid::Uuid;

static SYSTEM: Actor = Actor::system();

on_both!(
    a_slow_count_keeps_neither_windows_by_the_clock_nor_another_customer_waiting,
    an_export_that_is_deleted_while_it_is_counted_keeps_no_other_waiting,
);

/// Exports of another organization, each with a backfill whose count never ends.
async fn slow_backfills(stand: &Stand, place: ExportPlace) -> (TeamId, Vec<(Uuid, Uuid)>) {
    let (mut team_id, mut backfills) = (TeamId(0), Vec::new());
    for _ in 0..3 {
        let mut new = new_export(DestinationType::NoOp, &json!({}));
        new.paused = true;
        let export = stand.make_at(place, new).await;
        team_id = TeamId(export.team_id);
        let range = BackfillRange::default();
        let asked = stand
            .catalog
            .start_export_backfill(&SYSTEM, place, export.id, range);
        backfills.push((export.id, asked.await.unwrap().id));
    }
    stand.store(team_id, &[(1, -WINDOW, -WINDOW)]).await;
    (team_id, backfills)
}

async fn a_slow_count_keeps_neither_windows_by_the_clock_nor_another_customer_waiting(
    database: TestDatabase,
) {
    let stand = Stand::open(&database).await;
    let hostile = stand.organization("Hostile").await;
    let (team_id, backfills) = slow_backfills(&stand, hostile).await;
    let live = stand.export(json!({})).await;
    let events = [(1, -WINDOW, -WINDOW), (2, 1, 1)];
    stand.store(stand.team_id, &events).await;
    stand.pass(0).await;
    let mut counts = SlowCounts::start(&stand.settings.url, team_id.0).await;
    let _process = stand.start_through(&counts.url);
    counts.until_held().await;

    stand.pass(WINDOW).await;
    let runs = stand.until_ended(live.id, 1).await;
    assert_eq!(runs[0].status, RunStatus::Completed, "{runs:?}");
    let other = stand.backfill(live.id, None, None).await;
    let ended = stand.backfill_ended(live.id, other).await;
    assert_eq!(ended, RunStatus::Completed);
    assert_eq!(counts.held(), 1, "one of an organization at a time");

    counts.go_on();
    for (export_id, id) in backfills {
        let ended = stand.backfill_ended_at(hostile, export_id, id).await;
        assert_eq!(ended, RunStatus::Completed);
    }
}

async fn an_export_that_is_deleted_while_it_is_counted_keeps_no_other_waiting(
    database: TestDatabase,
) {
    let stand = Stand::open(&database).await;
    let hostile = stand.organization("Hostile").await;
    let (team_id, backfills) = slow_backfills(&stand, hostile).await;
    stand.pass(0).await;
    let mut counts = SlowCounts::start(&stand.settings.url, team_id.0).await;
    let _process = stand.start_through(&counts.url);
    counts.until_held().await;
    let (deleted, _) = backfills[0];
    let gone = stand.catalog.delete_batch_export(&SYSTEM, hostile, deleted);
    gone.await.unwrap();
    counts.go_on();
    for (export_id, id) in &backfills[1..] {
        let ended = stand.backfill_ended_at(hostile, *export_id, *id).await;
        assert_eq!(ended, RunStatus::Completed);
    }
}
