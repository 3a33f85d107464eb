//! The engine and the shipper killed in the middle of inserts: every row arrives exactly once.

use crate::ship_fixture::{Database, LIMITS, TIMES, Writer, start};
use millrace_embedded::testing::{TestEngine, shared};
use rand::{RngExt, SeedableRng};
use std::time::Duration;

const CRASHES: u64 = 20;
/// Properties of a few hundred bytes, so that inserts take some milliseconds.
const PROPERTIES: [u8; 300] = [b'x'; 300];

/// Writes frames for a random while, so that the crash hits any state of the shipper.
async fn write_for_a_while(writer: &mut Writer, random: &mut impl RngExt) {
    for _ in 0..random.random_range(5..40) {
        writer.write(&TIMES, random.random_range(1..200), &PROPERTIES);
        tokio::time::sleep(Duration::from_millis(random.random_range(0..10))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_killed_twenty_times_has_every_row_once() {
    let mut random = rand::rngs::StdRng::seed_from_u64(1);
    let mut engine = TestEngine::start();
    let database = Database::on(&engine, "ship_engine_killed");
    database.migrate().await;
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, shipping) = start(dir.path(), &database, LIMITS);
    for _ in 0..CRASHES {
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
async fn a_shipper_killed_twenty_times_has_shipped_every_row_once() {
    let mut random = rand::rngs::StdRng::seed_from_u64(2);
    let database = Database::on(shared(), "ship_shipper_killed");
    database.migrate().await;
    let dir = tempfile::tempdir().unwrap();
    let mut rows = 0;
    for _ in 0..CRASHES {
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
async fn both_killed_at_once_twenty_times_leave_every_row_once() {
    let mut random = rand::rngs::StdRng::seed_from_u64(3);
    let mut engine = TestEngine::start();
    let database = Database::on(&engine, "ship_both_killed");
    database.migrate().await;
    let dir = tempfile::tempdir().unwrap();
    let mut rows = 0;
    for round in 0..CRASHES {
        let (mut writer, shipping) = start(dir.path(), &database, LIMITS);
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
