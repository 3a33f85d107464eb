//! What is shipped when somebody is told so.

use super::stage::{Row, Stage, dawdle, rows, send_one};
use super::try_orders;
use crate::{Ack, LaneOutput};
use shuttle::future::block_on;
use shuttle::thread;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Rows that something holds of.
type Rows = Arc<Mutex<BTreeSet<Row>>>;

/// Stands for a shipper: what is synced is in ClickHouse at once.
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
fn a_mark_is_behind_all_that_was_taken_before_it() {
    for ack in [Ack::Memory, Ack::Disk, Ack::ClickHouse] {
        try_orders(move || {
            let stage = Stage::start(ack);
            let (shipped, taken) = (Rows::default(), Rows::default());
            let shipper = thread::spawn({
                let (output, shipped) = (stage.live, shipped.clone());
                move || ship(output, &shipped)
            });
            let clients: Vec<_> = (0..2)
                .map(|client| {
                    let (pipeline, taken) = (stage.pipeline.clone(), taken.clone());
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
            block_on(stage.pipeline.everything_shipped());
            assert!(shipped.lock().unwrap().is_superset(&before));
            for client in clients {
                client.join().unwrap();
            }
            stage.running.stop();
            shipper.join().unwrap();
        });
    }
}
