//! Lookups of stored rows, of running inserts and of the server's boot id.

use crate::fixture::{Database, NOVEMBER, events, key};
use millrace_clickhouse::{EventIdentity, EventVersion, PRESENCE_KEYS_MAX, PresenceCount};
use millrace_embedded::testing::TestEngine;
use millrace_rows::{Micros, Month, ProjectId, RejectedRow, RowKey, Table};
use std::ops::Range;
use uuid::Uuid;

const MONTH: Month = Month(202_611);

#[tokio::test(flavor = "multi_thread")]
async fn one_stored_row_among_the_keys_is_found() {
    let database = Database::make("presence").await;
    database
        .insert("e", &events(0..1_000, NOVEMBER))
        .await
        .unwrap();
    let elsewhen = RowKey {
        received_at: Micros(1),
        ..key(5)
    };
    let table = [
        ("a stored row", vec![key(999)], MONTH, true),
        (
            "one of several",
            vec![key(5_000), key(0), key(6_000)],
            MONTH,
            true,
        ),
        ("no stored row", vec![key(1_000), key(2_000)], MONTH, false),
        ("another time", vec![elsewhen], MONTH, false),
        ("another month", vec![key(5)], Month(202_610), false),
        ("no key", vec![], MONTH, false),
    ];
    for (what, keys, month, expected) in table {
        let asked = database.clickhouse.any_present(Table::Events, month, &keys);
        assert_eq!(asked.await.unwrap(), expected, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_keys_among_many_are_counted_with_their_rows() {
    let database = Database::make("counted").await;
    database
        .insert("e", &events(0..1_000, NOVEMBER))
        .await
        .unwrap();
    database
        .insert("again", &events(0..10, NOVEMBER))
        .await
        .unwrap();
    let keys = |ids: Range<u64>| ids.map(key).collect::<Vec<_>>();
    let most = PRESENCE_KEYS_MAX as u64;
    for (keys, month, found, rows) in [
        (keys(0..most), MONTH, 1_000, 1_010),
        (keys(990..1_100), MONTH, 10, 10),
        (keys(1_000..2_000), MONTH, 0, 0),
        (keys(0..10), Month(202_610), 0, 0),
        (vec![], MONTH, 0, 0),
    ] {
        let asked = database
            .clickhouse
            .count_present(Table::Events, month, &keys);
        assert_eq!(asked.await.unwrap(), PresenceCount { keys: found, rows });
    }
}

/// Version of event 5 that was received so many microseconds after the first one.
fn version(project_id: i64, timestamp: i64, texts: [&str; 2], later_micros: i64) -> EventVersion {
    let RowKey {
        id, received_at, ..
    } = key(5);
    let [name, distinct_id] = texts.map(str::as_bytes);
    let (project_id, timestamp) = (ProjectId(project_id), Micros(timestamp));
    EventVersion {
        identity: EventIdentity::new(project_id, id, timestamp, name, distinct_id),
        created_at: received_at.plus_micros(later_micros),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_later_ones_replaced_count_as_stored() {
    let database = Database::make("replaced").await;
    database
        .insert("e", &events(0..10, NOVEMBER))
        .await
        .unwrap();
    // Their client sends them again a second later, and they are merged.
    database
        .execute(
            "INSERT INTO replaced.events (uuid, event, properties, timestamp, team_id, distinct_id, \
             created_at, historical_migration) SELECT uuid, event, properties, timestamp, team_id, \
             distinct_id, created_at + toIntervalSecond(1), historical_migration FROM replaced.events",
        )
        .await;
    database
        .execute("OPTIMIZE TABLE replaced.events FINAL SETTINGS optimize_throw_if_noop = 1")
        .await;
    let keys = [key(5)];
    let counted = database
        .clickhouse
        .count_present(Table::Events, MONTH, &keys);
    assert_eq!(counted.await.unwrap(), PresenceCount::default());
    let (texts, day) = (["seen", "somebody"], 86_400_000_000);
    let first = version(1, NOVEMBER, texts, 0);
    let stored = version(1, NOVEMBER, texts, 1_000_000);
    let later = version(1, NOVEMBER, texts, 1_000_001);
    for (what, events, month, expected) in [
        ("none", vec![], MONTH, true),
        ("the first", vec![first], MONTH, true),
        ("the stored one", vec![stored], MONTH, true),
        ("both", vec![stored, first], MONTH, true),
        ("a later one", vec![later], MONTH, false),
        ("a later one, too", vec![first, later], MONTH, false),
        ("another month", vec![first], Month(202_610), false),
        (
            "another project's",
            vec![version(2, NOVEMBER, texts, 0)],
            MONTH,
            false,
        ),
        (
            "of another day",
            vec![version(1, NOVEMBER + day, texts, 0)],
            MONTH,
            false,
        ),
        (
            "of another name",
            vec![version(1, NOVEMBER, ["left", "somebody"], 0)],
            MONTH,
            false,
        ),
        (
            "of somebody else",
            vec![first, version(1, NOVEMBER, ["seen", "else"], 0)],
            MONTH,
            false,
        ),
    ] {
        let asked = database.clickhouse.are_stored_or_replaced(month, &events);
        assert_eq!(asked.await.unwrap(), expected, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_event_is_found_by_its_request() {
    let database = Database::make("presence_rejected").await;
    let rejected = RejectedRow {
        team_id: ProjectId(3),
        received_at: Micros(NOVEMBER),
        request_id: Uuid::from_u128(5),
        index: 2,
        code: "missing",
        attr: "event",
        detail: "no name",
        raw: b"{}",
        historical_migration: false,
    };
    let mut rows = Vec::new();
    rejected.append_to(&mut rows);
    let target = Table::RejectedEvents.insert_target();
    database.insert_into(target, "r", &rows).await.unwrap();
    let with_index = |index| RowKey {
        index,
        ..rejected.key()
    };
    // Without an index, as in the log's keys, any row of the request counts.
    let both = [with_index(Some(1)), with_index(Some(2))];
    let counted = database
        .clickhouse
        .count_present(Table::RejectedEvents, MONTH, &both);
    assert_eq!(counted.await.unwrap(), PresenceCount { keys: 1, rows: 1 });
    for (keys, expected) in [
        (vec![with_index(Some(2))], true),
        (vec![with_index(Some(1)), with_index(Some(3))], false),
        (vec![with_index(None)], true),
        (vec![with_index(Some(1)), with_index(None)], true),
        (vec![key(5)], false),
    ] {
        let asked = database
            .clickhouse
            .any_present(Table::RejectedEvents, MONTH, &keys);
        assert_eq!(asked.await.unwrap(), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_boot_id_changes_with_a_restart_and_only_then() {
    let mut engine = TestEngine::start();
    let database = Database::make_on(&engine, "runs").await;
    let first = database.clickhouse.server_boot_id("me").await.unwrap();
    let other = database.clickhouse.server_boot_id("you").await.unwrap();
    assert_ne!(first, other);
    assert_eq!(
        database.clickhouse.server_boot_id("me").await.unwrap(),
        first
    );
    engine.kill9();
    engine.restart();
    let second = database.clickhouse.server_boot_id("me").await.unwrap();
    assert_ne!(second, first);
    assert_eq!(
        database.clickhouse.server_boot_id("me").await.unwrap(),
        second
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_is_seen_while_it_runs() {
    let database = Database::make("running").await;
    assert!(!database.clickhouse.insert_is_running("t").await.unwrap());
    // A view that takes its time keeps the insert running until it is seen.
    database
        .execute("CREATE TABLE running.slow (n UInt8) ENGINE = Null")
        .await;
    database
        .execute(
            "CREATE MATERIALIZED VIEW running.view TO running.slow AS \
             SELECT sleepEachRow(0.5) AS n FROM running.events",
        )
        .await;
    let rows = events(0..6, NOVEMBER);
    let insert = database.insert("t", &rows);
    let seen = async {
        while !database.clickhouse.insert_is_running("t").await.unwrap() {
            tokio::task::yield_now().await;
        }
    };
    let (inserted, ()) = tokio::join!(insert, seen);
    inserted.unwrap();
    assert!(!database.clickhouse.insert_is_running("t").await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_reports_its_version_and_uptime() {
    let database = Database::make("about").await;
    database.clickhouse.ping().await.unwrap();
    let version = database.clickhouse.version().await.unwrap();
    assert!(version.split('.').count() >= 3, "{version}");
    database.clickhouse.uptime_seconds().await.unwrap();
}
