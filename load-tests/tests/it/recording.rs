//! Recording of inserts by the proxy.

use crate::server::Server;
use bytes::Bytes;
use millrace_load::baseline::Work;
use millrace_load::clickhouse::ClickHouse;
use millrace_load::proxy::{Insert, Proxy};
use std::net::SocketAddr;

const INSERT: &str = "/?decompress=1&query=INSERT+INTO+%60m%60.%60events%60+%28a%29";

fn proxy(upstream: &str) -> (Proxy, ClickHouse) {
    let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], 0)), upstream).unwrap();
    let clickhouse = ClickHouse {
        url: proxy.url(),
        user: "u".to_owned(),
        password: "p".to_owned(),
        table: ClickHouse::TABLE.to_owned(),
    };
    (proxy, clickhouse)
}

async fn insert(clickhouse: &ClickHouse, path: &str, rows: &'static str) -> anyhow::Result<()> {
    let rows = Bytes::from_static(rows.as_bytes());
    clickhouse.insert(path, rows).await
}

#[tokio::test]
async fn inserts_of_a_table_pass_and_are_kept_up_to_a_size() {
    let upstream = Server::start(Work::Drain);
    let (proxy, clickhouse) = proxy(&upstream.url);
    insert(&clickhouse, INSERT, "too early").await.unwrap();
    proxy.record("`events`", 7);
    for (path, rows) in [
        (INSERT, "one"),
        ("/?query=INSERT+INTO+%60m%60.%60others%60", "other"),
        ("/?query=SELECT+%60events%60", "question"),
        (INSERT, "second"),
        (INSERT, "too many"),
    ] {
        insert(&clickhouse, path, rows).await.unwrap();
    }
    let kept = |rows: &'static str| Insert {
        path_and_query: INSERT.to_owned(),
        rows: Bytes::from_static(rows.as_bytes()),
    };
    assert_eq!(proxy.recorded(), [kept("one"), kept("second")]);
    insert(&clickhouse, INSERT, "too late").await.unwrap();
    assert_eq!(proxy.recorded(), []);
    assert_eq!((upstream.requests(), upstream.body_bytes()), (7, 47));
}

#[tokio::test]
async fn an_insert_that_was_not_stored_is_not_kept() {
    let upstream = Server::start(Work::Drain);
    let (proxy, clickhouse) = proxy(&upstream.url);
    drop(upstream);
    proxy.record("`events`", 7);
    insert(&clickhouse, INSERT, "lost").await.unwrap_err();
    assert_eq!(proxy.recorded(), []);
}
