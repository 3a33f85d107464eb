//! Requests that are acknowledged before they are written, and a full disk.

use super::test_env::{Row, TestEnv, rows_after_start, send_one};
use super::try_orders;
use crate::{Ack, Pipeline, Refusal};
use millrace_log::Position;
use millrace_rows::Lane;
use shuttle::thread;

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
