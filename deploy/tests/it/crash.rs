//! What 200 promised survives kill -9 of everything, at any moment: each acknowledged event is in
//! ClickHouse exactly once.
//!
//! Counts are plain counts by uuid with merges stopped by a table setting, as merges fold
//! duplicates within seconds and would hide them.

use crate::server::{Server, eventually};
use millrace_load::clickhouse::ClickHouse;
use millrace_load::ledger::Ledger;
use millrace_load::{Plan, Stop, run_observed, verify};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Times that everything is killed.
const KILLS: u64 = 20;

/// Stops merges for good, across restarts.
fn stop_merges(server: &Server) {
    server.wait_for("EXISTS millrace.events", "1");
    server.query(
        "ALTER TABLE millrace.events MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 1",
    );
}

fn plan(server: &Server, ledger: &Path) -> Plan {
    Plan {
        connections: 8,
        batch_events: 20,
        event_bytes: 400,
        historical_share: 0.25,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(3_600),
        timeout: Duration::from_secs(5),
        ledger: Some(ledger.to_owned()),
        ..Plan::new(
            &server.credential("ingest_url"),
            &server.credential("project_api_key"),
        )
    }
}

/// Loads the server until it is killed, which happens as soon as so many events more are
/// acknowledged: a moment that differs from round to round.
fn load_and_kill(server: Server, ledger: &Path, events: u64) {
    let plan = plan(&server, ledger);
    let mut server = Some(server);
    let stop = Stop::default();
    let asked = stop.clone();
    // The run ends with errors, as its server dies under it: what counts is the ledger.
    let _ended = run_observed(&plan, &stop, &mut |progress| {
        if progress.acknowledged_events >= events
            && let Some(server) = server.take()
        {
            server.crash();
            asked.ask();
        }
    });
    assert!(
        server.is_none(),
        "the server was never loaded enough to be killed"
    );
}

/// Compares the ledger with ClickHouse.
fn assert_exactly_once(server: &Server, ledger: &Path) -> u64 {
    let clickhouse = ClickHouse {
        url: server.credential("clickhouse_url"),
        user: server.credential("clickhouse_user"),
        password: server.credential("clickhouse_password"),
        table: ClickHouse::TABLE.to_owned(),
    };
    let acknowledged = Ledger::read(ledger).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let verdict = runtime
        .block_on(verify(&acknowledged, &clickhouse, Duration::from_secs(90)))
        .unwrap();
    assert!(verdict.is_clean(), "{verdict:?}");
    verdict.acknowledged_events
}

#[test]
fn every_acknowledged_event_is_stored_once_after_twenty_kills() {
    let (data_dir, ledgers) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let ledger = ledgers.path().join("ledger");
    let server = Server::start(data_dir.path());
    stop_merges(&server);
    let mut server = Some(server);
    for round in 0..KILLS {
        let running = server
            .take()
            .unwrap_or_else(|| Server::start(data_dir.path()));
        load_and_kill(running, &ledger, 200 + round * 397 % 4_000);
    }
    let server = Server::start(data_dir.path());
    let events = assert_exactly_once(&server, &ledger);
    assert!(
        events >= KILLS * 200,
        "only {events} events were acknowledged"
    );
    let inspected = eventually("an empty log", || {
        let lanes = ["live", "historical"].map(|lane| data_dir.path().join("log").join(lane));
        let segments = lanes.iter().map(|dir| {
            let names = std::fs::read_dir(dir)
                .unwrap()
                .map(|entry| entry.unwrap().path());
            names
                .filter(|path| path.extension().is_some_and(|end| end == "log"))
                .count()
        });
        let segments = segments.max().unwrap();
        // The one being written stays.
        (segments <= 2).then_some(segments)
    });
    assert!(inspected <= 2, "shipped segments are deleted");
}

#[test]
fn a_dead_engine_is_started_again_and_nothing_is_refused_meanwhile() {
    use rustix::process::{Pid, Signal, kill_process};
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    stop_merges(&server);
    for round in 0..5 {
        let children = format!("/proc/{}/task", server.pid().as_raw_nonzero());
        let engine = std::fs::read_dir(children)
            .unwrap()
            .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("children")).ok())
            .find_map(|text| text.split_whitespace().next()?.parse::<i32>().ok());
        let engine = engine.unwrap_or_else(|| panic!("no engine in round {round}"));
        kill_process(Pid::from_raw(engine).unwrap(), Signal::KILL).unwrap();
        for number in 0..10 {
            let event = serde_json::json!([{"event": "during", "distinct_id": format!("{round}-{number}")}]);
            server.capture(&event);
        }
        server.wait_for(
            "SELECT count() FROM millrace.events",
            &((round + 1) * 10).to_string(),
        );
    }
}
