//! Rows to blocks, read back by a decoder that knows nothing of how they are made.

mod damage;
mod golden;

use crate::city_hash::city_hash_64;
use crate::testing::{DecodedBlock, decode};
use crate::{NativeBlock, PIECE_BYTES};
use millrace_rows::testing::{Event, events};
use millrace_rows::{EventRow, Micros, ProjectId, Table};
use proptest::prelude::*;
use std::collections::HashSet;
use uuid::Uuid;

const DAY_MICROS: i64 = 86_400_000_000;
/// 2026-11-20T00:00:00Z.
const NOVEMBER: i64 = 1_795_132_800_000_000;

/// Sorting key of the table, from the values as they are.
type NaiveKey = (i64, i64, String, u64, u64);

fn row<'a>(event: &'a Event, properties: &'a [&'a [u8]]) -> EventRow<'a> {
    EventRow {
        uuid: event.uuid,
        event: event.event.as_bytes(),
        properties,
        timestamp: event.timestamp,
        team_id: ProjectId(event.team_id),
        distinct_id: event.distinct_id.as_bytes(),
        created_at: event.created_at,
        historical_migration: event.historical_migration,
    }
}

/// RowBinary of events, as the log keeps it.
pub(crate) fn encoded(events: &[Event]) -> Vec<u8> {
    let mut rows = Vec::new();
    for event in events {
        row(event, &[event.properties.as_bytes()]).append_to(&mut rows);
    }
    rows
}

fn block_of(rows: &[u8]) -> NativeBlock<&[u8]> {
    NativeBlock::of(Table::Events.insert_target(), rows).unwrap()
}

/// The whole block, after checking that its pieces have as many bytes as it says.
pub(crate) fn bytes_of(block: &NativeBlock<&[u8]>) -> Vec<u8> {
    let pieces: Vec<Vec<u8>> = (0..).map_while(|nth| block.piece(nth)).collect();
    let bytes = pieces.concat();
    assert_eq!(block.len_bytes(), bytes.len() as u64);
    bytes
}

fn decoded(rows: &[u8]) -> DecodedBlock {
    decode(&bytes_of(&block_of(rows)))
}

fn naive_key(event: &Event) -> NaiveKey {
    let mut uuid = Vec::new();
    millrace_rows::rowbinary::put_uuid(&mut uuid, event.uuid);
    (
        event.team_id,
        event.timestamp.0 / DAY_MICROS,
        event.event.clone(),
        city_hash_64(event.distinct_id.as_bytes()),
        city_hash_64(&uuid),
    )
}

/// The identity that the table keeps one row of, without hashes.
fn identity(event: &Event) -> (i64, i64, &str, &str, Uuid) {
    (
        event.team_id,
        event.timestamp.0 / DAY_MICROS,
        &event.event,
        &event.distinct_id,
        event.uuid,
    )
}

fn event() -> impl Strategy<Value = Event> {
    let names = prop_oneof!["[a-c]", "[a-z$ ]{0,12}", "\\PC{0,20}"];
    let ids = prop_oneof!["[a-b]", "[0-9a-f-]{36}", "\\PC{0,70}"];
    let texts = prop_oneof![Just("{}".to_owned()), "\\PC{0,300}"];
    let uuids = prop_oneof![0_u128..4, any::<u128>()];
    let ours = (-2_i64..3, 0..3 * DAY_MICROS, 0_i64..5, any::<bool>());
    (names, ids, texts, uuids, ours).prop_map(|(event, distinct_id, properties, uuid, ours)| {
        let (team_id, after, received, historical_migration) = ours;
        Event {
            uuid: Uuid::from_u128(uuid),
            event,
            properties,
            timestamp: Micros(NOVEMBER + after),
            team_id,
            distinct_id,
            created_at: Micros(NOVEMBER + received),
            historical_migration,
        }
    })
}

