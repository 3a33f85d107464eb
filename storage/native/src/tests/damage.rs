//! Bytes that are no rows give errors, whatever they are.

use super::{bytes_of, encoded, numbered};
use crate::{BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, NativeBlock, NativeError};
use millrace_rows::Table;
use proptest::prelude::*;

const TARGET: &str = Table::Events.insert_target();

fn refusal(rows: &[u8]) -> Option<NativeError> {
    NativeBlock::of(TARGET, rows).err()
}

#[test]
fn a_row_that_is_cut_anywhere_is_reported_by_its_index() {
    let whole = encoded(&numbered(3, 200));
    let two = encoded(&numbered(2, 200)).len();
    for end in two + 1..whole.len() {
        let expected = Some(NativeError::Incomplete { row: 2 });
        assert_eq!(refusal(&whole[..end]), expected, "{end}");
    }
    assert_eq!(refusal(&whole[..two]), None);
}

#[test]
fn days_and_flags_that_are_never_written_are_refused() {
    let rows = encoded(&numbered(2, 2));
    let second = rows.len() / 2;
    let flag = rows.len() - 1;
    let timestamp = second + 16 + 8 + 3;
    let table: [(&str, usize, &[u8], Option<&'static str>); 5] = [
        ("a flag of 2", flag, &[2], Some("historical_migration")),
        ("a flag of 255", flag, &[0xff], Some("historical_migration")),
        (
            "a time before 1970",
            timestamp,
            &[0xff; 8],
            Some("timestamp"),
        ),
        (
            "a time after 2149",
            timestamp + 7,
            &[0x7f],
            Some("timestamp"),
        ),
        ("the epoch", timestamp, &[0; 8], None),
    ];
    for (what, at, bytes, expected) in table {
        let mut changed = rows.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        let expected = expected.map(|column| NativeError::Invalid { row: 1, column });
        assert_eq!(refusal(&changed), expected, "{what}");
    }
}

#[test]
fn what_is_not_fit_for_a_block_is_refused() {
    let row = encoded(&numbered(1, 2));
    let mut names = Vec::new();
    for first in 0..5 {
        let mut event = numbered(1, 2).remove(0);
        event.event = format!("{first}{}", "x".repeat(1 << 20));
        names.extend(encoded(&[event]));
    }
    let many = row.repeat(BLOCK_ROWS_MAX + 1);
    let large = vec![0_u8; BLOCK_BYTES_MAX + 1];
    let table: [(&str, &str, &[u8], NativeError); 5] = [
        ("nothing", TARGET, b"", NativeError::NoRows),
        (
            "another table",
            "sessions(id)",
            &row,
            NativeError::UnknownColumns,
        ),
        ("data as names", TARGET, &names, NativeError::ManyNames),
        ("a row too many", TARGET, &many, NativeError::TooLarge),
        ("a byte too many", TARGET, &large, NativeError::TooLarge),
    ];
    for (what, target, rows, expected) in table {
        let refused = NativeBlock::of(target, rows).err();
        assert_eq!(refused, Some(expected), "{what}");
    }
}

proptest! {
    #[test]
    fn damaged_rows_are_refused_or_make_a_block_of_the_size_it_says(
        count in 1_u64..5,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut rows = encoded(&numbered(count, 150));
        for (at, byte) in changes {
            let at = at.index(rows.len());
            rows[at] = byte;
        }
        if is_cut {
            rows.truncate(cut.index(rows.len()));
        }
        if let Ok(block) = NativeBlock::of(TARGET, rows.as_slice()) {
            prop_assert!(!bytes_of(&block).is_empty());
        }
    }

    #[test]
    fn any_bytes_are_refused_or_make_a_block(rows in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(block) = NativeBlock::of(TARGET, rows.as_slice()) {
            prop_assert!(block.len_bytes() > 0);
        }
    }
}
