//! Flush barriers: everything submitted before one is shipped when it is answered.

use super::test_env::{Row, TestEnv, dawdle, rows, send_one};
use super::try_orders;
use crate::{Ack, LaneOutput};
use shuttle::future::block_on;
use shuttle::thread;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Shared set of rows.
type Rows = Arc<Mutex<BTreeSet<Row>>>;

/// Fake shipper: synced rows are in ClickHouse at once.
fn ship(output: LaneOutput, shipped: &Rows) {
    let mut synced = output.synced;
    let mut from = output.log.start();
    while block_on(synced.changed()).is_ok() {
        let to = *synced.borrow_and_update();
        let found = rows(&output.log, from);
        let below = found.iter().filter(|(_, end)| *end <= to);
        shipped.lock().unwrap().extend(below.map(|(row, _)| *row));
        thread::yield_now();
        from = to;
        output.shipped.send_replace(to);
    }
}

#[test]
fn a_flush_barrier_waits_for_all_rows_accepted_before_it() {
    for ack in [Ack::Memory, Ack::Disk, Ack::ClickHouse] {
        try_orders(move || {
            let env = TestEnv::start(ack);
            let (shipped, taken) = (Rows::default(), Rows::default());
            let shipper = thread::spawn({
                let (output, shipped) = (env.live, shipped.clone());
                move || ship(output, &shipped)
            });
            let clients: Vec<_> = (0..2)
                .map(|client| {
                    let (pipeline, taken) = (env.pipeline.clone(), taken.clone());
                    let shipped = shipped.clone();
                    thread::spawn(move || {
                        for number in 0..2 {
                            let row = [client, number];
                            send_one(&pipeline, row).unwrap();
                            if ack == Ack::ClickHouse {
                                assert!(shipped.lock().unwrap().contains(&row));
                            }
                            taken.lock().unwrap().insert(row);
                        }
                    })
                })
                .collect();
            dawdle(40);
            let before = taken.lock().unwrap().clone();
            block_on(env.pipeline.wait_for_flush());
            assert!(shipped.lock().unwrap().is_superset(&before));
            for client in clients {
                client.join().unwrap();
            }
            env.running.stop();
            shipper.join().unwrap();
        });
    }
}
