//! Requests that are acknowledged before they are written, and a full disk.

use super::test_env::{Row, TestEnv, rows_after_start, send_one, send_sized};
use super::try_orders;
use crate::{Ack, Pipeline, Refusal};
use millrace_log::Position;
use millrace_rows::Lane;
use shuttle::thread;
use std::sync::atomic::{AtomicBool, Ordering};

/// Requests of which one must have been refused: more than are accepted before the full disk is
/// noticed.
const TAKEN_MAX: u8 = 60;

/// Sends as soon as the queue has capacity: the commit thread need not have run yet.
fn send(pipeline: &Pipeline, row: Row) -> Result<Option<Position>, Refusal> {
    loop {
        match send_one(pipeline, row) {
            Err(Refusal::QueueFull) => thread::yield_now(),
            sent => return sent,
        }
    }
}

#[test]
fn a_full_disk_also_refuses_requests_that_do_not_wait_for_it() {
    try_orders(|| {
        let env = TestEnv::start(Ack::Memory);
        let (fs, pipeline) = (env.fs.clone(), env.pipeline.clone());
        fs.set_capacity(Some(0));
        let mut taken = (0..TAKEN_MAX).map(|number| send(&pipeline, [0, number]));
        let refused = taken.find_map(Result::err);
        assert_eq!(refused, Some(Refusal::DiskFull), "all is taken and dropped");
        for number in 0..3 {
            let refused = send(&pipeline, [1, number]);
            assert_eq!(refused, Err(Refusal::DiskFull));
        }
        fs.set_capacity(None);
        assert!(send(&pipeline, [2, 0]).is_ok());
        env.running.stop();
        assert_eq!(pipeline.queue_requests(Lane::Live), 0, "places come back");
        drop((pipeline, env.pipeline, env.live));
        let stored = rows_after_start(&fs);
        assert!(stored.iter().any(|(row, _)| *row == [2, 0]), "{stored:?}");
    });
}

/// True while the disk writes nothing.
static IS_HELD: AtomicBool = AtomicBool::new(false);

fn wait_while_held() {
    thread::yield_now();
    while IS_HELD.load(Ordering::Relaxed) {
        thread::yield_now();
    }
}

#[test]
fn rows_that_wait_for_the_disk_count_in_the_queue_although_they_are_acknowledged() {
    /// More than half of what the queue holds.
    const BODY_BYTES: usize = 600_000;
    try_orders(|| {
        let env = TestEnv::start_on(Ack::Memory, wait_while_held);
        let (fs, pipeline) = (env.fs.clone(), env.pipeline.clone());
        IS_HELD.store(true, Ordering::Relaxed);
        let first = send_sized(&pipeline, [0, 0], BODY_BYTES);
        let second = send_sized(&pipeline, [0, 1], BODY_BYTES);
        IS_HELD.store(false, Ordering::Relaxed);
        assert_eq!((first, second), (Ok(None), Err(Refusal::QueueFull)));
        while let Err(refusal) = send_sized(&pipeline, [0, 2], BODY_BYTES) {
            assert_eq!(refusal, Refusal::QueueFull);
            thread::yield_now();
        }
        env.running.stop();
        drop((pipeline, env.pipeline, env.live));
        let stored = rows_after_start(&fs);
        let stored: Vec<Row> = stored.into_iter().map(|(row, _)| row).collect();
        assert_eq!(stored, [[0, 0], [0, 2]]);
    });
}
