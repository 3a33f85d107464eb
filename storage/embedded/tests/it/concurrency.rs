//! Tests of concurrent statements, of a memory limit that is exceeded, and of queries whose client
//! has disconnected.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use millrace_embedded::testing::{PASSWORD, TestEngine, shared};

use crate::client::{Response, post, query};

#[test]
fn statements_run_side_by_side_and_queries_can_be_stopped_by_their_ids() {
    let engine = shared();
    let sql = b"SELECT 'side_by_side', count() FROM system.numbers WHERE sipHash64(number) = 1 SETTINGS max_threads = 1";
    let ids: Vec<String> = (0..8)
        .map(|n| format!("side-by-side-{n}-0198c0de-0000-7000-8000"))
        .collect();
    thread::scope(|scope| {
        let jobs: Vec<_> = ids
            .iter()
            .map(|id| scope.spawn(|| post(engine, &[("log_comment", id)], sql)))
            .collect();
        let filter = "query LIKE '%side_by_side%' AND query NOT LIKE '%processes%'";
        let count = format!("SELECT count() FROM system.processes WHERE {filter}");
        wait_for(engine, &count, "8\n");
        for id in &ids {
            query(engine, &stopping(id));
        }
        for job in jobs {
            assert_eq!(
                job.join().unwrap().header("x-clickhouse-exception-code"),
                "394"
            );
        }
    });
}

#[test]
fn sixty_four_statements_run_at_once() {
    const STATEMENTS: usize = 64;
    let engine = TestEngine::start();
    // Each returns how many ran when it began, and sleeps.
    let sql = b"SELECT 'at_once', (SELECT count() FROM system.processes WHERE query LIKE '%at_once%'), sleep(1.5)";
    let most = thread::scope(|scope| {
        let jobs: Vec<_> = (0..STATEMENTS)
            .map(|_| scope.spawn(|| post(&engine, &[], sql)))
            .collect();
        let counts = jobs.into_iter().map(|job| {
            let response = job.join().unwrap();
            assert_eq!(response.status, 200, "{}", response.text());
            let text = response.text();
            text.split('\t').nth(1).unwrap().parse::<usize>().unwrap()
        });
        counts.max().unwrap()
    });
    assert!(
        (STATEMENTS / 2..=STATEMENTS).contains(&most),
        "{most} at once"
    );
}

/// A statement that is asked to finish has its answer before the process ends.
#[test]
fn a_stop_lets_running_statements_finish_and_refuses_others() {
    let mut engine = TestEngine::start();
    query(
        &engine,
        "CREATE TABLE finished (a UInt64) ENGINE = MergeTree ORDER BY a",
    );
    let sql = b"INSERT INTO finished SELECT number + sleepEachRow(0.1) FROM numbers(20) SETTINGS max_block_size = 1";
    let by_another = engine.by(&engine.user, &engine.password);
    thread::scope(|scope| {
        let insert = scope.spawn(|| post(&by_another, &[], sql));
        wait_until(&engine, "INSERT INTO finished", true);
        engine.stop();
        let response = insert.join().unwrap();
        assert_eq!(response.status, 200, "{}", response.text());
    });
    engine.restart();
    assert_eq!(query(&engine, "SELECT count() FROM finished"), "20\n");
}

/// Statement with which Millrace stops a query, whose comment is its id.
fn stopping(id: &str) -> String {
    format!(
        "KILL QUERY WHERE (query_id = '{id}' OR endsWith(Settings['log_comment'], '{id}')) ASYNC"
    )
}

#[test]
fn a_query_that_needs_too_much_memory_fails_alone() {
    let engine = TestEngine::start_with_memory(600 << 20);
    let response = post(
        &engine,
        &[],
        b"SELECT groupArray(number) FROM numbers(1000000000)",
    );
    assert_eq!(
        (
            response.status,
            response.header("x-clickhouse-exception-code")
        ),
        (500, "241"),
        "{}",
        response.text()
    );
    assert_eq!(query(&engine, "SELECT 1"), "1\n");
}

