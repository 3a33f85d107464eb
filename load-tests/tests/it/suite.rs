//! The suite with servers as child processes.

use millrace_load::Stop;
use millrace_load::event_shape::EventShape;
use millrace_load::plan::Compression;
use millrace_load::suite::bench::Bench;
use millrace_load::suite::load::Load;
use millrace_load::suite::render;
use millrace_load::suite::server::{Contestant, Server};
use millrace_load::suite::throughput;
use millrace_load::suite::{Options, suite};
use std::path::Path;
use std::time::Duration;

fn options(dir: &Path) -> Options {
    Options {
        server: "/nonexistent/millrace".into(),
        load: env!("CARGO_BIN_EXE_millrace-load").into(),
        memory_dir: dir.to_owned(),
        disk_dir: dir.to_owned(),
        out: dir.join("report"),
        results: dir.join("RESULTS.md"),
        history: dir.join("history.jsonl"),
        quick: true,
        soak: Some(Duration::from_secs(5)),
        only: Vec::new(),
        criterion: None,
        clickhouse: None,
        command: "suite".to_owned(),
    }
}

#[test]
fn servers_run_in_turn_and_end_with_their_round() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let (stop, mut said) = (Stop::default(), Vec::new());
    let mut say = |text: &str| said.push(text.to_owned());
    let mut bench = Bench::new(&options, &stop, &mut say).unwrap();
    bench.effort.rounds = 2;
    let load = Load {
        batch_events: 10,
        event_bytes: 136,
        event_shape: EventShape::Visits,
        connections: 2,
        compression: Compression::None,
    };
    let contestants = [Contestant::Tape, Contestant::Drain];
    let findings = throughput::measure(&mut bench, load, &contestants).unwrap();
    let outcome = render::outcome("batches", "", findings);
    assert_eq!(outcome.rows.len(), 2);
    assert_eq!(outcome.rows[0][6], "1.00", "{outcome:?}");
    assert_eq!(outcome.figures.len(), 2);
    assert_eq!(said.len(), 4);
    assert!(said[1].contains("bare hyper"), "{said:?}");
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let (stop, mut say) = (Stop::default(), |_: &str| {});
    let bench = Bench::new(&options, &stop, &mut say).unwrap();
    let ours = Contestant::Ours {
        workers: 1,
        store: millrace_load::suite::store::Store::Memory,
    };
    let error = Server::start(&bench, ours).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/millrace"), "{error}");
}

#[test]
fn a_case_that_does_not_exist_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    options.only = vec!["speed".to_owned()];
    let error = suite(&options, &Stop::default(), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("\"speed\""), "{error}");
    assert!(!options.results.exists());
}
