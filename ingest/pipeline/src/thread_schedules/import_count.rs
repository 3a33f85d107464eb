//! Counting the events of imports.

use super::test_env::{TestEnv, batch, dawdle};
use super::try_orders;
use crate::{Ack, ImportTokens};
use millrace_log::testing::{Fault, FaultKind};
use millrace_rows::Lane;
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const CLIENTS: u8 = 3;
/// Events of a request.
const EVENTS: u64 = 10;

#[test]
fn acknowledged_events_are_counted_and_all_others_refunded() {
    try_orders(|| {
        let env = TestEnv::start(Ack::Disk);
        let tokens = Arc::new(ImportTokens::default());
        tokens.add(u64::from(CLIENTS) * EVENTS);
        let acknowledged = Arc::new(AtomicU64::new(0));
        let after = thread_rng().gen_range(0..12);
        let kind = FaultKind::Io;
        env.fs.set_fault(Some(Fault { after, kind }));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let pipeline = env.pipeline.clone();
                let (tokens, acknowledged) = (Arc::clone(&tokens), Arc::clone(&acknowledged));
                thread::spawn(move || {
                    let reservation = tokens.reserve(EVENTS).unwrap();
                    let Ok(slot) = pipeline.reserve(Lane::Historical, 2) else {
                        return;
                    };
                    let batch = batch(Lane::Historical, [client, 0]);
                    if block_on(slot.submit_counted(batch, reservation, drop)).is_ok() {
                        let all = acknowledged.fetch_add(EVENTS, Ordering::Relaxed) + EVENTS;
                        assert!(tokens.counted() >= all);
                    }
                })
            })
            .collect();
        dawdle(40);
        env.running.stop();
        for client in clients {
            client.join().unwrap();
        }
        let counted = tokens.counted();
        assert_eq!(counted, acknowledged.load(Ordering::Relaxed));
        assert_eq!(counted + tokens.available(), u64::from(CLIENTS) * EVENTS);
    });
}
