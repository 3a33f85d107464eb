//! Streams of the rows of a SELECT.

use crate::fixture::Database;
use bytes::Bytes;
use millrace_clickhouse::{QueryError, ReadOptions, RowStream};
use millrace_embedded::testing::TestEngine;
use std::process::Command;
use std::time::Duration;
use uuid::Uuid;

fn options() -> ReadOptions {
    ReadOptions::new(Uuid::new_v4().to_string())
}

/// Reads all bytes, and the end of the stream.
async fn all(mut stream: RowStream) -> (Vec<u8>, Result<(), QueryError>) {
    let mut bytes = Vec::new();
    loop {
        match stream.next().await {
            Ok(Some(piece)) => bytes.extend_from_slice(&piece),
            Ok(None) => return (bytes, Ok(())),
            Err(error) => return (bytes, Err(error)),
        }
    }
}

async fn until_stopped(database: &Database, query_id: &str) {
    while database.clickhouse.is_running(query_id).await.unwrap() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_arrive_complete_in_the_requested_format() {
    let database = Database::make("reads").await;
    for rows in [0, 1, 10, 3_000_000_u64] {
        let sql = format!("SELECT number FROM numbers({rows}) FORMAT RowBinary");
        let stream = database.clickhouse.read(&sql, &options()).unwrap();
        let (bytes, end) = all(stream).await;
        end.unwrap();
        assert_eq!(bytes.len() as u64, rows * 8);
        let last = bytes.last_chunk().map(|last| u64::from_le_bytes(*last));
        assert_eq!(last, rows.checked_sub(1));
    }
    let number = database
        .clickhouse
        .read_number("SELECT 42", &options())
        .await;
    assert_eq!(number.unwrap(), 42);
    for sql in ["SELECT 'a'", "SELECT number FROM numbers(100)"] {
        database
            .clickhouse
            .read_number(sql, &options())
            .await
            .unwrap_err();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_reported_before_among_and_behind_rows() {
    let database = Database::make("read_errors").await;
    let long = "SELECT number, repeat('x', 100) FROM numbers(1000000)";
    let table = [
        ("SELECT nothing".to_owned(), Some(47), 0),
        (
            format!("{long} WHERE throwIf(number = 20, 'early') = 0"),
            Some(395),
            0,
        ),
        (
            format!("{long} WHERE throwIf(number = 900000, 'late') = 0"),
            Some(395),
            1_000_000,
        ),
        (
            format!("{long} WHERE throwIf(number = 999999, 'last') = 0"),
            Some(395),
            1_000_000,
        ),
    ];
    for (sql, code, bytes_min) in table {
        let sql = format!("{sql} FORMAT CSV");
        let stream = database.clickhouse.read(&sql, &options()).unwrap();
        let (bytes, end) = all(stream).await;
        let error = end.unwrap_err();
        assert_eq!(error.code, code, "{sql}: {error}");
        assert!(bytes.len() >= bytes_min, "{sql}: {}", bytes.len());
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("Exception"), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_may_only_read_within_its_limits() {
    let database = Database::make("read_limits").await;
    let mut options = options();
    options.duration_max = Duration::from_secs(1);
    options.memory_bytes_max = 50 << 20;
    options.result_rows_max = Some(100_000);
    let table = [
        ("CREATE TABLE read_limits.t (a UInt8) ENGINE = Memory", 164),
        (
            "INSERT INTO read_limits.events SELECT * FROM read_limits.events",
            164,
        ),
        ("DROP TABLE read_limits.events", 164),
        ("SELECT 1 SETTINGS max_memory_usage = 0 FORMAT CSV", 164),
        (
            "SELECT * FROM url('http://127.0.0.1:9/', CSV, 'a String') FORMAT CSV",
            164,
        ),
        (
            "SELECT groupArray(number) FROM numbers(100000000) FORMAT CSV",
            241,
        ),
        (
            "SELECT count() FROM system.numbers WHERE sipHash64(number) = 1 FORMAT CSV",
            159,
        ),
        ("SELECT number FROM numbers(10000000) FORMAT CSV", 396),
    ];
    for (sql, code) in table {
        options.query_id = Uuid::new_v4().to_string();
        let stream = database.clickhouse.read(sql, &options).unwrap();
        let (_, end) = all(stream).await;
        let error = end.expect_err(sql);
        // The embedded engine refuses the name before it looks at the rest of the statement.
        let is_walled = sql.contains("url(") && error.code == Some(497);
        assert!(is_walled || error.code == Some(code), "{sql}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_dropped_stops_its_query() {
    let database = Database::make("read_dropped").await;
    let endless = [
        // Before the first row, among rows, and in a silence after rows.
        "SELECT count() FROM system.numbers WHERE sipHash64(number) = 1",
        "SELECT number FROM system.numbers",
        "SELECT number FROM system.numbers WHERE number < 1000000 OR sipHash64(number) = 1",
    ];
    for (index, sql) in endless.into_iter().enumerate() {
        let options = options();
        let sql = format!("{sql} FORMAT TSV");
        let mut stream = database.clickhouse.read(&sql, &options).unwrap();
        let running = async {
            while !database
                .clickhouse
                .is_running(&options.query_id)
                .await
                .unwrap()
            {
                tokio::task::yield_now().await;
            }
        };
        if index == 0 {
            tokio::select! {
                _ = stream.next() => panic!("an answer to an endless query"),
                () = running => {}
            }
        } else {
            assert!(stream.next().await.unwrap().is_some());
            running.await;
        }
        drop(stream);
        until_stopped(&database, &options.query_id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_a_query_by_its_id_leaves_others_running() {
    let database = Database::make("read_stopped").await;
    let (options, others) = (options(), options());
    let sql = "SELECT number FROM system.numbers FORMAT TSV";
    let mut stream = database.clickhouse.read(sql, &options).unwrap();
    let mut other = database.clickhouse.read(sql, &others).unwrap();
    for stream in [&mut stream, &mut other] {
        assert!(stream.next().await.unwrap().is_some());
    }
    database.clickhouse.stop(&options.query_id).await.unwrap();
    let error = last(&mut stream).await;
    assert_eq!(error.code, Some(394), "{error}");
    let other = &others.query_id;
    assert!(database.clickhouse.is_running(other).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_does_not_use_up_the_work_budget_of_a_query() {
    let database = Database::make("read_slowly").await;
    let rows = 10_000_000_u64;
    let cheap = format!("SELECT number FROM numbers({rows}) FORMAT RowBinary");
    // Limited by the clock, or by work: only the clock goes on while nobody reads.
    for is_by_work in [false, true] {
        let mut options = options();
        match is_by_work {
            false => options.duration_max = Duration::from_secs(2),
            // Less than all pauses, and enough for a machine that does much else.
            true => options.work_max = Some(Duration::from_secs(5)),
        }
        let mut stream = database.clickhouse.read(&cheap, &options).unwrap();
        let mut bytes = 0;
        for _ in 0..4 {
            bytes += stream.next().await.unwrap().unwrap().len();
            tokio::time::sleep(Duration::from_millis(1_500)).await;
        }
        let (rest, end) = all(stream).await;
        match is_by_work {
            false => assert_eq!(end.unwrap_err().code, Some(159)),
            true => {
                end.unwrap();
                assert_eq!((bytes + rest.len()) as u64, rows * 8);
            }
        }
    }
    for (sql, takes_slowly) in [
        // Silent, and with rows that are read slowly while the next ones are computed.
        (
            "SELECT count() FROM system.numbers WHERE sipHash64(number) = 1",
            false,
        ),
        (
            "SELECT number FROM system.numbers WHERE \
             length(arrayFilter(x -> sipHash64(x, number) = 1, range(100000))) = 0",
            true,
        ),
    ] {
        let mut options = options();
        options.work_max = Some(Duration::from_millis(500));
        options.block_rows = 100;
        let sql = format!("{sql} FORMAT RowBinary");
        let mut stream = database.clickhouse.read(&sql, &options).unwrap();
        let error = loop {
            match stream.next().await {
                Ok(Some(_)) if takes_slowly => tokio::time::sleep(Duration::from_millis(100)).await,
                Ok(Some(_)) => {}
                Ok(None) => panic!("the end of endless rows"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.code, Some(159), "{sql}: {error}");
        until_stopped(&database, &options.query_id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_may_be_silent_for_as_long_as_it_runs() {
    let database = Database::make("read_silent").await;
    let mut options = options();
    options.silence_max = Duration::from_millis(20);
    let sql = "SELECT sum(sleepEachRow(0.1)) FROM numbers(8) FORMAT TSV";
    let stream = database.clickhouse.read(sql, &options).unwrap();
    let (bytes, end) = all(stream).await;
    end.unwrap();
    assert_eq!(bytes, b"0\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_or_hangs_ends_the_stream_with_an_error() {
    let mut engine = TestEngine::start();
    let database = Database::make_on(&engine, "read_dead").await;
    let mut settings = database.settings.clone();
    settings.query_timeout = Duration::from_millis(200);
    let clickhouse = millrace_clickhouse::ClickHouse::new(&settings);
    let mut options = options();
    options.silence_max = Duration::from_millis(200);
    let sql = "SELECT number FROM system.numbers FORMAT TSV";
    let mut hung = clickhouse.read(sql, &options).unwrap();
    options.query_id = Uuid::new_v4().to_string();
    let mut cut = clickhouse.read(sql, &options).unwrap();
    for stream in [&mut hung, &mut cut] {
        assert!(stream.next().await.unwrap().is_some());
    }
    let pid = i32::try_from(engine.pid().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let error = last(&mut hung).await;
    assert_eq!(error.code, None, "{error}");
    engine.kill9();
    let error = last(&mut cut).await;
    assert_eq!(error.code, None, "{error}");
    assert_eq!(cut.next().await.unwrap(), None::<Bytes>);
}

async fn last(stream: &mut RowStream) -> QueryError {
    loop {
        match stream.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("an endless answer has ended"),
            Err(error) => return error,
        }
    }
}

/// The server gives up a reader that waits too long. The rows it got must not look complete.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_the_server_gives_up_ends_with_an_error() {
    let database = Database::make("read_stalled").await;
    let mut options = options();
    options.stall_max = Duration::from_secs(1);
    let sql = "SELECT number FROM system.numbers FORMAT TSV";
    let mut stream = database.clickhouse.read(sql, &options).unwrap();
    assert!(stream.next().await.unwrap().is_some());
    until_stopped(&database, &options.query_id).await;
    let error = last(&mut stream).await;
    assert_eq!(error.code, None, "{error}");
}

/// Prefix of the figures in a test's output.
const GROWTH_PREFIX: &str = "grown by bytes: ";

fn resident_bytes(pid: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Reads a gigabyte; runs by itself, and in a process of its own below.
#[tokio::test(flavor = "multi_thread")]
async fn a_gigabyte_is_read() {
    let engine = TestEngine::start_with_memory(1 << 30);
    let database = Database::make_on(&engine, "read_much").await;
    let both = || [std::process::id(), engine.pid().unwrap()].map(resident_bytes);
    let sql = "SELECT number, repeat('x', 1000) FROM numbers(1000000) FORMAT TSV";
    let mut stream = database.clickhouse.read(sql, &options()).unwrap();
    let (mut bytes, mut before, mut most) = (0_u64, None, [0; 2]);
    while let Some(piece) = stream.next().await.unwrap() {
        bytes += piece.len() as u64;
        if bytes < 100 << 20 {
            continue;
        }
        let now = both();
        before.get_or_insert(now);
        most = [most[0].max(now[0]), most[1].max(now[1])];
    }
    assert!(bytes > 1_000_000_000, "{bytes}");
    let before: [u64; 2] = before.unwrap();
    let [we, engine] = [0, 1].map(|who| most[who].saturating_sub(before[who]));
    println!("{GROWTH_PREFIX}{we} {engine}");
}

#[test]
fn memory_stays_the_same_however_much_is_read() {
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "reads::a_gigabyte_is_read", "--nocapture"])
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{output}");
    let (_, grown) = output.split_once(GROWTH_PREFIX).unwrap();
    let grown = grown.lines().next().unwrap().split(' ');
    for (who, grown) in ["we", "the engine"].iter().zip(grown) {
        let grown: u64 = grown.parse().unwrap();
        assert!(grown < 64 << 20, "{who} grew by {grown} bytes");
    }
}
