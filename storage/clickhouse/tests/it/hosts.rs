//! Hosts of a cluster, as fake servers: which one serves when another fails, and which one never.

use crate::proxy::read_request;
use bytes::Bytes;
use millrace_clickhouse::InsertOutcome::{Misconfigured, NotStored, Unknown};
use millrace_clickhouse::{ClickHouse, Insert, InsertError, InsertOutcome, Settings};
use millrace_rows::rowbinary::put_bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

const OURS: Option<&str> = Some("ours");
const ANOTHER: Option<&str> = Some("another");
const AWAY: Option<&str> = None;

/// Host by its answers.
#[derive(Clone, Copy, Debug)]
struct Host {
    /// Definitions of the cluster, of which the last is answered again and again.
    definitions: &'static [Option<&'static str>],
    /// True if it reaches each shard.
    stores: bool,
}

/// Numbers of statements that a host was sent.
#[derive(Default)]
struct Asked {
    definitions: AtomicUsize,
    inserts: AtomicUsize,
}

/// Starts a host; returns its URL.
async fn start(host: Host, asked: &Arc<Asked>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::clone(asked);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client, host, Arc::clone(&asked)));
        }
    });
    url
}

async fn serve(mut client: TcpStream, host: Host, asked: Arc<Asked>) {
    let Some(request) = read_request(&mut client).await else {
        return;
    };
    let text = String::from_utf8_lossy(&request);
    let answer = if text.contains("system.clusters") {
        let nth = asked.definitions.fetch_add(1, Ordering::Relaxed);
        let last = host.definitions.len() - 1;
        match host.definitions[nth.min(last)] {
            Some(definition) => answer("200 OK", &defined(&text, definition)),
            None => answer("503 Service Unavailable", b""),
        }
    } else {
        asked.inserts.fetch_add(1, Ordering::Relaxed);
        match host.stores {
            true => answer("200 OK\r\nX-ClickHouse-Query-Id: token", b""),
            false => answer(
                "500 Internal Server Error\r\nX-ClickHouse-Exception-Code: 279",
                b"Code: 279. DB::Exception: All connection tries failed",
            ),
        }
    };
    client.write_all(&answer).await.unwrap();
}

/// Answer with a status, and headers behind it.
fn answer(status: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}");
    [head.as_bytes(), b"\r\n\r\n", body].concat()
}

/// Row of a definition of two shards, with the nonce of its query, behind names and types.
fn defined(request: &str, definition: &str) -> Vec<u8> {
    let (_, nonce) = request.split_once("SELECT '").unwrap();
    let nonce = nonce.split('\'').next().unwrap();
    let mut row = vec![4];
    let columns = ["nonce", "text", "hosts", "shards"];
    let types = ["String", "String", "UInt64", "UInt64"];
    for text in columns.iter().chain(&types).chain(&[nonce, definition]) {
        put_bytes(&mut row, text.as_bytes());
    }
    row.extend([2_u64.to_le_bytes(); 2].concat());
    row
}

async fn insert(clickhouse: &ClickHouse) -> Result<(), InsertError> {
    let insert = Insert {
        insert_target: "events(uuid)",
        token: "token",
        body: &vec![Bytes::from_static(b"rows")],
    };
    clickhouse.insert(&insert).await
}

/// Definitions and reach of the second host, results of two inserts that the first one cannot
/// store, and their numbers at both.
type Case = (
    &'static [Option<&'static str>],
    [Option<InsertOutcome>; 2],
    [usize; 2],
);

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_cannot_reach_a_shard_is_left_for_one_that_defines_the_cluster_as_it_does() {
    let cut_off = Host {
        definitions: &[OURS],
        stores: false,
    };
    let table: [Case; 5] = [
        (&[OURS], [Some(Unknown), None], [1, 1]),
        // It was away when hosts were compared.
        (&[AWAY, OURS], [Some(Unknown), None], [1, 1]),
        (&[AWAY, ANOTHER], [Some(Unknown); 2], [2, 0]),
        (&[AWAY], [Some(Unknown); 2], [2, 0]),
        // Nothing is sent to hosts that differ.
        (&[ANOTHER], [Some(Misconfigured); 2], [0, 0]),
    ];
    for (definitions, outcomes, expected) in table {
        let other = Host {
            definitions,
            stores: true,
        };
        let asked = <[Arc<Asked>; 2]>::default();
        let settings = Settings {
            other_urls: vec![start(other, &asked[1]).await],
            cluster: Some("main".to_owned()),
            ..Settings::new(start(cut_off, &asked[0]).await, "u", "p")
        };
        let clickhouse = ClickHouse::new(&settings);
        for outcome in outcomes {
            let inserted = insert(&clickhouse).await.map_err(|error| error.outcome);
            assert_eq!(inserted.err(), outcome, "{definitions:?}");
        }
        let inserts = asked.map(|it| it.inserts.load(Ordering::Relaxed));
        assert_eq!(inserts, expected, "{definitions:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_while_no_host_answers_for_the_cluster() {
    let away = Host {
        definitions: &[AWAY, AWAY, OURS],
        stores: true,
    };
    let asked = Arc::default();
    let settings = Settings {
        cluster: Some("main".to_owned()),
        ..Settings::new(start(away, &asked).await, "u", "p")
    };
    let clickhouse = ClickHouse::new(&settings);
    for expected in [Some(NotStored), Some(NotStored), None] {
        let inserted = insert(&clickhouse).await;
        assert_eq!(inserted.err().map(|error| error.outcome), expected);
    }
    assert_eq!(asked.inserts.load(Ordering::Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_host_that_was_away_when_hosts_were_compared_is_sent_nothing() {
    let first = Host {
        definitions: &[AWAY, ANOTHER],
        stores: true,
    };
    let other = Host {
        definitions: &[OURS],
        stores: true,
    };
    let asked = <[Arc<Asked>; 2]>::default();
    let settings = Settings {
        other_urls: vec![start(other, &asked[1]).await],
        cluster: Some("main".to_owned()),
        ..Settings::new(start(first, &asked[0]).await, "u", "p")
    };
    let clickhouse = ClickHouse::new(&settings);
    for expected in [Some(NotStored), None, None] {
        let inserted = insert(&clickhouse).await;
        assert_eq!(inserted.err().map(|error| error.outcome), expected);
    }
    let inserts = asked.map(|it| it.inserts.load(Ordering::Relaxed));
    assert_eq!(inserts, [0, 2]);
}
