//! Model test: plan, checkpoint and delivery against a model of the log and of ClickHouse. For any
//! frames, faults, crashes and restarts, every row is delivered exactly once.
//!
//! The model of ClickHouse has the real one's faults: a token may be recorded without its rows when
//! the server dies between the two, an answer may be lost before or after the rows are stored, and
//! an insert may go on running after its client has gone. It remembers three tokens, so that others
//! make it forget one that a retry or a restart uses again.

mod copies;
mod folder;
mod op;
mod process;
mod server;
mod source;

use op::Op;
use process::Model;
use proptest::prelude::*;
use server::{Fate, RowId};
use std::collections::BTreeSet;

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        4 => Just(Fate::Stored),
        1 => Just(Fate::StoredAnswerLost),
        1 => Just(Fate::StoredAndForgotten),
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
        6 => prop::collection::vec((0_u8..4, 0_u8..9, 0_u8..24), 1..5).prop_map(Op::Append),
        2 => (0_u16..1_000).prop_map(Op::Wait),
        6 => (0_u8..5, 0_u8..5).prop_map(|(sent, applied)| Op::Ship { sent, applied }),
        3 => Just(Op::Ship { sent: u8::MAX, applied: u8::MAX }),
        1 => Just(Op::WantUpdates),
        1 => Just(Op::RestartServer),
        1 => Just(Op::ToggleFailing),
        1 => Just(Op::RestartProcess),
        1 => Just(Op::LoseCheckpoint),
        1 => Just(Op::Copy),
        1 => Just(Op::RestoreCopy),
        1 => Just(Op::Snapshot),
        1 => Just(Op::RestoreMemory),
        1 => (0_u64..120).prop_map(Op::Damage),
        1 => any::<u8>().prop_map(Op::LoseFrame),
    ]
}

/// Applies `ops`, then mends everything and asserts that each row is where it belongs; returns the
/// stored rows.
fn run(ops: &[Op], fates: Vec<Fate>, is_vague: bool, bad: BTreeSet<RowId>) -> Vec<RowId> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut model = Model::new(fates, bad);
        model.server.state().is_vague = is_vague;
        for op in ops {
            model.apply(op).await;
        }
        model.server.state().fates.clear();
        model.drain().await;
        assert_exactly_once(&model);
        assert_eq!(model.plan.low(), model.end());
        let mut stored = model.server.state().parts.concat();
        stored.sort_unstable();
        stored
    })
}

fn assert_exactly_once(model: &Model) {
    let state = model.server.state();
    let mut stored: Vec<RowId> = state.parts.iter().flatten().copied().collect();
    stored.extend(&model.dead_lettered);
    stored.sort_unstable();
    let is_gone = |row: &RowId| model.gone.contains(row);
    // Which of two rows with one key is stored cannot always be told, but one is.
    for pair in &state.twins {
        let (second, first) = pair;
        let is_one_there = [first, second]
            .iter()
            .any(|row| stored.contains(row) || is_gone(row));
        assert!(is_one_there, "neither is stored: {pair:?}");
    }
    let pairs = state.twins.iter();
    let twins: BTreeSet<RowId> = pairs
        .flat_map(|(second, first)| [*second, *first])
        .collect();
    let is_alone = |row: &RowId| !twins.contains(row);
    stored.retain(is_alone);
    let kept: Vec<RowId> = stored.iter().copied().filter(|row| !is_gone(row)).collect();
    let all = (0..model.rows).filter(|row| is_alone(row) && !is_gone(row));
    assert_eq!(kept, all.collect::<Vec<RowId>>());
    let count = stored.len();
    stored.dedup();
    assert_eq!(stored.len(), count, "stored twice");
    let may_be_dead_lettered: BTreeSet<RowId> = state.bad.union(&model.damaged).copied().collect();
    assert!(model.dead_lettered.is_subset(&may_be_dead_lettered));
}

const SHIP: Op = Op::Ship {
    sent: u8::MAX,
    applied: u8::MAX,
};

#[test]
fn rows_sent_by_halves_are_looked_up_one_by_one() {
    let append = |twin| Op::Append(vec![(0, 4, twin)]);
    let bad = BTreeSet::from([0]);
    // A copy comes back after one half of a section was stored.
    let ops = [
        append(9),
        Op::Copy,
        Op::Wait(999),
        SHIP,
        SHIP,
        SHIP,
        Op::RestoreCopy,
    ];
    run(&ops, Vec::new(), false, bad.clone());
    // An insert is under way when the folder is copied, and is stored by halves then.
    let is_sent = Op::Ship {
        sent: 0,
        applied: 0,
    };
    let ops = [
        append(9),
        Op::Wait(999),
        is_sent,
        Op::Copy,
        SHIP,
        SHIP,
        Op::RestoreCopy,
    ];
    run(&ops, Vec::new(), false, bad.clone());
    // The answer of a half is lost; one of its rows has the key of a row of the other half, which
    // is stored.
    let fates = vec![Fate::Stored, Fate::NotStoredAnswerLost];
    let ops = [append(1), Op::Wait(999), SHIP, SHIP, SHIP, SHIP, SHIP];
    assert_eq!(run(&ops, fates, false, bad), [1, 2, 3]);
}

#[test]
fn a_token_that_is_forgotten_before_the_next_try_duplicates_no_row() {
    let ops = [Op::Append(vec![(0, 4, 9)]), Op::Wait(999), SHIP];
    run(&ops, vec![Fate::StoredAndForgotten], false, BTreeSet::new());
}

/// Regression: a token named positions and the start of the process, which come back with the
/// memory of a machine, and ClickHouse took later rows for those that it had.
#[test]
fn rows_after_a_machine_is_put_back_with_its_memory_are_stored() {
    let append = || Op::Append(vec![(0, 4, 9)]);
    let ops = [
        append(),
        Op::Snapshot,
        // Read first, and sent once they have waited.
        append(),
        SHIP,
        Op::Wait(999),
        SHIP,
        Op::RestoreMemory,
        append(),
    ];
    let stored = run(&ops, Vec::new(), false, BTreeSet::new());
    assert_eq!(stored, (0..12).collect::<Vec<RowId>>());
}

proptest! {
    #[test]
    fn every_row_is_delivered_exactly_once(
        ops in prop::collection::vec(op(), 1..60),
        fates in prop::collection::vec(fate(), 0..40),
        is_vague in any::<bool>(),
        bad in prop::option::weighted(0.4, prop::collection::btree_set(0_u64..120, 0..6)),
    ) {
        run(&ops, fates, is_vague, bad.unwrap_or_default());
    }
}
