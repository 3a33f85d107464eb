//! Answers that a gateway repeats: genuine ones of ClickHouse's, to earlier queries.

use crate::fixture::{Database, NOVEMBER, compressed, events, key};
use crate::persons::distinct_id;
use crate::proxy::{answer_of, behind, read_request};
use bytes::Bytes;
use millrace_clickhouse::{
    ClickHouse, EventIdentity, EventVersion, Insert, InsertOutcome, PersonTable, QueryError,
    QueryErrorKind, ReadOptions, Settings,
};
use millrace_rows::{Micros, Month, ProjectId, Table};
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use uuid::Uuid;

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
    let first = Arc::new(Mutex::new(None));
    let serve = move |client, server| repeat(client, server, Arc::clone(&first));
    behind(settings, serve).await
}

async fn repeat(mut client: TcpStream, server: String, first: Arc<Mutex<Option<Vec<u8>>>>) {
    let Some(request) = read_request(&mut client).await else {
        return;
    };
    let mut first = first.lock().await;
    if first.is_none() {
        *first = Some(answer_of(server, &request).await);
    }
    client.write_all(first.as_ref().unwrap()).await.unwrap();
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

#[tokio::test(flavor = "multi_thread")]
async fn a_genuine_success_of_an_earlier_copy_of_persons_proves_nothing() {
    let database = Database::make("stale_copy").await;
    let settings = behind_repeating(&database.settings).await;
    let clickhouse = ClickHouse::new(&settings);
    let rows = |version| Bytes::from(distinct_id("a", Uuid::from_u128(7), version));
    let copied = clickhouse.copy_persons(PersonTable::DistinctIds, rows(1));
    copied.await.unwrap();
    let copied = clickhouse.copy_persons(PersonTable::DistinctIds, rows(2));
    let error = copied.await.unwrap_err();
    assert_eq!(error.outcome, InsertOutcome::Unproven, "{error}");
    assert!(
        error.message.contains("not the one that was asked"),
        "{error}"
    );
    let stored = "SELECT count() FROM {db}.person_distinct_ids WHERE version = 2";
    assert_eq!(database.number(stored).await, 0);
}

/// Query whose answer ends something, or deletes rows.
#[derive(Clone, Copy, Debug)]
enum Decision {
    Number,
    ProjectsWithRows,
    Deletion,
    DropPersonUpdates,
}

impl Decision {
    async fn ask(self, clickhouse: &ClickHouse) -> Result<(), QueryError> {
        match self {
            Self::Number => {
                let options = ReadOptions::new(Uuid::new_v4().to_string());
                let asked = clickhouse.read_number("SELECT 42", &options);
                asked.await.map(drop)
            }
            Self::ProjectsWithRows => clickhouse.projects_with_rows().await.map(drop),
            Self::Deletion => clickhouse.deletion().await.map(drop),
            Self::DropPersonUpdates => {
                let dropped = clickhouse.drop_person_updates(MONTH);
                dropped.await.map(drop)
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_genuine_answer_to_an_earlier_query_ends_and_deletes_nothing() {
    let database = Database::make("stale_decisions").await;
    for decision in [
        Decision::Number,
        Decision::ProjectsWithRows,
        Decision::Deletion,
        Decision::DropPersonUpdates,
    ] {
        let settings = behind_repeating(&database.settings).await;
        let clickhouse = ClickHouse::new(&settings);
        let asked = decision.ask(&clickhouse).await;
        asked.unwrap_or_else(|error| panic!("{decision:?}: {error}"));
        let error = decision.ask(&clickhouse).await.unwrap_err();
        assert_eq!(error.kind, QueryErrorKind::NotClickHouse, "{decision:?}");
        assert!(error.message.contains("another query"), "{error}");
    }
}