proptest! {
    #[test]
    fn a_block_has_the_rows_in_the_tables_order(
        all in prop::collection::vec(event(), 1..80),
    ) {
        let rows = encoded(&all);
        prop_assert_eq!(&events(&rows), &all);
        // A stable sort, as the server's: rows of one key keep their order.
        let mut expected = all;
        expected.sort_by_key(naive_key);
        prop_assert_eq!(decoded(&rows).events, expected);
    }

    #[test]
    fn equal_keys_are_those_of_rows_that_the_table_merges(
        all in prop::collection::vec(event(), 1..12),
        again in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut all = all;
        if let Some(again) = again {
            let mut twin = again.get(&all).clone();
            // On the same day, and in another version.
            twin.timestamp = Micros(twin.timestamp.0 / DAY_MICROS * DAY_MICROS);
            twin.properties.push('x');
            twin.created_at = Micros(twin.created_at.0 + 1);
            all.push(twin);
        }
        let identities: HashSet<_> = all.iter().map(identity).collect();
        let rows = encoded(&all);
        let block = block_of(&rows);
        prop_assert_eq!(block.has_equal_keys(), identities.len() < all.len());
        prop_assert_eq!(block.rows(), all.len());
    }
}

/// Events of different uuids with properties of so many bytes.
pub(crate) fn numbered(count: u64, properties_bytes: usize) -> Vec<Event> {
    let numbers = 0..count;
    let event = |number: u64| Event {
        uuid: Uuid::from_u128(u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        event: format!("event {}", number % 300),
        properties: "x".repeat(properties_bytes),
        timestamp: Micros(NOVEMBER + number as i64),
        team_id: (number % 3) as i64,
        distinct_id: format!("user-{}", number % 7),
        created_at: Micros(NOVEMBER),
        historical_migration: number % 2 == 1,
    };
    numbers.map(event).collect()
}

#[test]
fn a_block_of_many_pieces_is_cut_between_cells() {
    for (count, properties_bytes) in [(1, 0), (40_000, 30), (300, 10_000), (3, 2 * PIECE_BYTES)] {
        let mut all = numbered(count, properties_bytes);
        let rows = encoded(&all);
        let block = block_of(&rows);
        let pieces = (0..).map_while(|nth| block.piece(nth)).collect::<Vec<_>>();
        assert!(pieces.len() >= 8, "one of each column at least");
        let large = pieces.iter().filter(|piece| piece.len() > PIECE_BYTES);
        let expected = if properties_bytes > PIECE_BYTES {
            count
        } else {
            0
        };
        assert_eq!(large.count() as u64, expected, "{properties_bytes} bytes");
        all.sort_by_cached_key(naive_key);
        assert!(decode(&bytes_of(&block)).events == all, "{count} rows");
    }
}

#[test]
fn a_dictionary_has_each_name_once_in_their_order() {
    let all = numbered(1_000, 2);
    let mut expected: Vec<String> = (0..300).map(|number| format!("event {number}")).collect();
    expected.sort_unstable();
    assert_eq!(decoded(&encoded(&all)).names, expected);
}

#[test]
fn rows_of_an_older_column_list_are_columns_of_that_list() {
    let target = "events(team_id,distinct_id,`event`,timestamp,uuid)";
    let mut rows = Vec::new();
    for (team_id, name) in [(2_i64, b'b'), (1, b'a')] {
        rows.extend_from_slice(&team_id.to_le_bytes());
        rows.extend_from_slice(&[1, b'd', 1, name]);
        rows.extend_from_slice(&NOVEMBER.to_le_bytes());
        rows.extend_from_slice(&[7; 16]);
    }
    let block = NativeBlock::of(target, rows.as_slice()).unwrap();
    let decoded = decode(&bytes_of(&block));
    let names: Vec<&str> = decoded
        .columns
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(
        names,
        ["team_id", "distinct_id", "event", "timestamp", "uuid"]
    );
    let found = decoded
        .events
        .iter()
        .map(|it| (it.team_id, it.event.as_str()));
    assert_eq!(found.collect::<Vec<_>>(), [(1, "a"), (2, "b")]);
}
