//! Counting the events of imports.

use super::test_env::{TestEnv, batch, dawdle};
use super::try_orders;
use crate::{Ack, ImportReservation};
use millrace_log::testing::{Fault, FaultKind};
use millrace_rows::{Lane, ProjectId};
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PROJECT: ProjectId = ProjectId(7);
const CLIENTS: u8 = 3;
/// Events of a request.
const EVENTS: u64 = 10;

#[test]
fn acknowledged_events_are_counted_and_all_others_refunded() {
    try_orders(|| {
        let env = TestEnv::start(Ack::Disk);
        let back = Arc::new(AtomicU64::new(0));
        let acknowledged = Arc::new(AtomicU64::new(0));
        let after = thread_rng().gen_range(0..12);
        let kind = FaultKind::Io;
        env.fs.set_fault(Some(Fault { after, kind }));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let pipeline = env.pipeline.clone();
                let (back, acknowledged) = (Arc::clone(&back), Arc::clone(&acknowledged));
                thread::spawn(move || {
                    let reservation = ImportReservation::new(PROJECT, EVENTS, back);
                    let Ok(slot) = pipeline.reserve(Lane::Historical, 2) else {
                        return;
                    };
                    let batch = batch(Lane::Historical, [client, 0]);
                    if block_on(slot.submit_counted(batch, reservation, drop)).is_ok() {
                        let all = acknowledged.fetch_add(EVENTS, Ordering::Relaxed) + EVENTS;
                        let counted = pipeline.import_count().events.get(&PROJECT).copied();
                        assert!(counted.unwrap_or(0) >= all);
                    }
                })
            })
            .collect();
        dawdle(40);
        env.running.stop();
        for client in clients {
            client.join().unwrap();
        }
        let counted = env.pipeline.import_count().events.get(&PROJECT).copied();
        let counted = counted.unwrap_or(0);
        assert_eq!(counted, acknowledged.load(Ordering::Relaxed));
        let gone_back = back.load(Ordering::Relaxed);
        assert_eq!(counted + gone_back, u64::from(CLIENTS) * EVENTS);
    });
}
