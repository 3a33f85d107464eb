//! What is said of the rows when an insert fails.

use crate::fixture::{Database, NOVEMBER, compressed, events};
use millrace_clickhouse::{ClickHouse, Insert, InsertError, InsertOutcome, Settings};
use millrace_rows::Table;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

async fn insert_into(settings: &Settings) -> Result<(), InsertError> {
    let insert = Insert {
        insert_target: Table::Events.insert_target(),
        token: "t",
        body: &vec![compressed(&events(0..10, NOVEMBER))],
    };
    ClickHouse::new(settings).insert(&insert).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_a_matter_for_somebody() {
    let database = Database::make("password").await;
    let mut settings = database.settings.clone();
    settings.password = "wrong".to_owned();
    let error = insert_into(&settings).await.unwrap_err();
    assert_eq!(error.outcome, InsertOutcome::Misconfigured, "{error}");
    assert!(!error.schema_is_missing(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_table_or_database_is_said_and_mended_by_migrating() {
    let database = Database::make("missing").await;
    for statement in [
        "DROP TABLE missing.events SYNC",
        "DROP DATABASE missing SYNC",
    ] {
        database.execute(statement).await;
        let error = insert_into(&database.settings).await.unwrap_err();
        assert!(error.schema_is_missing(), "{statement}: {error}");
        assert_eq!(error.outcome, InsertOutcome::Misconfigured);
        database.clickhouse.migrate().await.unwrap();
        insert_into(&database.settings).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_stored_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let settings = Settings::new(format!("http://{address}"), "u", "p");
    let error = insert_into(&settings).await.unwrap_err();
    assert_eq!(error.outcome, InsertOutcome::NotStored, "{error}");
}

/// A server that reads a request to its end and then does what `answer` says.
async fn settings_of_peer(
    answer: Option<&'static str>,
) -> (Settings, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings = Settings::new(
        format!("http://{}", listener.local_addr().unwrap()),
        "u",
        "p",
    );
    settings.insert_timeout = Duration::from_millis(300);
    let peer = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        let head = loop {
            stream.read_buf(&mut request).await.unwrap();
            let text = String::from_utf8_lossy(&request).into_owned();
            if let Some((head, _)) = text.split_once("\r\n\r\n") {
                break head.to_owned();
            }
        };
        match answer {
            Some("") => {}
            Some(answer) => stream.write_all(answer.as_bytes()).await.unwrap(),
            None => while stream.read_buf(&mut request).await.unwrap_or(0) > 0 {},
        }
        head
    });
    (settings, peer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_late_or_foreign_answer_leaves_the_rows_unknown() {
    let answers = [
        ("closed without an answer", Some("")),
        ("no answer in time", None),
        (
            "a proxy's page",
            Some("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbad"),
        ),
        (
            "half an answer",
            Some("HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\nCo"),
        ),
        (
            "success with an exception",
            Some(
                "HTTP/1.1 200 OK\r\nX-ClickHouse-Exception-Code: 241\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            ),
        ),
    ];
    for (what, answer) in answers {
        let (settings, peer) = settings_of_peer(answer).await;
        let error = insert_into(&settings).await.unwrap_err();
        assert_eq!(error.outcome, InsertOutcome::Unknown, "{what}: {error}");
        peer.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_declares_its_length_and_its_settings() {
    let (settings, peer) = settings_of_peer(Some("")).await;
    insert_into(&settings).await.unwrap_err();
    let head = peer.await.unwrap().to_lowercase();
    let length = compressed(&events(0..10, NOVEMBER)).len();
    let expected = [
        format!("content-length: {length}"),
        "async_insert=0".to_owned(),
        "insert_deduplication_token=t".to_owned(),
        "max_partitions_per_insert_block=1".to_owned(),
        "decompress=1".to_owned(),
    ];
    for part in expected {
        assert!(head.contains(&part), "{part} in {head}");
    }
    assert!(!head.contains("chunked"), "{head}");
}
