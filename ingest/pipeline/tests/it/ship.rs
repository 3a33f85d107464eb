//! The shipper without crashes.

use crate::ship_fixture::{Database, LIMITS, TIMES, event, start};
use millrace_embedded::testing::{TestEngine, shared};
use millrace_log::Section;
use millrace_pipeline::ship::Limits;
use millrace_rows::{EventRow, Micros, ProjectId, RejectedRow, Table};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Bytes that are synced when a segment is made.
const SEGMENT_HEADER_BYTES: u64 = 64;

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_every_month_arrive_once_and_the_log_is_released() {
    let database = Database::on(shared(), "ship_months");
    database.migrate().await;
    let dir = tempfile::tempdir().unwrap();
    // Only full inserts are sent, and the rest at the end.
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
async fn an_empty_segment_left_by_a_crash_does_not_block_the_shipper() {
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
async fn a_row_that_clickhouse_cannot_read_is_dead_lettered_and_the_rest_arrives() {
    let database = Database::on(shared(), "ship_dead_letters");
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
    // And one section that holds no rows but garbage.
    let refused = writer.section(TIMES[0], 100, &bytes, &keys[..4]);
    let garbage = writer.section(TIMES[0], 3, &[0xff; 40], &keys[..1]);
    writer.append(&[refused, garbage]);
    writer.continue_from(600);
    writer.write(&TIMES[..1], 500, b"{}");
    writer.settled().await;
    shipping.stop().await;
    assert_eq!(database.counts().await, (1_100, 1_100));
    let dead_lettered: Vec<String> = std::fs::read_dir(dir.path().join("dead-letters"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".json"))
        .collect();
    assert_eq!(dead_lettered.len(), 1, "{dead_lettered:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_wait_while_clickhouse_is_down_and_tables_are_made_when_it_is_back() {
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
    // Somebody drops a table meanwhile.
    database.execute("DROP TABLE {db}.events SYNC").await;
    writer.write(&TIMES, 50, b"{}");
    writer.settled().await;
    assert_eq!(database.counts().await, (150, 150));
    shipping.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_after_a_lost_checkpoint_are_sent_in_one_insert_after_a_restart() {
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
        let deadline = Instant::now() + Duration::from_secs(10);
        while !checkpoint.exists() && Instant::now() < deadline {
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
    // The frame that may have been sent under the lost checkpoint is looked up with the others, in
    // one query.
    let parts =
        "SELECT count() FROM system.parts WHERE database = '{db}' AND table = 'events' AND active";
    assert_eq!(database.number(parts).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_damaged_before_they_are_sent_are_dead_lettered_and_the_rest_arrives() {
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
    let dead_lettered = std::fs::read_dir(dir.path().join("dead-letters")).unwrap();
    let dead_lettered = dead_lettered.map(|entry| entry.unwrap().path());
    let blocks = dead_lettered
        .filter(|path| path.extension() == Some("blocks".as_ref()))
        .find_map(|path| std::fs::read(path).ok())
        .expect("blocks for people to repair");
    assert!(blocks.windows(13).any(|it| it == b"To-be-damaged"));
}

#[tokio::test(flavor = "multi_thread")]
async fn inserts_that_can_never_succeed_do_not_block_others() {
    let database = Database::on(shared(), "ship_trouble");
    database.migrate().await;
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, shipping) = start(dir.path(), &database, LIMITS);
    // Inserts into a column that does not exist, in more months than there are permits.
    for month in 1..=2 * LIMITS.in_flight_max {
        let (mut header, blocks) = writer.section(TIMES[0], 1, b"x", &[]);
        header.insert_target = "events(colour)".to_owned();
        header.month = 202_500 + month as u32;
        writer.append(&[(header, blocks)]);
    }
    for _ in 0..5 {
        writer.write(&TIMES, 10, b"{}");
        tokio::time::sleep(LIMITS.age_old).await;
    }
    while database.counts().await != (150, 150) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    shipping.crash().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_rejected_event_is_told_from_others_of_its_request() {
    let database = Database::on(shared(), "ship_rejected_halves");
    database.migrate().await;
    database
        .execute("ALTER TABLE {db}.rejected_events ADD CONSTRAINT c CHECK `index` != 0")
        .await;
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, shipping) = start(dir.path(), &database, LIMITS);
    let (mut bytes, mut keys) = (Vec::new(), Vec::new());
    for index in 0..5 {
        let row = RejectedRow {
            team_id: ProjectId(1),
            received_at: Micros(TIMES[0]),
            request_id: Uuid::from_u128(9),
            index,
            code: "missing_event",
            attr: "event",
            detail: "no name",
            raw: b"{}",
            historical_migration: false,
        };
        row.append_to(&mut bytes);
        keys.push(row.key());
    }
    let (mut header, blocks) = writer.section(TIMES[0], 5, &bytes, &keys);
    header.insert_target = Table::RejectedEvents.insert_target().to_owned();
    writer.append(&[(header, blocks)]);
    writer.settled().await;
    shipping.stop().await;
    let stored = "SELECT count() FROM {db}.rejected_events";
    assert_eq!(database.number(stored).await, 4);
    let dead_lettered = std::fs::read_dir(dir.path().join("dead-letters")).unwrap();
    assert_eq!(
        dead_lettered.count(),
        2,
        "the row and what is wrong with it"
    );
}
