//! Inserts, and the rows that they store.

use crate::fixture::{Database, NOVEMBER, OCTOBER, compressed, events};
use bytes::Bytes;
use millrace_clickhouse::{Body, Insert, InsertError, InsertOutcome, MigrateError};
use millrace_rows::{Micros, ProjectId, RejectedRow, Table};
use std::io::{Read, Write};
use std::net::TcpStream;
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_is_one_part_however_large() {
    let database = Database::make("one_part").await;
    for (token, rows, parts) in [("small", 0..10, 1), ("large", 10..1_000_010, 2)] {
        let bytes = events(rows, NOVEMBER);
        assert!(bytes.len() <= 128 << 20);
        database.insert(token, &bytes).await.unwrap();
        assert_eq!(database.parts().await, parts, "{token}");
    }
    assert_eq!(database.events().await, 1_000_010);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_stored_once_and_another_token_again() {
    let database = Database::make("tokens").await;
    let rows = events(0..100, NOVEMBER);
    for (token, stored) in [("a", 100), ("a", 100), ("b", 200), ("a", 200)] {
        database.insert(token, &rows).await.unwrap();
        assert_eq!(database.events().await, stored, "{token}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_arrive_as_they_were_encoded() {
    let database = Database::make("columns").await;
    database.insert("e", &events(7..8, NOVEMBER)).await.unwrap();
    let same = "SELECT count() FROM {db}.events WHERE uuid = toUUID('00000000-0000-0000-0000-000000000007') \
                AND event = 'seen' AND properties = '{\"a\":1}' AND team_id = 1 \
                AND distinct_id = 'somebody' AND timestamp = toDateTime64('2026-11-20 00:00:00', 6, 'UTC') \
                AND created_at = toDateTime64('2026-11-20 00:00:00.000007', 6, 'UTC') \
                AND NOT historical_migration";
    assert_eq!(database.number(same).await, 1);

    let mut rows = Vec::new();
    let rejected = RejectedRow {
        team_id: ProjectId(3),
        received_at: Micros(NOVEMBER),
        request_id: Uuid::from_u128(5),
        index: 2,
        code: "missing",
        attr: "event",
        detail: "no name",
        raw: b"{}",
        historical_migration: true,
    };
    rejected.append_to(&mut rows);
    let target = Table::RejectedEvents.insert_target();
    database.insert_into(target, "r", &rows).await.unwrap();
    let same = "SELECT count() FROM {db}.rejected_events WHERE team_id = 3 AND index = 2 \
                AND request_id = '00000000-0000-0000-0000-000000000005' AND code = 'missing' \
                AND attr = 'event' AND detail = 'no name' AND raw = '{}' AND historical_migration";
    assert_eq!(database.number(same).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_cannot_be_read_stores_nothing() {
    let database = Database::make("bad_blocks").await;
    let whole = events(0..1_000, NOVEMBER);
    let two_months = [events(0..10, NOVEMBER), events(10..20, OCTOBER)].concat();
    let table = [
        ("cut in a row", &whole[..whole.len() - 5]),
        ("two months", &two_months[..]),
    ];
    for (what, rows) in table {
        let error = database.insert(what, rows).await.unwrap_err();
        assert_eq!(error.outcome, InsertOutcome::BadData, "{what}: {error}");
        assert_eq!(database.events().await, 0, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_cut_short_stores_nothing() {
    let database = Database::make("cut_short").await;
    let blocks = compressed(&events(0..100_000, NOVEMBER));
    let settings = &database.settings;
    let address = settings.url.trim_start_matches("http://");
    let target = Table::Events.insert_target();
    let head = format!(
        "POST /?decompress=1&async_insert=0&query=INSERT%20INTO%20{}.{target}%20FORMAT%20RowBinary HTTP/1.1\r\n\
         Host: {address}\r\nX-ClickHouse-User: {}\r\nX-ClickHouse-Key: {}\r\nContent-Length: {}\r\n\r\n",
        settings.database,
        settings.user,
        settings.password,
        blocks.len()
    );
    for sent in [blocks.len() / 2, blocks.len() - 1, 25, 0] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&blocks[..sent]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        // The server may answer or reset the connection, but not answer with success.
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{sent} bytes");
        assert_eq!(database.events().await, 0, "{sent} bytes");
    }
}

/// Body of one whole block, then errors.
struct Failing(Bytes);

impl Body for Failing {
    fn len_bytes(&self) -> u64 {
        2 * self.0.len() as u64
    }

    async fn piece(&self, index: usize) -> Result<Option<Vec<Bytes>>, InsertError> {
        if index == 0 {
            return Ok(Some(vec![self.0.clone()]));
        }
        Err(InsertError {
            outcome: InsertOutcome::Unread,
            code: None,
            message: "the disk is gone".to_owned(),
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_fails_while_it_is_sent_stores_nothing() {
    let database = Database::make("inserts_unread").await;
    let insert = Insert {
        insert_target: Table::Events.insert_target(),
        token: "unread",
        body: &Failing(compressed(&events(0..1_000, NOVEMBER))),
    };
    let error = database.clickhouse.insert(&insert).await.unwrap_err();
    assert_eq!(error.outcome, InsertOutcome::Unread, "{error}");
    while database
        .clickhouse
        .insert_is_running("unread")
        .await
        .unwrap()
    {
        tokio::task::yield_now().await;
    }
    assert_eq!(database.events().await, 0);
    let rows = events(0..1_000, NOVEMBER);
    database.insert("unread", &rows).await.unwrap();
    assert_eq!(database.events().await, 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn migrations_may_be_applied_again_and_a_newer_schema_is_refused() {
    let database = Database::make("migrations").await;
    database.clickhouse.migrate().await.unwrap();
    let applied = "SELECT count() FROM {db}.schema_migrations";
    let before = database.number(applied).await;
    database.clickhouse.migrate().await.unwrap();
    assert_eq!(database.number(applied).await, before);
    database
        .execute("INSERT INTO migrations.schema_migrations SELECT 9999, 'later', now64(6)")
        .await;
    let refused = database.clickhouse.migrate().await;
    assert!(
        matches!(refused, Err(MigrateError::Newer { found: 9999, .. })),
        "{refused:?}"
    );
}
