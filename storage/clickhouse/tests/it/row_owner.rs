//! Owner of the rows: the first catalog that used a ClickHouse, and no other one.

use crate::fixture::{Database, NOVEMBER, compressed, events};
use millrace_clickhouse::{
    ClickHouse, Insert, InsertOutcome, Purpose, QueryError, QueryErrorKind, RowOwner, Settings,
};
use millrace_rows::Table;
use uuid::Uuid;

/// Client of a server with this catalog.
fn client_of(database: &Database, catalog: u128) -> ClickHouse {
    ClickHouse::new(&Settings {
        owner: Some(RowOwner {
            catalog_id: Uuid::from_u128(catalog),
            has_events: false,
        }),
        ..database.settings.clone()
    })
}

fn assert_refused(asked: Result<(), QueryError>) {
    let error = asked.unwrap_err();
    assert_eq!(error.kind, QueryErrorKind::OtherCatalog, "{error}");
    for catalog in [1, 2].map(|id| Uuid::from_u128(id).to_string()) {
        assert!(error.to_string().contains(&catalog), "{error}");
    }
}

/// Stores rows, whoever owns them.
async fn store(database: &Database, token: &str) {
    let rows = events(0..10, NOVEMBER);
    database.insert(token, &rows).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_of_the_first_catalog_and_another_one_can_neither_ask_nor_send() {
    let database = Database::make("row_owner").await;
    client_of(&database, 2).ping().await.unwrap();
    // As long as nobody has stored anything, another catalog may come.
    for catalog in [1, 1] {
        client_of(&database, catalog).ping().await.unwrap();
    }
    store(&database, "first").await;
    client_of(&database, 1).ping().await.unwrap();
    let other = client_of(&database, 2);
    assert_refused(other.ping().await);
    let insert = Insert {
        insert_target: Table::Events.insert_target(),
        token: "of another",
        body: &vec![compressed(&events(10..20, NOVEMBER))],
    };
    let error = other.insert(&insert).await.unwrap_err();
    assert_eq!(error.outcome, InsertOutcome::Misconfigured, "{error}");
    assert!(other.migrate().await.is_err());
    let unusable = other.check_usable(Purpose::Events).await.unwrap_err();
    assert_eq!(unusable.kind, QueryErrorKind::OtherCatalog, "{unusable}");
    assert_eq!(database.events().await, 10);
    // Once the rows are gone, it may.
    database.execute("TRUNCATE TABLE row_owner.events").await;
    other.ping().await.unwrap();
    store(&database, "second").await;
    assert_refused(client_of(&database, 1).ping().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clickhouse_without_tables_belongs_to_the_catalog_that_asks() {
    let database = Database::make("row_owner_of_none").await;
    database.execute("DROP DATABASE row_owner_of_none").await;
    let clickhouse = client_of(&database, 1);
    clickhouse.ping().await.unwrap();
    clickhouse.migrate().await.unwrap();
    store(&database, "first").await;
    assert_refused(client_of(&database, 2).ping().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_catalogs_that_come_at_once_to_rows_of_an_earlier_version_one_gets_them() {
    for table_is_there in [true, false] {
        let database = Database::make("row_owner_of_two").await;
        store(&database, "first").await;
        if !table_is_there {
            database
                .execute("DROP TABLE row_owner_of_two.catalog_ids SYNC")
                .await;
        }
        let both = [1, 2].map(|catalog| client_of(&database, catalog));
        let [one, other] = &both;
        let asked = tokio::join!(one.ping(), other.ping());
        let (one, other) = asked;
        assert_eq!(one.is_ok(), other.is_err(), "{one:?} {other:?}");
        assert_refused(one.and(other));
    }
}
