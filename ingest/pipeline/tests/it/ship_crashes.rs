//! The engine and the shipper killed in the middle of inserts: every row arrives exactly once.

use crate::ship_fixture::{Database, FORMATS, LIMITS, TIMES, Writer, start, start_with};
use millrace_embedded::testing::{TestEngine, shared};
use millrace_pipeline::ship::{InsertFormat, Limits};
use millrace_rows::testing::number_from_env;
use rand::{RngExt, SeedableRng};
use std::path::Path;
use std::time::Duration;

/// Crashes of a test, unless `MILLRACE_SHIP_KILLS` says otherwise.
const CRASHES: u64 = 6;
/// Properties of a few hundred bytes, so that inserts take some milliseconds.
const PROPERTIES: [u8; 300] = [b'x'; 300];

fn crashes() -> u64 {
    number_from_env("MILLRACE_SHIP_KILLS", CRASHES)
}

/// Writes frames for a random while, so that the crash hits any state of the shipper.
async fn write_for_a_while(writer: &mut Writer, random: &mut impl RngExt) {
    for _ in 0..random.random_range(5..40) {
        writer.write(&TIMES, random.random_range(1..200), &PROPERTIES);
        tokio::time::sleep(Duration::from_millis(random.random_range(0..10))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_killed_repeatedly_has_every_row_once() {
    kill_engine_repeatedly(InsertFormat::RowBinary).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_killed_repeatedly_has_every_row_of_native_blocks_once() {
    kill_engine_repeatedly(InsertFormat::NativePlain).await;
}

async fn kill_engine_repeatedly(format: InsertFormat) {
    let mut random = rand::rngs::StdRng::seed_from_u64(1);
    let mut engine = TestEngine::start();
    let database = Database::on(&engine, "ship_engine_killed");
    database.migrate().await;
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, shipping) = start_with(dir.path(), &database, LIMITS, format);
    for _ in 0..crashes() {
        write_for_a_while(&mut writer, &mut random).await;
        engine.kill9();
        write_for_a_while(&mut writer, &mut random).await;
        engine.restart();
    }
    writer.settled().await;
    let rows = writer.rows();
    assert_eq!(database.counts().await, (rows, rows));
    shipping.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shipper_killed_repeatedly_has_shipped_every_row_once() {
    let mut random = rand::rngs::StdRng::seed_from_u64(2);
    let database = Database::on(shared(), "ship_shipper_killed");
    database.migrate().await;
    let dir = tempfile::tempdir().unwrap();
    let mut rows = 0;
    for _ in 0..crashes() {
        let (mut writer, shipping) = start(dir.path(), &database, LIMITS);
        writer.continue_from(rows);
        write_for_a_while(&mut writer, &mut random).await;
        rows = writer.rows();
        shipping.crash().await;
    }
    let (mut writer, shipping) = start(dir.path(), &database, LIMITS);
    writer.settled().await;
    assert_eq!(database.counts().await, (rows, rows));
    shipping.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_killed_at_once_repeatedly_leave_every_row_once() {
    let mut random = rand::rngs::StdRng::seed_from_u64(3);
    let mut engine = TestEngine::start();
    let database = Database::on(&engine, "ship_both_killed");
    database.migrate().await;
    let dir = tempfile::tempdir().unwrap();
    let mut rows = 0;
    for round in 0..crashes() {
        // Formats change from one start to the next, as by an upgrade.
        let (_, format) = FORMATS[round as usize % FORMATS.len()];
        let (mut writer, shipping) = start_with(dir.path(), &database, LIMITS, format);
        writer.continue_from(rows);
        write_for_a_while(&mut writer, &mut random).await;
        rows = writer.rows();
        if round % 2 == 0 {
            engine.kill9();
            shipping.crash().await;
        } else {
            shipping.crash().await;
            engine.kill9();
        }
        engine.restart();
    }
    let (mut writer, shipping) = start(dir.path(), &database, LIMITS);
    writer.settled().await;
    assert_eq!(database.counts().await, (rows, rows));
    shipping.stop().await;
}

/// Copies the files of a stopped server's folder.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_a_folder_ship_common_rows_once_and_new_rows_each() {
    let database = Database::on(shared(), "ship_copies");
    database.migrate().await;
    let dir = tempfile::tempdir().unwrap();
    let (original, restored) = (dir.path().join("original"), dir.path().join("copy"));
    std::fs::create_dir(&original).unwrap();
    let (mut writer, shipping) = start(&original, &database, LIMITS);
    writer.write(&TIMES, 10, b"{}");
    writer.settled().await;
    shipping.stop().await;
    drop(writer);
    // Rows that wait at the time of the copy: in many frames, so that some will be stored and some
    // not.
    let never = Limits {
        age_recent: Duration::from_secs(3_600),
        age_old: Duration::from_secs(3_600),
        ..LIMITS
    };
    let (mut writer, shipping) = start(&original, &database, never);
    writer.continue_from(30);
    for _ in 0..20 {
        writer.write(&TIMES, 1, b"{}");
    }
    let mut rows = writer.rows();
    shipping.crash().await;
    drop(writer);
    copy(&original, &restored);
    // The original goes on, then the copy takes its place, then both run: each time a frame of one
    // row.
    for runs in [vec![&original], vec![&restored], vec![&original, &restored]] {
        let mut running: Vec<_> = runs
            .into_iter()
            .map(|dir| start(dir, &database, LIMITS))
            .collect();
        for (writer, _) in &mut running {
            writer.continue_from(rows);
            writer.write(&TIMES[..1], 1, b"{}");
            rows = writer.rows();
        }
        for (mut writer, shipping) in running {
            writer.settled().await;
            shipping.stop().await;
        }
        assert_eq!(database.counts().await, (rows, rows));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_in_doubt_that_later_ones_replaced_are_not_sent_again() {
    let database = Database::on(shared(), "ship_replaced");
    database.migrate().await;
    let dir = tempfile::tempdir().unwrap();
    let (original, restored) = (dir.path().join("original"), dir.path().join("copy"));
    std::fs::create_dir(&original).unwrap();
    let never = Limits {
        age_recent: Duration::from_secs(3_600),
        ..LIMITS
    };
    let (mut writer, shipping) = start(&original, &database, never);
    writer.write(&TIMES[..1], 200, b"{}");
    shipping.crash().await;
    drop(writer);
    copy(&original, &restored);
    let (mut writer, shipping) = start(&original, &database, LIMITS);
    writer.settled().await;
    shipping.stop().await;
    // Half of them come again, and are merged with those that are stored.
    database
        .execute(
            "INSERT INTO {db}.events (uuid, event, properties, timestamp, team_id, distinct_id, \
             created_at, historical_migration) SELECT uuid, event, properties, timestamp, team_id, \
             distinct_id, created_at + toIntervalSecond(1), historical_migration \
             FROM {db}.events WHERE cityHash64(uuid) % 2 = 0",
        )
        .await;
    database
        .execute("OPTIMIZE TABLE {db}.events FINAL SETTINGS optimize_throw_if_noop = 1")
        .await;
    assert_eq!(database.counts().await, (200, 200));
    let (mut writer, shipping) = start(&restored, &database, LIMITS);
    writer.settled().await;
    shipping.stop().await;
    assert_eq!(database.counts().await, (200, 200), "sent again");
}
