//! A block made by hand.

use super::{NOVEMBER, block_of, bytes_of};
use millrace_rows::{EventRow, Micros, ProjectId};
use uuid::Uuid;

/// Two rows whose second one comes first.
fn rows() -> Vec<u8> {
    let second = EventRow {
        uuid: Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
        event: b"seen",
        properties: &[b"{\"a\":", b"1}"],
        timestamp: Micros(NOVEMBER + 1),
        team_id: ProjectId(2),
        distinct_id: b"d",
        created_at: Micros(3),
        historical_migration: true,
    };
    let first = EventRow {
        uuid: Uuid::from_u128(0xff),
        event: b"left",
        properties: &[b"{}"],
        timestamp: Micros(NOVEMBER + 2),
        team_id: ProjectId(2),
        distinct_id: b"",
        created_at: Micros(4),
        historical_migration: false,
    };
    let mut rows = Vec::new();
    second.append_to(&mut rows);
    first.append_to(&mut rows);
    rows
}

#[test]
fn a_block_is_its_columns_one_after_the_other() {
    let [first, second] = [2, 1].map(|after: i64| (NOVEMBER + after).to_le_bytes());
    let expected: [&[u8]; 28] = [
        // Eight columns, two rows.
        &[8, 2],
        b"\x04uuid\x04UUID",
        &[0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0, 0, 0, 0, 0, 0, 0],
        &[8, 7, 6, 5, 4, 3, 2, 1, 16, 15, 14, 13, 12, 11, 10, 9],
        b"\x05event\x16LowCardinality(String)",
        // Version, flags with indexes of one byte, two keys, and two rows.
        &[1, 0, 0, 0, 0, 0, 0, 0],
        &[0, 6, 0, 0, 0, 0, 0, 0],
        &[2, 0, 0, 0, 0, 0, 0, 0],
        b"\x04left\x04seen",
        &[2, 0, 0, 0, 0, 0, 0, 0],
        &[0, 1],
        b"\x0aproperties\x06String",
        b"\x02{}\x07{\"a\":1}",
        b"\x09timestamp\x14DateTime64(6, 'UTC')",
        &first,
        &second,
        b"\x07team_id\x05Int64",
        &[2, 0, 0, 0, 0, 0, 0, 0],
        &[2, 0, 0, 0, 0, 0, 0, 0],
        b"\x0bdistinct_id\x06String",
        b"\0\x01d",
        b"\x0acreated_at\x14DateTime64(6, 'UTC')",
        &[4, 0, 0, 0, 0, 0, 0, 0],
        &[3, 0, 0, 0, 0, 0, 0, 0],
        b"\x14historical_migration\x04Bool",
        &[0],
        &[1],
        // No suffix: what follows would be the next block.
        b"",
    ];
    let rows = rows();
    assert_eq!(bytes_of(&block_of(&rows)), expected.concat());
}
