//! Settings that ClickHouse is sent, with and without a quorum, as a fake server reads them. No
//! test has replicas.

use bytes::Bytes;
use millrace_clickhouse::{
    ClickHouse, EventIdentity, EventVersion, Insert, InsertQuorum, PersonTable, Purpose,
    ReadOptions, RejectedEvent, RejectedFilter, Settings,
};
use millrace_rows::{Micros, Month, ProjectId, RowKey, Table};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use url::Url;
use uuid::Uuid;

/// A statement with its settings.
struct ReceivedStatement {
    sql: String,
    settings: Vec<(String, String)>,
}

impl ReceivedStatement {
    /// Settings whose name has to do with quorums.
    fn quorum(&self) -> Vec<(&str, &str)> {
        let all = self
            .settings
            .iter()
            .map(|(name, value)| (&**name, &**value));
        all.filter(|(name, _)| name.contains("quorum") || name.contains("consistency"))
            .collect()
    }
}

/// Starts a server that answers one request at a time with success; with `names_query` it names the
/// query as ClickHouse does, but for copies of persons, which are looked up then.
fn listen(names_query: bool) -> (SocketAddr, Receiver<ReceivedStatement>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, asked) = sync_channel(64);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let target = line.split(' ').nth(1).unwrap().to_owned();
            let mut length = 0;
            loop {
                line.clear();
                reader.read_line(&mut line).unwrap();
                let Some((name, value)) = line.trim().split_once(": ") else {
                    break;
                };
                if name.eq_ignore_ascii_case("content-length") {
                    length = value.parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let url = Url::parse(&format!("http://h{target}")).unwrap();
            let settings: Vec<(String, String)> = url.query_pairs().into_owned().collect();
            let value = |wanted: &str| {
                let mut found = settings.iter().filter(|(name, _)| name == wanted);
                found.next().map(|(_, value)| value.clone())
            };
            let sql = value("query").unwrap_or_else(|| String::from_utf8(body).unwrap());
            let is_copy =
                sql.starts_with("INSERT INTO") && sql.contains(PersonTable::DistinctIds.name());
            let named = value("query_id").filter(|_| names_query && !is_copy);
            let named =
                named.map_or_else(String::new, |id| format!("X-ClickHouse-Query-Id: {id}\r\n"));
            let _ = sender.send(ReceivedStatement { sql, settings });
            let answer =
                format!("HTTP/1.1 200 OK\r\n{named}Connection: close\r\nContent-Length: 0\r\n\r\n");
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    (address, asked)
}

fn clickhouse(address: SocketAddr, quorum: Option<InsertQuorum>) -> ClickHouse {
    ClickHouse::new(&Settings {
        insert_quorum: quorum,
        ..Settings::new(format!("http://{address}"), "me", "secret")
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_is_set_on_inserts_and_respected_by_reads() {
    let sequential = ("select_sequential_consistency", "1");
    let with = |quorum| {
        let inserts = vec![
            ("insert_quorum", quorum),
            ("insert_quorum_parallel", "0"),
            ("insert_quorum_timeout", "60000"),
        ];
        (inserts, vec![sequential])
    };
    let table = [
        (None, (vec![], vec![])),
        (Some(InsertQuorum::Majority), with("auto")),
        (Some(InsertQuorum::Replicas(2)), with("2")),
    ];
    for (quorum, (of_inserts, of_reads)) in table {
        let (address, asked) = listen(true);
        let clickhouse = clickhouse(address, quorum);
        let insert = Insert {
            insert_target: "events(uuid)",
            token: "token",
            body: &vec![Bytes::from_static(b"rows")],
        };
        clickhouse.insert(&insert).await.unwrap();
        assert_eq!(asked.recv().unwrap().quorum(), of_inserts, "{quorum:?}");

        let mut rows = clickhouse
            .read("SELECT 1 FORMAT CSV", &ReadOptions::new("export"))
            .unwrap();
        // The answer does not matter here.
        let _ = rows.next().await;
        assert_eq!(asked.recv().unwrap().quorum(), of_reads, "{quorum:?}");

        assert_lookups(&clickhouse, &asked, &of_reads).await;
        assert_copies_and_records(&clickhouse, &asked, (&of_inserts, &of_reads)).await;
    }
}

/// Names and values of settings.
type Expected = [(&'static str, &'static str)];

/// Returns the next statement that has a text.
fn find(asked: &Receiver<ReceivedStatement>, text: &str) -> ReceivedStatement {
    asked.iter().find(|asked| asked.sql.contains(text)).unwrap()
}

/// Asserts that lookups of rows see what a quorum has.
async fn assert_lookups(
    clickhouse: &ClickHouse,
    asked: &Receiver<ReceivedStatement>,
    of_reads: &Expected,
) {
    let key = RowKey {
        id: Uuid::from_u128(1),
        received_at: Micros(1),
        index: None,
    };
    let (month, keys) = (Month(202_611), [key]);
    let present = clickhouse.any_present(Table::Events, month, &keys);
    present.await.unwrap_err();
    assert_eq!(find(asked, "toUUID").quorum(), of_reads);
    let counted = clickhouse.count_present(Table::Events, month, &keys);
    counted.await.unwrap_err();
    assert_eq!(find(asked, "uniqExact(uuid").quorum(), of_reads);

    let events = [EventVersion {
        identity: EventIdentity::new(ProjectId(1), key.id, Micros(1), b"seen", b"somebody"),
        created_at: key.received_at,
    }];
    let replaced = clickhouse.are_stored_or_replaced(month, &events);
    replaced.await.unwrap_err();
    assert_eq!(find(asked, "(team_id, uuid) IN").quorum(), of_reads);
}

/// Asserts that copies of persons, and the record of events that were sent again, are written to a
/// quorum, and that reads see them there.
async fn assert_copies_and_records(
    clickhouse: &ClickHouse,
    asked: &Receiver<ReceivedStatement>,
    (of_inserts, of_reads): (&Expected, &Expected),
) {
    let copied = clickhouse.copy_persons(PersonTable::DistinctIds, distinct_id());
    copied.await.unwrap_err();
    assert_eq!(find(asked, "INSERT INTO").quorum(), of_inserts);
    let count = find(asked, "uniqExact(team_id, distinct_id)");
    assert_eq!(count.quorum(), of_reads);

    let resent = [rejected()];
    let recorded = clickhouse.record_resent(&resent, Micros(1));
    recorded.await.unwrap();
    assert_eq!(find(asked, "INSERT INTO").quorum(), of_inserts);
    let filter = RejectedFilter::default();
    let listed = clickhouse.rejected(&filter).await;
    assert!(listed.unwrap().is_empty());
    assert_eq!(find(asked, "rejected_events").quorum(), of_reads);
    let counts = clickhouse.rejected_counts(&filter).await;
    assert!(counts.unwrap().is_empty());
    assert_eq!(find(asked, "count() AS events").quorum(), of_reads);
}

/// RowBinary of a row of the persons of distinct ids.
fn distinct_id() -> Bytes {
    let mut row = 1_i64.to_le_bytes().to_vec();
    row.extend_from_slice(&[1, b'a']);
    row.extend_from_slice(&[0; 16]);
    row.extend_from_slice(&1_u64.to_le_bytes());
    row.into()
}

fn rejected() -> RejectedEvent {
    RejectedEvent {
        team_id: 1,
        received_at: 1,
        request_id: Uuid::nil().to_string(),
        index: 0,
        code: String::new(),
        attr: String::new(),
        detail: String::new(),
        historical_migration: false,
        resent_at: 0,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_that_does_not_name_the_query_does_not_make_clickhouse_usable() {
    for (names_query, is_usable) in [(true, true), (false, false)] {
        let (address, asked) = listen(names_query);
        let clickhouse = clickhouse(address, None);
        let checked = clickhouse.check_usable(Purpose::Events).await;
        assert!(asked.recv().unwrap().sql.starts_with("INSERT INTO"));
        assert_eq!(checked.is_ok(), is_usable, "{checked:?}");
        if let Err(unusable) = checked {
            let words = unusable.to_string();
            assert!(words.contains("is not ClickHouse"), "{words}");
            assert!(words.contains("X-ClickHouse-Query-Id"), "{words}");
        }
    }
}