#[test]
fn statements_of_a_reader_leave_memory_to_inserts() {
    const STATEMENTS: usize = 8;
    let engine = TestEngine::start_with_memory(1 << 30);
    query(
        &engine,
        "CREATE TABLE inserted (a UInt64, s String) ENGINE = MergeTree ORDER BY a",
    );
    let reader = engine.by("reader", PASSWORD);
    // Each holds a set of 128 MiB for three seconds.
    let sql =
        b"SELECT 1 FROM numbers(1) WHERE number NOT IN (SELECT number + 5 FROM numbers(6000000)) \
        AND sleep(2.9) = 0";
    let codes: Vec<String> = thread::scope(|scope| {
        let jobs: Vec<_> = (0..STATEMENTS)
            .map(|_| scope.spawn(|| post(&reader, &[], sql)))
            .collect();
        while !jobs.iter().all(thread::ScopedJoinHandle::is_finished) {
            query(
                &engine,
                "INSERT INTO inserted SELECT number, repeat('x', 200) FROM numbers(300000)",
            );
        }
        let code = |response: Response| response.header("x-clickhouse-exception-code").to_owned();
        jobs.into_iter()
            .map(|job| code(job.join().unwrap()))
            .collect()
    });
    assert!(codes.iter().any(|code| code == "241"), "{codes:?}");
}

/// Command of a client whose query never ends.
fn client(engine: &TestEngine, sql: &str) -> Command {
    let mut command = Command::new("curl");
    let key = format!("X-ClickHouse-Key: {}", engine.password);
    let user = format!("X-ClickHouse-User: {}", engine.user);
    command.args(["-sS", "-H", &user, "-H", &key, "--data-binary", sql]);
    command
        // The engine stops reading statements only when their client goes.
        .arg(format!("{}/?readonly=2", engine.url))
        .stderr(Stdio::null());
    command
}

/// Starts such a client and kills it once the engine runs its query.
fn abandon(engine: &TestEngine, mark: &str, sql: &str) {
    let mut client = client(engine, sql).stdout(Stdio::null()).spawn().unwrap();
    wait_until(engine, mark, true);
    client.kill().unwrap();
    client.wait().unwrap();
}

fn wait_until(engine: &TestEngine, mark: &str, running: bool) {
    let sql = format!(
        "SELECT count() > 0 FROM system.processes WHERE query LIKE '%{mark}%' AND query NOT LIKE '%processes%'"
    );
    wait_for(engine, &sql, if running { "1\n" } else { "0\n" });
}

/// Repeats the query until its result is the expected one.
fn wait_for(engine: &TestEngine, sql: &str, expected: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while query(engine, sql) != expected {
        assert!(Instant::now() < deadline, "{sql} is still not {expected}");
    }
}

/// The query has sent rows, and will never send more.
#[test]
fn a_query_without_further_rows_is_stopped_when_its_client_disconnects() {
    let engine = shared();
    let sql = "SELECT 'fallen_mark', number FROM system.numbers WHERE number < 1000000 OR sipHash64(number) = 1";
    let mut client = client(engine, sql).stdout(Stdio::piped()).spawn().unwrap();
    // Nearly all rows; a thread reads the rest, so the query does not wait for its client.
    let mut output = client.stdout.take().unwrap();
    output.read_exact(&mut vec![0; 15 << 20]).unwrap();
    let rest = thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    wait_until(engine, "fallen_mark", true);
    client.kill().unwrap();
    client.wait().unwrap();
    rest.join().unwrap().unwrap();
    wait_until(engine, "fallen_mark", false);
}

#[test]
fn a_query_is_stopped_when_its_client_disconnects() {
    for (mark, sql) in [
        (
            "silent_mark",
            "SELECT 'silent_mark', count() FROM system.numbers WHERE sipHash64(number) = 1",
        ),
        (
            "talking_mark",
            "SELECT 'talking_mark', number FROM system.numbers",
        ),
    ] {
        abandon(shared(), mark, sql);
        wait_until(shared(), mark, false);
    }
}
