//! Outcomes of failed inserts: the state of the rows.

use crate::fixture::{Database, NOVEMBER, compressed, events};
use bytes::Bytes;
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
async fn a_wrong_password_counts_as_misconfigured() {
    let database = Database::make("password").await;
    let mut settings = database.settings.clone();
    settings.password = "wrong".to_owned();
    let error = insert_into(&settings).await.unwrap_err();
    assert_eq!(error.outcome, InsertOutcome::Misconfigured, "{error}");
    assert!(!error.schema_is_missing(), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_table_or_database_is_reported_and_mended_by_migrating() {
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

/// A server that reads a request to its end and then sends `answer`, hangs up or hangs.
async fn settings_of_peer(answer: Option<&str>) -> (Settings, tokio::task::JoinHandle<String>) {
    let answer = answer.map(str::to_owned);
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
        match answer.as_deref() {
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
async fn an_insert_that_a_gateway_takes_for_too_large_is_too_large() {
    let page = "HTTP/1.1 413 Request Entity Too Large\r\nContent-Length: 19\r\nConnection: close\r\n\r\n<html>Sorry.</html>";
    let bare = "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    for answer in [page, bare] {
        let (settings, peer) = settings_of_peer(Some(answer)).await;
        let error = insert_into(&settings).await.unwrap_err();
        assert_eq!(error.outcome, InsertOutcome::TooLarge, "{error}");
        assert!(error.is_too_large() && error.may_be_of_the_rows());
        assert_eq!(error.code, None);
        peer.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_code_in_a_gateways_page_is_not_clickhouses() {
    let late = "\r\n__exception__\r\nabcdefghijklmnop\r\nCode: 33. DB::Exception: x\n\
                26 abcdefghijklmnop\r\n__exception__\r\n";
    let stored = "X-ClickHouse-Query-Id: t\r\n";
    let table = [
        (
            "413 Payload Too Large",
            "",
            "<title>Error Code: 413</title>",
            (None, InsertOutcome::TooLarge),
        ),
        (
            "502 Bad Gateway",
            "",
            "<title>Error Code: 33</title>",
            (None, InsertOutcome::Unknown),
        ),
        (
            "200 OK",
            stored,
            "<title>Error Code: 33</title>",
            (None, InsertOutcome::Unknown),
        ),
        (
            "500 Internal Server Error",
            "",
            "Code: 33. DB::Exception: x",
            (Some(33), InsertOutcome::BadData),
        ),
        (
            "500 Internal Server Error",
            "X-ClickHouse-Exception-Code: 33\r\n",
            "",
            (Some(33), InsertOutcome::BadData),
        ),
        ("200 OK", stored, late, (Some(33), InsertOutcome::BadData)),
    ];
    for (status, headers, body, expected) in table {
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        let (settings, peer) = settings_of_peer(Some(&answer)).await;
        let error = insert_into(&settings).await.unwrap_err();
        assert_eq!((error.code, error.outcome), expected, "{status}: {error}");
        peer.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_that_does_not_name_the_insert_is_unproven() {
    let page = "HTTP/1.1 200 OK\r\nContent-Length: 24\r\nConnection: close\r\n\r\n<html>maintenance</html>";
    let bare = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let other = "HTTP/1.1 200 OK\r\nX-ClickHouse-Query-Id: u\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let ours = "HTTP/1.1 200 OK\r\nX-ClickHouse-Query-Id: t\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    for (what, answer, expected) in [
        ("a gateway's page", page, Some(InsertOutcome::Unproven)),
        ("nothing", bare, Some(InsertOutcome::Unproven)),
        ("another query's", other, Some(InsertOutcome::Unproven)),
        ("this insert's", ours, None),
    ] {
        let (settings, peer) = settings_of_peer(Some(answer)).await;
        let outcome = insert_into(&settings).await.map_err(|error| error.outcome);
        assert_eq!(outcome.err(), expected, "{what}");
        peer.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_with_status_200_is_no_answer_to_a_query() {
    let page = "HTTP/1.1 200 OK\r\nContent-Length: 61\r\nConnection: close\r\n\r\n\
                <html><body>We are back soon, sorry for the wait</body></html";
    for is_run in [false, true] {
        let (settings, peer) = settings_of_peer(Some(page)).await;
        let clickhouse = ClickHouse::new(&settings);
        let error = match is_run {
            false => clickhouse.insert_is_running("t").await.map(drop),
            true => clickhouse.server_boot_id("node").await.map(drop),
        };
        error.unwrap_err();
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

/// A server that answers a request once it has read the headers, in two parts, and then may read
/// on.
async fn settings_of_hasty_peer(
    parts: [String; 2],
    reads_on: bool,
) -> (Settings, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let peer = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 64 << 10];
        assert_ne!(stream.read(&mut request).await.unwrap(), 0);
        for part in parts {
            // Time for the client to react wrongly to the first part.
            let _ = stream.write_all(part.as_bytes()).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        while reads_on && stream.read(&mut request).await.unwrap_or(0) > 0 {}
    });
    (Settings::new(url, "u", "p"), peer)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exception_answered_before_a_large_body_is_read_keeps_its_code() {
    let body = vec![Bytes::from(vec![0; 1 << 20]); 64];
    let text = "Code: 516. DB::Exception: u: Authentication failed";
    let head = |status: &str, code: u32, length: usize| {
        format!(
            "HTTP/1.1 {status}\r\nX-ClickHouse-Exception-Code: {code}\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let unauthorized = head("401 Unauthorized", 516, text.len());
    let table = [
        ("whole", unauthorized.clone(), text, true, Some(516)),
        ("not read on", unauthorized.clone(), text, false, Some(516)),
        ("the head only", unauthorized, "", false, Some(516)),
        (
            "of memory",
            head("500 Internal Server Error", 241, 300),
            "Code: 2",
            false,
            Some(241),
        ),
    ];
    for (what, head, rest, reads_on, code) in table {
        let (settings, peer) = settings_of_hasty_peer([head, rest.to_owned()], reads_on).await;
        let insert = Insert {
            insert_target: Table::Events.insert_target(),
            token: "t",
            body: &body,
        };
        let error = ClickHouse::new(&settings).insert(&insert).await;
        let error = error.unwrap_err();
        assert_eq!(error.code, code, "{what}: {error}");
        peer.await.unwrap();
    }
}
