//! Native blocks: the table has the rows that it has of RowBinary, and takes the block's order for
//! its own.

use crate::fixture::{Database, NOVEMBER, OCTOBER, compressed, events};
use bytes::Bytes;
use millrace_clickhouse::{Body, BodyFormat, Insert, InsertError, InsertOutcome};
use millrace_native::NativeBlock;
use millrace_native::testing::decode;
use millrace_rows::{EventRow, Micros, ProjectId, Table};
use uuid::Uuid;

const DAY_MICROS: i64 = 86_400_000_000;
/// Sum over all rows and columns, in no order; after it a table.
const HASHES: &str = "SELECT sum(cityHash64(uuid, event, properties, timestamp, team_id, \
                      distinct_id, created_at, historical_migration)) FROM";

/// Body of a native block.
pub struct NativeBody {
    pieces: Vec<Bytes>,
    format: BodyFormat,
}

impl Body for NativeBody {
    fn format(&self) -> BodyFormat {
        self.format
    }

    fn len_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }

    async fn piece(&self, index: usize) -> Result<Option<Vec<Bytes>>, InsertError> {
        Ok(self.pieces.get(index).map(|piece| vec![piece.clone()]))
    }
}

fn block_of(rows: &[u8]) -> NativeBlock<&[u8]> {
    NativeBlock::of(Table::Events.insert_target(), rows).unwrap()
}

fn pieces_of(rows: &[u8]) -> Vec<Vec<u8>> {
    let block = block_of(rows);
    (0..).map_while(|nth| block.piece(nth)).collect()
}

/// Returns the body of rows, as the shipper sends it.
pub fn native(rows: &[u8], is_compressed: bool) -> NativeBody {
    let packed = |piece: Vec<u8>| match is_compressed {
        true => compressed(&piece),
        false => Bytes::from(piece),
    };
    NativeBody {
        pieces: pieces_of(rows).into_iter().map(packed).collect(),
        format: BodyFormat::Native {
            is_compressed,
            keys_differ: !block_of(rows).has_equal_keys(),
        },
    }
}

async fn insert(database: &Database, token: &str, body: &NativeBody) -> Result<(), InsertError> {
    let insert = Insert {
        insert_target: Table::Events.insert_target(),
        token,
        body,
    };
    database.clickhouse.insert(&insert).await
}

/// RowBinary of events of November with all kinds of values, received at `received_at`.
fn various(ids: std::ops::Range<u64>, received_at: i64) -> Vec<u8> {
    let names = [
        "seen",
        "$pageview",
        "",
        "signed up",
        "\u{e4}\u{1f389}",
        "a'b\\c\n",
    ];
    let mut rows = Vec::new();
    for id in ids {
        // A hash, so that no order of the values is that of the rows.
        let random = id.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        let distinct_id = format!("u{:x}", random % 50).repeat((random % 9) as usize);
        let text = "\u{fc}x".repeat((random % 700) as usize);
        let row = EventRow {
            uuid: Uuid::from_u128(u128::from(random) << 64 | u128::from(id)),
            event: names[(random % 6) as usize].as_bytes(),
            properties: &[b"{\"text\":\"", text.as_bytes(), b"\"}"],
            timestamp: Micros(NOVEMBER + (random % 9) as i64 * DAY_MICROS + id as i64),
            team_id: ProjectId((random % 4) as i64 - 1),
            distinct_id: distinct_id.as_bytes(),
            created_at: Micros(received_at + id as i64),
            historical_migration: random.is_multiple_of(3),
        };
        row.append_to(&mut rows);
    }
    rows
}

