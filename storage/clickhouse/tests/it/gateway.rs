//! Statements behind a gateway that strips ClickHouse's headers.

use crate::fixture::{Database, NOVEMBER};
use crate::proxy::behind;
use bytes::Bytes;
use millrace_clickhouse::{ClickHouse, InsertOutcome, PersonTable, RejectedEvent, Settings};
use millrace_rows::Micros;
use millrace_rows::rowbinary::{put_bool, put_bytes, put_i64, put_uuid};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use uuid::Uuid;

/// Settings of a gateway before another server; it answers inserts itself, or lets them through.
async fn behind_gateway(settings: &Settings, answers_inserts: bool) -> Settings {
    let serve = move |client, server| forward(client, server, answers_inserts);
    behind(settings, serve).await
}

async fn forward(mut client: TcpStream, server: String, answers_inserts: bool) {
    let mut server = TcpStream::connect(server).await.unwrap();
    let (mut request, mut answer) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        tokio::select! {
            count = client.read(&mut request) => match count {
                Ok(count) if count > 0 => {
                    // In the address, or in the body.
                    let begins = [&b"query=INSERT"[..], b"INSERT INTO"];
                    let is_insert = begins.iter().any(|it| find(&request[..count], it).is_some());
                    if is_insert && answers_inserts {
                        let bare = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                        client.write_all(bare).await.unwrap();
                        // Read to the end, so that the answer is not lost with the connection.
                        while client.read(&mut request).await.unwrap_or(0) > 0 {}
                        return;
                    }
                    server.write_all(&request[..count]).await.unwrap();
                }
                _ => return,
            },
            count = server.read(&mut answer) => match count {
                Ok(count) if count > 0 => {
                    if let Some(at) = find(&answer[..count], b"X-ClickHouse-Query-Id") {
                        answer[at..at + 12].copy_from_slice(b"X-Kept-By-Us");
                    }
                    client.write_all(&answer[..count]).await.unwrap();
                }
                _ => return,
            },
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window.eq_ignore_ascii_case(wanted))
}

/// Rows of a table with the ids `0..count`: every second one in this version, the others in the
/// next.
fn rows(table: PersonTable, count: u128, version: i64) -> Bytes {
    let mut out = Vec::new();
    for id in 0..count {
        let name = format!("{id} 'quoted' \\ \u{1f600}");
        put_i64(&mut out, 1);
        match table {
            PersonTable::Persons => {
                put_uuid(&mut out, Uuid::from_u128(id));
                put_i64(&mut out, 5);
                put_bytes(&mut out, "{\"long\":\"text\"}".repeat(20).as_bytes());
                put_bool(&mut out, true);
                put_bool(&mut out, false);
            }
            PersonTable::DistinctIds => {
                put_bytes(&mut out, name.as_bytes());
                put_uuid(&mut out, Uuid::from_u128(id));
            }
            PersonTable::Groups => {
                put_bytes(&mut out, b"company");
                put_bytes(&mut out, name.as_bytes());
                put_i64(&mut out, 5);
                put_bytes(&mut out, b"{}");
            }
        }
        put_i64(&mut out, version + i64::from(id % 2 == 0));
    }
    Bytes::from(out)
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_with_an_unproven_success_are_looked_up_one_by_one() {
    let database = Database::make("persons_gateway").await;
    let through = ClickHouse::new(&behind_gateway(&database.settings, false).await);
    let past = ClickHouse::new(&behind_gateway(&database.settings, true).await);
    for table in PersonTable::ALL {
        let lost = past.copy_persons(table, rows(table, 3_000, 1)).await;
        let lost = lost.unwrap_err();
        assert_eq!(lost.outcome, InsertOutcome::Unproven, "{table:?}: {lost}");
        assert!(lost.message.contains("are not there"), "{lost}");
        for count in [1, 2, 3_000] {
            let copied = through.copy_persons(table, rows(table, count, 1)).await;
            copied.unwrap_or_else(|error| panic!("{table:?}, {count}: {error}"));
        }
        // Rows that are stored, also in a later version, need not be sent; all others do.
        for (count, version, is_there) in [
            (3_000, 1, true),
            (3_000, 0, true),
            (3_001, 1, false),
            (3, 2, false),
        ] {
            let sent = past.copy_persons(table, rows(table, count, version)).await;
            assert_eq!(sent.is_ok(), is_there, "{table:?}, {count}, {version}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resent_events_are_recorded_or_an_error() {
    let database = Database::make("resent_gateway").await;
    let through = ClickHouse::new(&behind_gateway(&database.settings, false).await);
    let past = ClickHouse::new(&behind_gateway(&database.settings, true).await);
    // More than one insert has.
    let events = (0..1_500).map(|index| RejectedEvent {
        team_id: 1,
        received_at: NOVEMBER,
        request_id: format!("it's {index}"),
        index,
        code: "missing_event".to_owned(),
        attr: String::new(),
        detail: String::new(),
        historical_migration: false,
        resent_at: 0,
    });
    let events: Vec<_> = events.collect();
    let now = Micros(NOVEMBER + 1);
    past.record_resent(&events, now).await.unwrap_err();
    through.record_resent(&events, now).await.unwrap();
    let recorded = "SELECT count() FROM {db}.rejected_events_resent";
    assert_eq!(database.number(recorded).await, 1_500);
    // A record that is there needs no proof; one with another time is another record.
    past.record_resent(&events, now).await.unwrap();
    let later = Micros(NOVEMBER + 2);
    past.record_resent(&events, later).await.unwrap_err();
}
