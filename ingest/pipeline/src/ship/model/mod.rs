//! The plan, the checkpoint and the delivery against a model of the log and of ClickHouse: for
//! any frames, faults, crashes and restarts, every row is delivered exactly once.
//!
//! The model of ClickHouse knows what the real one does wrong: a token may be recorded without
//! its rows when the server dies between the two, an answer may be lost before or after the rows
//! are stored, and an insert may go on running after its client has gone.

mod server;
mod world;

use proptest::prelude::*;
use server::{Fate, RowId};
use std::collections::BTreeSet;
use world::World;

/// What may happen to the process and around it.
#[derive(Clone, Debug)]
enum Op {
    /// A frame: per section a key and a number of rows.
    Append(Vec<(u8, u8)>),
    Wait(u16),
    /// Read, plan, store the checkpoint, send so many of the inserts, judge so many of those, and
    /// crash unless all were judged.
    Ship {
        sent: u8,
        judged: u8,
    },
    RestartServer,
    RestartUs,
    LoseCheckpoint,
    /// The disk loses a row, which may be stored already.
    Damage(RowId),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        4 => Just(Fate::Stored),
        1 => Just(Fate::StoredAnswerLost),
        1 => Just(Fate::NotStoredAnswerLost),
        1 => Just(Fate::NotStored),
        1 => Just(Fate::StoredThenCrash),
        1 => Just(Fate::TokenOnlyThenCrash),
        1 => Just(Fate::TokenOnlyThenError),
        1 => Just(Fate::StillRunning),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => prop::collection::vec((0_u8..3, 0_u8..9), 1..4).prop_map(Op::Append),
        2 => (0_u16..1_000).prop_map(Op::Wait),
        6 => (0_u8..5, 0_u8..5).prop_map(|(sent, judged)| Op::Ship { sent, judged }),
        3 => Just(Op::Ship { sent: u8::MAX, judged: u8::MAX }),
        1 => Just(Op::RestartServer),
        1 => Just(Op::RestartUs),
        1 => Just(Op::LoseCheckpoint),
        1 => (0_u64..120).prop_map(Op::Damage),
    ]
}

proptest! {
    #[test]
    fn every_row_is_delivered_exactly_once(
        ops in prop::collection::vec(op(), 1..60),
        fates in prop::collection::vec(fate(), 0..40),
        bad in prop::option::weighted(0.4, prop::collection::btree_set(0_u64..120, 0..6)),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut world = World::new(fates, bad.unwrap_or_default());
            for op in &ops {
                world.apply(op).await;
            }
            world.server.state().fates.clear();
            world.drain().await;
            let state = world.server.state();
            let mut stored: Vec<RowId> = state.parts.iter().flatten().copied().collect();
            stored.extend(&world.aside);
            stored.sort_unstable();
            let all: Vec<RowId> = (0..world.rows).collect();
            assert_eq!(stored, all);
            let may_be_aside: BTreeSet<RowId> = state.bad.union(&world.damaged).copied().collect();
            assert!(world.aside.is_subset(&may_be_aside));
            assert_eq!(world.plan.low(), world.end);
        });
    }
}
