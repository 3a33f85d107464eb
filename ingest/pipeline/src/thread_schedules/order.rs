//! Answers to requests against the rows on the disk when they are given.

use super::test_env::{Row, SentRow, TestEnv, dawdle, rows_after_start, send};
use super::try_orders;
use crate::capacity::QueueCapacity;
use crate::{Ack, Position, Refusal};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use millrace_log::testing::{Fault, FaultKind};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const CLIENTS: u8 = 3;
const ROWS: u8 = 2;

/// Has some clients send while `other` runs; returns the outcome of each row.
fn send_during(env: TestEnv, other: impl FnOnce(TestEnv)) -> Vec<SentRow> {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let pipeline = env.pipeline.clone();
            thread::spawn(move || send(&pipeline, client, ROWS))
        })
        .collect();
    other(env);
    let sent = clients.into_iter().map(|client| client.join().unwrap());
    sent.flatten().collect()
}

/// Asserts that every row is stored at most once, rows of a client in order, and every acknowledged
/// one at its position.
fn check(sent: &[SentRow], stored: &[(Row, Position)]) {
    for client in 0..CLIENTS {
        let of_client = stored.iter().filter(|(row, _)| row[0] == client);
        let numbers: Vec<_> = of_client.map(|(row, _)| row[1]).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }
    for (row, answer) in sent {
        let Ok(position) = answer else { continue };
        let found = stored.iter().find(|(it, _)| it == row);
        let (_, end) = found.unwrap_or_else(|| panic!("{row:?} is lost of {stored:?}"));
        assert!(position.is_none_or(|position| position == *end), "{row:?}");
    }
}

#[test]
fn an_acknowledged_row_survives_a_power_cut_at_any_moment() {
    try_orders(|| {
        let env = TestEnv::start(Ack::Disk);
        let fs = env.fs.clone();
        let seed = thread_rng().r#gen();
        let sent = send_during(env, |env| {
            dawdle(60);
            env.fs.crash(seed);
            env.running.stop();
        });
        check(&sent, &rows_after_start(&fs));
    });
}

#[test]
fn no_request_is_acknowledged_after_a_failed_write_or_sync() {
    try_orders(|| {
        let env = TestEnv::start(Ack::Disk);
        let (fs, pipeline) = (env.fs.clone(), env.pipeline.clone());
        let mut rng = thread_rng();
        let (seed, after) = (rng.r#gen(), rng.gen_range(0..6));
        let kind = FaultKind::Io;
        fs.set_fault(Some(Fault { after, kind }));
        let sent = send_during(env, |env| {
            dawdle(80);
            env.running.stop();
        });
        for of_client in sent.chunks(ROWS.into()) {
            let mut answers = of_client.iter().map(|(_, answer)| answer);
            answers.find(|answer| **answer == Err(Refusal::LogFailed));
            assert!(answers.all(Result::is_err), "{sent:?}");
        }
        assert!(fs.has_fault() || pipeline.failure().is_some());
        fs.crash(seed);
        check(&sent, &rows_after_start(&fs));
    });
}

#[test]
fn a_stop_answers_every_request_and_stores_every_accepted_row() {
    for ack in [Ack::Disk, Ack::Memory] {
        try_orders(move || {
            let env = TestEnv::start(ack);
            let (fs, pipeline) = (env.fs.clone(), env.pipeline.clone());
            let sent = send_during(env, |env| {
                dawdle(60);
                env.running.stop();
            });
            let lane = millrace_rows::Lane::Live;
            assert_eq!(pipeline.queue_requests(lane), 0, "places come back");
            drop(pipeline);
            let stored = rows_after_start(&fs);
            check(&sent, &stored);
            let refused = sent.iter().filter(|(_, answer)| answer.is_err());
            let is_stored = |row: &Row| stored.iter().any(|(it, _)| it == row);
            for (row, answer) in refused {
                assert!(!is_stored(row), "{row:?} was refused: {answer:?}");
                assert_eq!(answer, &Err(Refusal::ShuttingDown), "{row:?}");
            }
        });
    }
}

/// Number of rows that are counted as acknowledged and lost.
fn counted_as_lost(recorder: &PrometheusRecorder) -> usize {
    let rendered = recorder.handle().render();
    let counted = rendered
        .lines()
        .find_map(|line| line.strip_prefix("millrace_log_rows_lost_total{lane=\"live\"} "));
    counted.map_or(0, |count| count.parse().unwrap())
}

#[test]
fn every_row_that_was_acknowledged_and_not_written_is_counted() {
    try_orders(|| {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || {
            let env = TestEnv::start(Ack::Memory);
            let fs = env.fs.clone();
            let after = thread_rng().gen_range(0..6);
            let kind = FaultKind::Io;
            fs.set_fault(Some(Fault { after, kind }));
            let sent = send_during(env, |env| {
                dawdle(60);
                env.running.stop();
            });
            let has_failed = !fs.has_fault();
            fs.set_fault(None);
            let acknowledged = sent.iter().filter(|(_, answer)| answer.is_ok()).count();
            let stored = rows_after_start(&fs).len();
            let counted = counted_as_lost(&recorder);
            // A frame whose sync failed may be there all the same.
            assert!(acknowledged <= stored + counted, "{counted}: {sent:?}");
            assert!(has_failed || counted == 0);
        });
    });
}

