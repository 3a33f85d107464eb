//! Tests of the `clickhouse` crate, with validation, which is its default.

use clickhouse::{Client, Row};
use millrace_embedded::testing::{TestEngine, shared};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Row, Serialize, Deserialize)]
struct Event {
    id: u64,
    name: String,
    #[serde(with = "clickhouse::serde::uuid")]
    uuid: uuid::Uuid,
    tags: Vec<String>,
    score: Option<f64>,
}

fn client(engine: &TestEngine) -> Client {
    Client::default()
        .with_url(&engine.url)
        .with_user(&engine.user)
        .with_password(&engine.password)
}

#[tokio::test]
async fn the_clickhouse_crate_inserts_and_reads_with_validation() {
    let client = client(shared());
    let ddl = "CREATE OR REPLACE TABLE default.rust_client (id UInt64, name LowCardinality(String), uuid UUID, \
               tags Array(String), score Nullable(Float64)) ENGINE = MergeTree ORDER BY id";
    client.query(ddl).execute().await.unwrap();
    let sent: Vec<Event> = (0..10_000)
        .map(|id| Event {
            id,
            name: format!("näme {}", id % 7),
            uuid: uuid::Uuid::from_u128(u128::from(id)),
            tags: (0..id % 3).map(|tag| tag.to_string()).collect(),
            score: (id % 2 == 0).then_some(0.5),
        })
        .collect();
    let mut insert = client.insert::<Event>("rust_client").await.unwrap();
    for event in &sent {
        insert.write(event).await.unwrap();
    }
    insert.end().await.unwrap();
    let read = client
        .query("SELECT ?fields FROM default.rust_client ORDER BY id")
        .fetch_all::<Event>()
        .await
        .unwrap();
    assert_eq!(read, sent);
    let one = client
        .query("SELECT count() FROM default.rust_client WHERE id < {limit:UInt64} AND name = ?")
        .param("limit", 700)
        .bind("näme 3")
        .fetch_one::<u64>()
        .await
        .unwrap();
    assert_eq!(one, 100);
}

#[tokio::test]
async fn the_clickhouse_crate_sees_errors_at_the_start_and_in_the_middle() {
    let client = client(shared());
    let start = client
        .query("SELECT * FROM default.rust_client_nowhere")
        .fetch_all::<u64>()
        .await
        .unwrap_err();
    assert!(start.to_string().contains("UNKNOWN_TABLE"), "{start}");
    let sql = "SELECT number + throwIf(number = 3000000) FROM system.numbers SETTINGS max_block_size = 1000";
    let middle = client.query(sql).fetch_all::<u64>().await.unwrap_err();
    assert!(
        middle
            .to_string()
            .contains("FUNCTION_THROW_IF_VALUE_IS_NON_ZERO"),
        "{middle}"
    );
}
