//! Inserts that are sent by halves: few at a time, and all of them in the end.

use super::*;
use crate::ship::checkpoint::Range;
use crate::ship::unit::RowRange;
use millrace_log::CHECKPOINT_BYTES_MAX;

const OTHER: &str = "rejected_events(raw)";

/// Reads, and sends for a second in which a part takes 20 ms: all rows of events are refused, all others stored.
fn ship_refused(stand: &mut Stand) {
    for _ in 0..50 {
        stand.read();
        stand.pass(Duration::from_millis(20));
        for (id, unit) in stand.plan.launch(stand.now(), None) {
            let is_refused = &*unit.key.insert_target != OTHER && stand.plan.refused(id);
            if !is_refused {
                // A single row, which is set aside.
                stand.plan.settled(id);
            }
        }
    }
}

/// Whether a row of the table is read, and neither stored nor set aside.
fn has(stand: &Stand, table: &str) -> bool {
    let in_flight = stand.plan.in_flight.values().map(|it| &it.unit.key);
    let mut keys = in_flight.chain(stand.plan.waiting.keys());
    keys.any(|key| &*key.insert_target == table)
}

/// Inserts that the checkpoint names, which are few.
fn ranges(stand: &Stand) -> usize {
    let checkpoint = stand.plan.checkpoint();
    assert!(checkpoint.to_bytes().unwrap().len() < 100_000);
    checkpoint.in_flight.len()
}

#[test]
fn rows_that_all_are_refused_make_no_more_parts_than_are_worked_off_and_keep_no_other_table_waiting()
 {
    let mut stand = Stand::new();
    stand.plan.limits.sections_max = 2_000;
    for second in 0..900 {
        for _ in 0..15 {
            stand.append("events(uuid)", RECENT, 20);
        }
        stand.append(OTHER, RECENT, 1);
        ship_refused(&mut stand);
        assert!(ranges(&stand) < 200, "{second}: {}", ranges(&stand));
    }
    assert_eq!(stand.plan.read_to(), stand.end);
    stand.pass(Duration::from_secs(2));
    ship_refused(&mut stand);
    assert!(!has(&stand, OTHER));
    // Once the table is mended all goes.
    stand.sent();
    assert_eq!(stand.plan.low(), stand.end);
}

#[test]
fn inserts_in_trouble_that_are_refused_all_at_once_wait_for_their_turn() {
    let mut stand = Stand::new();
    for _ in 0..100_000 {
        stand.row(RECENT);
    }
    for _ in 0..20 {
        // Nobody can be reached, whatever is sent, …
        stand.pass(Duration::from_secs(60));
        let mut away = Vec::new();
        loop {
            let units = stand.plan.launch(stand.now(), None);
            if units.is_empty() {
                break;
            }
            for (id, _) in units {
                stand.plan.troubled(id, true);
                away.push(id);
            }
        }
        // … and then everything is refused.
        for id in away {
            if !stand.plan.refused(id) {
                stand.plan.settled(id);
            }
        }
        ship_refused(&mut stand);
        assert!(ranges(&stand) < 400, "{}", ranges(&stand));
    }
    assert!(stand.plan.checkpoint().in_flight.len() > 100);
    stand.sent();
    assert_eq!(stand.plan.low(), stand.end);
}

#[test]
fn what_is_a_part_is_one_after_a_restart_so_that_no_more_are_made() {
    let mut stand = Stand::new();
    for _ in 0..20_000 {
        stand.row(RECENT);
    }
    for _ in 0..50 {
        for _ in 0..100 {
            stand.pass(Duration::from_secs(10));
            stand.fail();
        }
        assert!(ranges(&stand) < 600, "{}", ranges(&stand));
        stand.restart();
        stand.read();
    }
}

#[test]
fn what_an_earlier_version_left_in_so_many_parts_that_its_checkpoint_was_full_is_worked_off() {
    let mut stand = Stand::new();
    for _ in 0..9_380 {
        stand.append("events(uuid)", RECENT, 3);
    }
    let ranges = stand.log.iter().map(|(frame, key, _)| {
        let frame = *frame;
        let place = Place { frame, section: 0 };
        Range {
            key: key.clone(),
            first: place,
            last: place,
            rows: (frame.offset % 128 == 0).then_some(RowRange { from: 0, to: 3 }),
            start_mark: Some(u32::MAX),
            attempt: 0,
            is_suspect: false,
            is_part: false,
            run: None,
        }
    });
    let mut checkpoint = stand.plan.checkpoint();
    checkpoint.in_flight = ranges.collect();
    let bytes = checkpoint.to_bytes().unwrap().len();
    assert!(((1 << 20) - 20_000..1 << 20).contains(&bytes), "{bytes}");
    stand.plan = Plan::restore(stand.plan.limits, checkpoint, 1, stand.end);
    for _ in 0..10 {
        ship_refused(&mut stand);
        let bytes = stand.plan.checkpoint().to_bytes().unwrap();
        assert!(bytes.len() < CHECKPOINT_BYTES_MAX);
    }
    assert!(stand.plan.in_flight.len() < 9_380 - 75);
}