/// Yields to other threads; a commit thread may panic here.
fn pause_or_panic() {
    thread::yield_now();
    let name = thread::current().name().map(str::to_owned);
    if name.as_deref() == Some("commit-live") && thread_rng().gen_bool(0.3) {
        // A panic that says nothing: thousands of them would.
        std::panic::resume_unwind(Box::new("a bug of the commit thread"));
    }
}

#[test]
fn a_row_that_a_panicked_thread_may_have_stored_is_never_refused_as_shutting_down() {
    try_orders(|| {
        let env = TestEnv::start_on(Ack::Disk, pause_or_panic);
        let (fs, pipeline) = (env.fs.clone(), env.pipeline.clone());
        let sent = send_during(env, |env| {
            dawdle(60);
            env.running.stop();
        });
        let has_panicked = pipeline.failure().is_some();
        drop(pipeline);
        let stored = rows_after_start(&fs);
        check(&sent, &stored);
        for (row, answer) in &sent {
            let is_stored = stored.iter().any(|(it, _)| it == row);
            let is_told_to_be_not = answer == &Err(Refusal::ShuttingDown);
            assert!(!(is_stored && is_told_to_be_not), "{row:?} is stored");
            assert!(has_panicked || answer != &Err(Refusal::LogFailed));
        }
    });
}

#[test]
fn every_acknowledged_row_that_a_panicked_thread_leaves_is_counted() {
    try_orders(|| {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || {
            let env = TestEnv::start_on(Ack::Memory, pause_or_panic);
            let (fs, pipeline) = (env.fs.clone(), env.pipeline.clone());
            let sent = send_during(env, |env| {
                dawdle(60);
                env.running.stop();
            });
            let has_panicked = pipeline.failure().is_some();
            drop(pipeline);
            let acknowledged = sent.iter().filter(|(_, answer)| answer.is_ok()).count();
            let stored = rows_after_start(&fs).len();
            let counted = counted_as_lost(&recorder);
            assert!(acknowledged <= stored + counted, "{counted}: {sent:?}");
            assert!(has_panicked || counted == 0, "{counted}: {sent:?}");
        });
    });
}

#[test]
fn a_queue_never_exceeds_its_limits() {
    const REQUESTS_MAX: usize = 2;
    try_orders(|| {
        let queue = Arc::new(QueueCapacity::new(REQUESTS_MAX, 100));
        let inside = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (queue, inside) = (Arc::clone(&queue), Arc::clone(&inside));
                thread::spawn(move || {
                    for _ in 0..2 {
                        if queue.reserve(40).is_ok() {
                            let before = inside.fetch_add(1, Ordering::Relaxed);
                            assert!(before < REQUESTS_MAX);
                            thread::yield_now();
                            inside.fetch_sub(1, Ordering::Relaxed);
                            queue.release(40);
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!((queue.requests(), queue.bytes()), (0, 0));
        assert_eq!(queue.reserve(40), Ok(()), "places come back");
    });
}
