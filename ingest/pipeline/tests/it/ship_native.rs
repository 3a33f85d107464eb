//! The shipper with native blocks: the table has the rows that it has of RowBinary.

use crate::ship_fixture::{Database, FORMATS, LIMITS, TIMES, event, start_with};
use millrace_embedded::testing::shared;
use millrace_pipeline::ship::Limits;
use millrace_rows::EventRow;
use std::time::Duration;

/// Limits by which only full inserts are sent, and the rest at the end.
const FULL: Limits = Limits {
    age_recent: Duration::from_secs(3_600),
    age_old: Duration::from_secs(3_600),
    ..LIMITS
};

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_every_month_arrive_once_in_each_format() {
    let mut stored = Vec::new();
    for (name, format) in FORMATS {
        let database = Database::on(shared(), &format!("ship_format_{name}"));
        database.migrate().await;
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, shipping) = start_with(dir.path(), &database, FULL, format);
        for _ in 0..60 {
            writer.write(&TIMES, 100, &[b'x'; 300]);
        }
        shipping.stop().await;
        writer.settled().await;
        assert_eq!(database.counts().await, (18_000, 18_000), "{name}");
        let parts = "SELECT count() FROM system.parts \
                     WHERE database = '{db}' AND table = 'events' AND active";
        // 6 000 rows of each of three months in inserts of 5 000.
        assert_eq!(database.number(parts).await, 6, "{name}");
        let all = "SELECT sum(cityHash64(uuid, event, properties, timestamp, team_id, \
                   distinct_id, created_at, historical_migration)) FROM {db}.events";
        stored.push(database.number(all).await);
    }
    assert!(stored.iter().all(|sum| *sum == stored[0]), "{stored:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_of_one_event_in_a_batch_are_one_row_in_each_format() {
    for (name, format) in FORMATS {
        let database = Database::on(shared(), &format!("ship_versions_{name}"));
        database.migrate().await;
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, shipping) = start_with(dir.path(), &database, FULL, format);
        writer.write(&TIMES[..1], 100, b"{}");
        writer.continue_from(50);
        writer.write(&TIMES[..1], 100, b"{\"again\":1}");
        shipping.stop().await;
        writer.settled().await;
        assert_eq!(database.counts().await, (150, 150), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_clickhouse_refuses_in_a_block_is_dead_lettered_alone() {
    for (name, format) in FORMATS {
        let database = Database::on(shared(), &format!("ship_refused_{name}"));
        database.migrate().await;
        let refuse = "ALTER TABLE {db}.events ADD CONSTRAINT c CHECK properties != 'bad'";
        database.execute(refuse).await;
        let dir = tempfile::tempdir().unwrap();
        let (mut writer, shipping) = start_with(dir.path(), &database, FULL, format);
        let (mut bytes, mut keys) = (Vec::new(), Vec::new());
        for id in 0..100 {
            let properties: &[&[u8]] = match id {
                42 => &[b"bad"],
                _ => &[b"{}"],
            };
            let row = EventRow {
                properties,
                ..event(id, TIMES[0])
            };
            row.append_to(&mut bytes);
            keys.push(row.key());
        }
        let refused = writer.section(TIMES[0], 100, &bytes, &keys[..4]);
        writer.append(&[refused]);
        writer.continue_from(100);
        writer.write(&TIMES[..1], 100, b"{}");
        shipping.stop().await;
        writer.settled().await;
        assert_eq!(database.counts().await, (199, 199), "{name}");
        let dead_lettered = std::fs::read_dir(dir.path().join("dead-letters")).unwrap();
        let names = dead_lettered.map(|entry| entry.unwrap().path());
        let labels = names.filter(|path| path.extension() == Some("json".as_ref()));
        assert_eq!(labels.count(), 1, "{name}");
    }
}
