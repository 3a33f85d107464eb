//! The shipper while nothing crashes.

use crate::ship_fixture::{Database, LIMITS, TIMES, event, start};
use millrace_embedded::testing::{TestEngine, shared};
use millrace_log::Section;
use millrace_pipeline::ship::Limits;
use millrace_rows::EventRow;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// What is synced when a segment is made.
const SEGMENT_HEADER_BYTES: u64 = 64;

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_every_month_arrive_once_and_the_log_is_released() {
    let database = Database::on(shared(), "ship_months");
    database.migrate().await;
    let dir = tempfile::tempdir().unwrap();
    // Only full inserts are sent, and what is left at the end.
    let limits = Limits {
        age_recent: Duration::from_secs(3_600),
        age_old: Duration::from_secs(3_600),
        ..LIMITS
    };
    let (mut writer, shipping) = start(dir.path(), &database, limits);
    for _ in 0..210 {
        writer.write(&TIMES, 100, &[b'x'; 100]);
    }
    shipping.stop().await;
    writer.settled().await;
    assert_eq!(database.counts().await, (63_000, 63_000));
    // 21 000 rows of each of three months in inserts of 5 000.
    let parts =
        "SELECT count() FROM system.parts WHERE database = '{db}' AND table = 'events' AND active";
    assert_eq!(database.number(parts).await, 15);
    let segments = std::fs::read_dir(dir.path().join("live"))
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().path().extension() == Some("log".as_ref()))
        .count();
    assert!(segments <= 2, "{segments} segments are left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ships_what_waits_and_a_restart_ships_nothing_again() {
    let database = Database::on(shared(), "ship_stop");
    database.migrate().await;
    let dir = tempfile::tempdir().unwrap();
    let mut limits = LIMITS;
    limits.age_recent = Duration::from_secs(3_600);
    let mut rows = 0;
    for round in 1..=3 {
        let (mut writer, shipping) = start(dir.path(), &database, limits);
        writer.continue_from(rows);
        writer.write(&TIMES[..1], 10, b"{}");
        rows = writer.rows();
        shipping.stop().await;
        assert_eq!(database.counts().await, (round * 10, round * 10));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_that_a_crash_left_empty_does_not_keep_the_end_from_being_reached() {
    let database = Database::on(shared(), "ship_empty_segment");
    database.migrate().await;
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, shipping) = start(dir.path(), &database, LIMITS);
    writer.write(&TIMES[..1], 10, b"{}");
    writer.settled().await;
    shipping.stop().await;
    drop(writer);
    // The next process makes a segment, and dies before its first sync.
    let (mut writer, shipping) = start(dir.path(), &database, LIMITS);
    shipping.stop().await;
    let (header, blocks) = writer.section(TIMES[0], 1, b"lost", &[]);
    let lost = Section {
        header: &header,
        blocks: &blocks,
    };
    writer.log.append(&[lost]).unwrap();
    drop(writer);
    let files = std::fs::read_dir(dir.path().join("live")).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    let segments = paths.filter(|path| path.extension() == Some("log".as_ref()));
    let newest = std::fs::File::options()
        .write(true)
        .open(segments.max().unwrap());
    let newest = newest.unwrap();
    newest.set_len(SEGMENT_HEADER_BYTES).unwrap();
    newest.set_len(1 << 20).unwrap();
    let (mut writer, shipping) = start(dir.path(), &database, LIMITS);
    writer.settled().await;
    writer.continue_from(10);
    writer.write(&TIMES[..1], 10, b"{}");
    writer.settled().await;
    shipping.stop().await;
    assert_eq!(database.counts().await, (20, 20));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_clickhouse_cannot_read_is_set_aside_and_the_rest_arrives() {
    let database = Database::on(shared(), "ship_poison");
    database.migrate().await;
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, shipping) = start(dir.path(), &database, LIMITS);
    writer.write(&TIMES[..1], 500, b"{}");
    // One row of another month in a section: a block of two partitions is refused.
    let mut bytes = Vec::new();
    let mut keys = Vec::new();
    for id in 500..600 {
        let time = if id == 577 { TIMES[1] } else { TIMES[0] };
        let row = EventRow {
            properties: &[b"{}"],
            ..event(id, time)
        };
        row.append_to(&mut bytes);
        keys.push(row.key());
    }
    // And one section that is no rows at all.
    let refused = writer.section(TIMES[0], 100, &bytes, &keys[..4]);
    let garbage = writer.section(TIMES[0], 3, &[0xff; 40], &keys[..1]);
    writer.append(&[refused, garbage]);
    writer.continue_from(600);
    writer.write(&TIMES[..1], 500, b"{}");
    writer.settled().await;
    shipping.stop().await;
    assert_eq!(database.counts().await, (1_100, 1_100));
    let aside: Vec<String> = std::fs::read_dir(dir.path().join("poison"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".json"))
        .collect();
    assert_eq!(aside.len(), 1, "{aside:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_wait_while_clickhouse_is_away_and_tables_are_made_when_it_is_back() {
    let mut engine = TestEngine::start();
    let database = Database::on(&engine, "ship_away");
    engine.kill9();
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, shipping) = start(dir.path(), &database, LIMITS);
    for _ in 0..20 {
        writer.write(&TIMES, 50, b"{}");
    }
    engine.restart();
    writer.settled().await;
    assert_eq!(database.counts().await, (3_000, 3_000));
    // Somebody drops a table under way.
    database.execute("DROP TABLE {db}.events SYNC").await;
    writer.write(&TIMES, 50, b"{}");
    writer.settled().await;
    assert_eq!(database.counts().await, (150, 150));
    shipping.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_after_a_lost_checkpoint_is_sent_together_after_a_restart() {
    let (engine, name) = (shared(), "ship_lost_checkpoint");
    let database = Database::on(engine, name);
    database.migrate().await;
    let nowhere = Database::behind(engine, name, "http://127.0.0.1:1", Duration::from_secs(1));
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = dir.path().join("live/checkpoint");
    let mut rows = 0;
    for frames in [1, 20] {
        let (mut writer, shipping) = start(dir.path(), &nowhere, LIMITS);
        writer.continue_from(rows);
        let patience = Instant::now() + Duration::from_secs(10);
        while !checkpoint.exists() && Instant::now() < patience {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        for _ in 0..frames {
            writer.write(&TIMES[..1], 10, b"{}");
        }
        rows = writer.rows();
        shipping.crash().await;
        if frames == 1 && checkpoint.exists() {
            std::fs::remove_file(&checkpoint).unwrap();
        }
    }
    let limits = Limits {
        age_recent: Duration::from_secs(3_600),
        ..LIMITS
    };
    let (_writer, shipping) = start(dir.path(), &database, limits);
    shipping.stop().await;
    assert_eq!(database.counts().await, (210, 210));
    // The frame that the lost checkpoint may have sent is asked for alone; the others cannot have been.
    let parts =
        "SELECT count() FROM system.parts WHERE database = '{db}' AND table = 'events' AND active";
    assert_eq!(database.number(parts).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_damaged_before_they_are_sent_are_set_aside_and_the_rest_arrives() {
    let mut engine = TestEngine::start();
    let database = Database::on(&engine, "ship_damage");
    database.migrate().await;
    engine.kill9();
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, shipping) = start(dir.path(), &database, LIMITS);
    let properties = |marker: &[u8]| [b"{\"a\":\"", marker, b"\"}"].concat();
    for marker in [&b"sound-before"[..], b"to-be-damaged", b"sound-behind"] {
        writer.write(&TIMES[..1], 1, &properties(marker));
    }
    let segment = std::fs::read_dir(dir.path().join("live"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension() == Some("log".as_ref()))
        .unwrap();
    let bytes = std::fs::read(&segment).unwrap();
    let at = bytes.windows(13).position(|it| it == b"to-be-damaged");
    let file = std::fs::File::options().write(true).open(&segment).unwrap();
    file.write_all_at(b"T", at.unwrap() as u64).unwrap();
    engine.restart();
    writer.settled().await;
    shipping.stop().await;
    assert_eq!(database.counts().await, (2, 2));
    let sound = "SELECT count() FROM {db}.events WHERE properties LIKE '%sound-%'";
    assert_eq!(database.number(sound).await, 2);
    assert!(
        std::fs::read_dir(dir.path().join("poison"))
            .unwrap()
            .count()
            > 0
    );
}
