//! Answers that a gateway repeats: genuine ones of ClickHouse's, to earlier queries.

use crate::fixture::{Database, NOVEMBER, compressed, events, key};
use millrace_clickhouse::{
    ClickHouse, EventIdentity, EventVersion, Insert, InsertOutcome, QueryError, QueryErrorKind,
    Settings,
};
use millrace_rows::{Micros, Month, ProjectId, Table};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

const MONTH: Month = Month(202_611);
/// Name under which boot ids are asked for.
const NODE: &str = "node";

/// Query that decides about rows.
#[derive(Clone, Copy, Debug)]
pub enum Question {
    AnyPresent,
    CountPresent,
    AreStoredOrReplaced,
    InsertIsRunning,
    BootId,
}

impl Question {
    pub const ALL: [Self; 5] = [
        Self::AnyPresent,
        Self::CountPresent,
        Self::AreStoredOrReplaced,
        Self::InsertIsRunning,
        Self::BootId,
    ];

    /// Asks about the event 1.
    pub async fn ask(self, clickhouse: &ClickHouse) -> Result<(), QueryError> {
        let keys = [key(1)];
        match self {
            Self::AnyPresent => {
                let asked = clickhouse.any_present(Table::Events, MONTH, &keys);
                asked.await.map(drop)
            }
            Self::CountPresent => {
                let asked = clickhouse.count_present(Table::Events, MONTH, &keys);
                asked.await.map(drop)
            }
            Self::AreStoredOrReplaced => {
                let (at, [key]) = (Micros(NOVEMBER), keys);
                let events = [EventVersion {
                    identity: EventIdentity::new(ProjectId(1), key.id, at, b"seen", b"somebody"),
                    created_at: key.received_at,
                }];
                let asked = clickhouse.are_stored_or_replaced(MONTH, &events);
                asked.await.map(drop)
            }
            Self::InsertIsRunning => clickhouse.insert_is_running("t").await.map(drop),
            Self::BootId => clickhouse.server_boot_id(NODE).await.map(drop),
        }
    }
}

/// Settings of a gateway before another server, which answers the first request and repeats that
/// answer for all others.
async fn behind_repeating(settings: &Settings) -> Settings {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = settings.url.strip_prefix("http://").unwrap();
    let server = server.trim_end_matches('/').to_owned();
    let mut settings = settings.clone();
    settings.url = format!("http://{}", listener.local_addr().unwrap());
    let first = Arc::new(Mutex::new(None));
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(repeat(client, server.clone(), Arc::clone(&first)));
        }
    });
    settings
}

async fn repeat(mut client: TcpStream, server: String, first: Arc<Mutex<Option<Vec<u8>>>>) {
    let Some(request) = read_request(&mut client).await else {
        return;
    };
    let mut first = first.lock().await;
    if first.is_none() {
        let mut server = TcpStream::connect(server).await.unwrap();
        server.write_all(&request).await.unwrap();
        let mut answer = Vec::new();
        server.read_to_end(&mut answer).await.unwrap();
        *first = Some(answer);
    }
    client.write_all(first.as_ref().unwrap()).await.unwrap();
}

/// Reads a request to its end, and adds that the connection is closed after it.
pub async fn read_request(client: &mut TcpStream) -> Option<Vec<u8>> {
    let mut request = Vec::new();
    loop {
        if let Some(at) = request.windows(4).position(|it| it == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&request[..at]).to_lowercase();
            let mut lines = head.lines();
            let length = lines.find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            if request.len() >= at + 4 + length {
                drop(request.splice(at..at, *b"\r\nConnection: close"));
                return Some(request);
            }
        }
        if client.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_genuine_answer_to_an_earlier_query_is_not_believed() {
    let database = Database::make("stale_answers").await;
    let known = database.clickhouse.server_boot_id(NODE).await.unwrap();
    for (question, nth) in Question::ALL.into_iter().zip(0..) {
        let settings = behind_repeating(&database.settings).await;
        let clickhouse = ClickHouse::new(&settings);
        let asked = question.ask(&clickhouse).await;
        asked.unwrap_or_else(|error| panic!("{question:?}: {error}"));
        // What was asked about has changed since.
        let (token, rows) = (format!("t{nth}"), events(0..10, NOVEMBER));
        database.insert(&token, &rows).await.unwrap();
        let error = question.ask(&clickhouse).await.unwrap_err();
        assert_eq!(error.kind, QueryErrorKind::NotClickHouse, "{question:?}");
        assert!(error.message.contains("another query"), "{error}");
    }
    let boot_id = database.clickhouse.server_boot_id(NODE).await.unwrap();
    assert_eq!(boot_id, known);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_genuine_success_of_an_earlier_insert_proves_nothing() {
    let database = Database::make("stale_success").await;
    let settings = behind_repeating(&database.settings).await;
    let clickhouse = ClickHouse::new(&settings);
    let body = vec![compressed(&events(0..10, NOVEMBER))];
    for (token, expected) in [("first", None), ("second", Some(InsertOutcome::Unproven))] {
        let insert = Insert {
            insert_target: Table::Events.insert_target(),
            token,
            body: &body,
        };
        let outcome = clickhouse.insert(&insert).await.map_err(|it| it.outcome);
        assert_eq!(outcome.err(), expected, "{token}");
    }
    assert_eq!(database.events().await, 10);
}