#[tokio::test(flavor = "multi_thread")]
async fn a_native_block_stores_what_its_rows_store() {
    let rows = various(0..20_000, NOVEMBER);
    // Half of them again, in a later version: the table keeps one of each.
    let twice = [rows.clone(), various(0..10_000, NOVEMBER + DAY_MICROS)].concat();
    for (what, rows, is_compressed, stored) in [
        ("plain", &rows, false, 20_000),
        ("compressed", &rows, true, 20_000),
        ("equal_keys", &twice, true, 20_000),
        ("one_row", &various(5..6, NOVEMBER), false, 1),
    ] {
        let as_rows = Database::make(&format!("native_rows_{what}")).await;
        let as_block = Database::make(&format!("native_block_{what}")).await;
        let token = format!("native-rows-{what}");
        as_rows.insert(&token, rows).await.unwrap();
        let body = native(rows, is_compressed);
        let token = format!("native-block-{what}");
        insert(&as_block, &token, &body).await.unwrap();
        for database in [&as_rows, &as_block] {
            assert_eq!(database.events().await, stored, "{what}");
            assert_eq!(database.parts().await, 1, "{what}");
        }
        for table in ["{db}.events", "{db}.events FINAL"] {
            let (expected, found) = (
                as_rows.number(&format!("{HASHES} {table}")).await,
                as_block.number(&format!("{HASHES} {table}")).await,
            );
            assert_eq!(found, expected, "{what} {table}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_native_block_has_the_order_that_the_table_gives_its_rows() {
    let database = Database::make("native_order").await;
    let rows = various(0..5_000, NOVEMBER);
    // The order in which the table has rows that nobody sorted.
    database.insert("native-order", &rows).await.unwrap();
    let in_order = "SELECT toString(uuid) FROM {db}.events ORDER BY _part_offset";
    let found = database.texts(in_order).await;
    let block = decode(&pieces_of(&rows).concat());
    let expected: Vec<String> = block.events.iter().map(|it| it.uuid.to_string()).collect();
    assert!(found == expected, "the table is sorted by another key");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_equal_keys_in_later_inserts_are_merged_whatever_their_format() {
    let database = Database::make("native_versions").await;
    let (rows, later) = (
        various(0..1_000, NOVEMBER),
        various(500..1_500, NOVEMBER + DAY_MICROS),
    );
    insert(&database, "native-first", &native(&rows, true))
        .await
        .unwrap();
    insert(&database, "native-later", &native(&later, false))
        .await
        .unwrap();
    assert_eq!(database.events().await, 2_000);
    let merged = "SELECT count() FROM {db}.events FINAL";
    assert_eq!(database.number(merged).await, 1_500);
    let of_the_later = format!(
        "SELECT count() FROM {{db}}.events FINAL \
         WHERE toUnixTimestamp64Micro(created_at) >= {}",
        NOVEMBER + DAY_MICROS
    );
    assert_eq!(database.number(&of_the_later).await, 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_and_their_block_under_one_token_are_stored_once() {
    let database = Database::make("native_tokens").await;
    let rows = various(0..100, NOVEMBER);
    database.insert("native-a", &rows).await.unwrap();
    for (token, stored) in [("native-a", 100), ("native-b", 200), ("native-b", 200)] {
        let body = native(&rows, true);
        insert(&database, token, &body).await.unwrap();
        assert_eq!(database.events().await, stored, "{token}");
    }
    database.insert("native-b", &rows).await.unwrap();
    assert_eq!(database.events().await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_native_block_that_cannot_be_stored_whole_stores_nothing() {
    let database = Database::make("native_bad_blocks").await;
    let two_months = [events(0..10, NOVEMBER), events(10..20, OCTOBER)].concat();
    let whole = native(&various(0..1_000, NOVEMBER), false);
    let cut = |bytes: usize| {
        let all = whole.pieces.concat();
        NativeBody {
            pieces: vec![Bytes::copy_from_slice(&all[..all.len() - bytes])],
            format: whole.format,
        }
    };
    for (what, body) in [
        ("two months in a block", native(&two_months, true)),
        ("cut in the last column", cut(1)),
        ("cut in the middle", cut(100_000)),
    ] {
        let error = insert(&database, what, &body).await.unwrap_err();
        assert_eq!(error.outcome, InsertOutcome::BadData, "{what}: {error}");
        assert_eq!(database.events().await, 0, "{what}");
    }
}
