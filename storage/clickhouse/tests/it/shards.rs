//! Three engines as shards of a cluster: rows that are spread, shards that are killed, persons on
//! each shard.

use crate::fixture::{NOVEMBER, compressed};
use crate::native::native;
use bytes::Bytes;
use clickhouse::{Client, Compression};
use millrace_clickhouse::{
    ClickHouse, Insert, InsertError, PersonTable, PlacedKey, PresenceCount, Purpose, Replication,
    Settings,
};
use millrace_embedded::CLUSTER;
use millrace_embedded::testing::TestEngine;
use millrace_rows::{EventRow, Micros, Month, ProjectId, RowKey, Table};
use uuid::Uuid;

const MONTH: Month = Month(202_611);
const ROWS: u64 = 300;

struct Shards {
    engines: Vec<TestEngine>,
    settings: Settings,
    clickhouse: ClickHouse,
}

/// Settings of a client of these engines.
pub fn settings_of(engines: &[TestEngine]) -> Settings {
    let urls = engines.iter().map(|engine| engine.url.clone());
    let first = &engines[0];
    Settings {
        other_urls: urls.skip(1).collect(),
        cluster: Some(CLUSTER.to_owned()),
        replication: Replication::None,
        ..Settings::new(&*first.url, &*first.user, &*first.password)
    }
}

impl Shards {
    async fn start() -> Self {
        let engines = TestEngine::start_shards(3);
        let settings = settings_of(&engines);
        let clickhouse = ClickHouse::new(&settings);
        clickhouse.migrate().await.unwrap();
        Self {
            engines,
            settings,
            clickhouse,
        }
    }

    /// Number that each shard answers.
    async fn numbers(&self, sql: &str) -> Vec<u64> {
        let mut numbers = Vec::new();
        for engine in &self.engines {
            numbers.push(client(engine).query_raw(sql).fetch_one().await.unwrap());
        }
        numbers
    }

    async fn execute(&self, shard: usize, sql: &str) {
        let client = client(&self.engines[shard]);
        client.query_raw(sql).execute().await.unwrap();
    }

    async fn execute_on_each(&self, sql: &str) {
        for shard in 0..self.engines.len() {
            self.execute(shard, sql).await;
        }
    }

    async fn insert(&self, token: &str) -> Result<(), InsertError> {
        insert(&self.clickhouse, token).await
    }

    async fn present(&self) -> PresenceCount {
        let keys = keys();
        let counted = self.clickhouse.count_present(Table::Events, MONTH, &keys);
        counted.await.unwrap()
    }
}

async fn insert(clickhouse: &ClickHouse, token: &str) -> Result<(), InsertError> {
    let insert = Insert {
        insert_target: Table::Events.insert_target(),
        token,
        body: &vec![compressed(&rows())],
    };
    clickhouse.insert(&insert).await
}

pub fn client(engine: &TestEngine) -> Client {
    Client::default()
        .with_url(&engine.url)
        .with_user(&engine.user)
        .with_password(&engine.password)
        .with_compression(Compression::None)
}

fn received_at(id: u64) -> Micros {
    Micros(NOVEMBER + id as i64)
}

/// Events of as many persons.
fn rows() -> Vec<u8> {
    let mut out = Vec::new();
    for id in 1..=ROWS {
        let distinct_id = format!("person {id}");
        let row = EventRow {
            uuid: Uuid::from_u128(u128::from(id)),
            event: b"seen",
            properties: &[b"{}"],
            timestamp: Micros(NOVEMBER),
            team_id: ProjectId(1),
            distinct_id: distinct_id.as_bytes(),
            created_at: received_at(id),
            historical_migration: false,
        };
        row.append_to(&mut out);
    }
    out
}

fn keys() -> Vec<RowKey> {
    let key = |id| RowKey {
        id: Uuid::from_u128(u128::from(id)),
        received_at: received_at(id),
        index: None,
    };
    (1..=ROWS).map(key).collect()
}

const LOCAL: &str = "SELECT count() FROM millrace.events_local";

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_spread_over_shards_and_stored_once_under_a_token() {
    let shards = Shards::start().await;
    shards.clickhouse.migrate().await.unwrap();
    assert_eq!(shards.present().await, PresenceCount::default());
    for _ in 0..2 {
        shards.insert("token").await.unwrap();
    }
    let local = shards.numbers(LOCAL).await;
    assert_eq!(local.iter().sum::<u64>(), ROWS, "{local:?}");
    assert!(local.iter().all(|rows| *rows > ROWS / 6), "{local:?}");
    let all = PresenceCount {
        keys: ROWS,
        rows: ROWS,
    };
    assert_eq!(shards.present().await, all);
    let clickhouse = &shards.clickhouse;
    let present = clickhouse.present_keys(Table::Events, MONTH, &keys()).await;
    let mut present: Vec<RowKey> = present.unwrap().iter().map(|row| row.key).collect();
    present.sort_unstable_by_key(|key| key.id);
    assert_eq!(present, keys());
    assert!(!clickhouse.insert_is_running("token").await.unwrap());
    let whole = shards.numbers("SELECT count() FROM millrace.events").await;
    assert_eq!(whole, [ROWS; 3], "each host reads all shards");
    // A block is spread like its rows, and is stored by each shard once under their token.
    let body = &native(&rows(), true);
    for (token, stored) in [("token", ROWS), ("native-shards", 2 * ROWS)] {
        let insert = Insert {
            insert_target: Table::Events.insert_target(),
            token,
            body,
        };
        clickhouse.insert(&insert).await.unwrap();
        let twice = shards.numbers(LOCAL).await;
        assert_eq!(twice.iter().sum::<u64>(), stored, "{token}: {twice:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_one_uuid_are_listed_by_their_distinct_ids() {
    let shards = Shards::start().await;
    let persons = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut bytes = Vec::new();
    for person in persons {
        let row = EventRow {
            uuid: Uuid::from_u128(1),
            event: b"seen",
            properties: &[b"{}"],
            timestamp: Micros(NOVEMBER),
            team_id: ProjectId(1),
            distinct_id: person.as_bytes(),
            created_at: received_at(1),
            historical_migration: false,
        };
        row.append_to(&mut bytes);
    }
    let insert = Insert {
        insert_target: Table::Events.insert_target(),
        token: "twins",
        body: &vec![compressed(&bytes)],
    };
    shards.clickhouse.insert(&insert).await.unwrap();
    let keys = &keys()[..1];
    let listed = shards.clickhouse.present_keys(Table::Events, MONTH, keys);
    let mut places: Vec<Option<u64>> = listed.await.unwrap().iter().map(|row| row.place).collect();
    places.sort_unstable();
    let of_person = |person: &str| Some(PlacedKey::place_of(person.as_bytes()));
    let mut expected = persons.map(of_person);
    expected.sort_unstable();
    assert_eq!(places, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_shard_gets_its_rows_by_the_same_token_and_the_others_no_row_twice() {
    let mut shards = Shards::start().await;
    let boot_id = shards.clickhouse.server_boot_id("test").await.unwrap();
    let again = shards.clickhouse.server_boot_id("test").await.unwrap();
    assert_eq!(again, boot_id);
    let usable = shards.clickhouse.check_usable(Purpose::Events).await;
    usable.unwrap();
    shards.engines[1].kill9();
    let unusable = shards.clickhouse.check_usable(Purpose::Events).await;
    unusable.unwrap_err();
    shards.insert("token").await.unwrap_err();
    let keys = keys();
    let counted = shards.clickhouse.count_present(Table::Events, MONTH, &keys);
    counted.await.unwrap_err();
    shards
        .clickhouse
        .insert_is_running("token")
        .await
        .unwrap_err();
    shards.engines[1].restart();
    let restarted = shards.clickhouse.server_boot_id("test").await.unwrap();
    assert_ne!(restarted, boot_id);
    shards.insert("token").await.unwrap();
    let local = shards.numbers(LOCAL).await;
    assert_eq!(local.iter().sum::<u64>(), ROWS, "{local:?}");
    assert_eq!(shards.present().await.rows, ROWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_host_serves_when_one_is_gone() {
    let mut shards = Shards::start().await;
    shards.clickhouse.ping().await.unwrap();
    shards.engines[0].kill9();
    shards.clickhouse.ping().await.unwrap_err();
    shards.clickhouse.ping().await.unwrap();
    shards.engines[0].restart();
    shards.insert("token").await.unwrap();
    assert_eq!(shards.present().await.rows, ROWS);
}

/// RowBinary of the person of a distinct id.
fn distinct_id(id: &[u8], version: u64) -> Bytes {
    let mut row = 1_i64.to_le_bytes().to_vec();
    row.push(id.len() as u8);
    row.extend_from_slice(id);
    row.extend_from_slice(&[7; 16]);
    row.extend_from_slice(&version.to_le_bytes());
    row.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn persons_are_on_each_shard_and_are_copied_to_one_that_lacks_them() {
    const COUNT: &str = "SELECT count() FROM millrace.person_distinct_ids";
    let shards = Shards::start().await;
    let clickhouse = &shards.clickhouse;
    for id in [b"person 1", b"person 2"] {
        let row = distinct_id(id, 1);
        let copied = clickhouse.copy_persons(PersonTable::DistinctIds, row).await;
        copied.unwrap();
    }
    assert_eq!(shards.numbers(COUNT).await, [2; 3]);
    assert_eq!(clickhouse.fill_shards().await.unwrap(), 0);
    shards
        .execute(2, "TRUNCATE TABLE millrace.person_distinct_ids")
        .await;
    assert_eq!(clickhouse.fill_shards().await.unwrap(), 1);
    assert_eq!(shards.numbers(COUNT).await, [2; 3]);

    shards.insert("token").await.unwrap();
    let known = "SELECT count() FROM millrace.events_with_persons \
                 WHERE person_id = toUUID('07070707-0707-0707-0707-070707070707')";
    assert_eq!(shards.numbers(known).await, [2; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_that_lack_different_persons_or_have_older_versions_get_them() {
    const VERSIONS: &str = "SELECT count() * 10 + min(version) \
                            FROM (SELECT * FROM millrace.person_distinct_ids FINAL)";
    let shards = Shards::start().await;
    let clickhouse = &shards.clickhouse;
    for id in [b"person 1", b"person 2", b"person 3"] {
        let row = distinct_id(id, 2);
        let copied = clickhouse.copy_persons(PersonTable::DistinctIds, row).await;
        copied.unwrap();
    }
    assert_eq!(shards.numbers(VERSIONS).await, [32; 3]);
    assert_eq!(clickhouse.fill_shards().await.unwrap(), 0);
    for shard in 0..3 {
        let delete = format!(
            "ALTER TABLE millrace.person_distinct_ids DELETE WHERE distinct_id = 'person {}' \
             SETTINGS mutations_sync = 1",
            shard + 1
        );
        shards.execute(shard, &delete).await;
    }
    assert_eq!(shards.numbers(VERSIONS).await, [22; 3]);
    assert!(clickhouse.fill_shards().await.unwrap() > 0);
    assert_eq!(shards.numbers(VERSIONS).await, [32; 3]);

    let old = "INSERT INTO millrace.person_distinct_ids \
               SELECT team_id, distinct_id, person_id, toUInt64(1) \
               FROM millrace.person_distinct_ids_all WHERE _shard_num = 1";
    let table = "TRUNCATE TABLE millrace.person_distinct_ids";
    shards.execute(2, table).await;
    shards.execute(2, old).await;
    assert_eq!(shards.numbers(VERSIONS).await[2] % 10, 1);
    assert!(clickhouse.fill_shards().await.unwrap() > 0);
    assert_eq!(shards.numbers(VERSIONS).await, [32; 3]);
    assert_eq!(clickhouse.fill_shards().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_one_replica_lacks_are_found_on_the_others() {
    let mut shards = Shards::start().await;
    shards.insert("token").await.unwrap();
    // Replicas that are behind, as far as an engine without Keeper can have them: the table of all
    // shards is of tables without rows.
    let behind = "CREATE TABLE millrace.behind AS millrace.events_local";
    shards.execute_on_each(behind).await;
    shards.execute(0, "DROP TABLE millrace.events SYNC").await;
    let events = "CREATE TABLE millrace.events AS millrace.behind \
                  ENGINE = Distributed('millrace', 'millrace', 'behind', sipHash64(distinct_id))";
    shards.execute(0, events).await;
    for (replication, rows) in [(Replication::Keeper, ROWS), (Replication::None, 0)] {
        let clickhouse = ClickHouse::new(&Settings {
            replication,
            ..shards.settings.clone()
        });
        let listed = clickhouse.present_keys(Table::Events, MONTH, &keys()).await;
        assert_eq!(listed.unwrap().len() as u64, rows, "{replication}");
        let counted = clickhouse
            .count_present(Table::Events, MONTH, &keys())
            .await;
        let expected = PresenceCount { keys: rows, rows };
        assert_eq!(counted.unwrap(), expected, "{replication}");
    }
    // A replica may be away, and a shard may not.
    shards.engines[2].kill9();
    let clickhouse = ClickHouse::new(&Settings {
        replication: Replication::Keeper,
        ..shards.settings.clone()
    });
    let listed = clickhouse.present_keys(Table::Events, MONTH, &keys()).await;
    listed.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_deletes_from_each_shard() {
    let shards = Shards::start().await;
    shards.insert("token").await.unwrap();
    let clickhouse = &shards.clickhouse;
    let found = clickhouse.projects_with_rows().await.unwrap();
    assert_eq!((found[0].team_id, found[0].rows), (1, ROWS));
    clickhouse.delete_projects(&[ProjectId(1)]).await.unwrap();
    while clickhouse.deletion().await.unwrap().unfinished > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(shards.numbers(LOCAL).await, [0; 3]);
    let left = clickhouse.projects_with_rows().await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_each_shard_is_needed_to_make_the_tables() {
    let engines = TestEngine::start_shards(2);
    let settings = settings_of(&engines[..1]);
    let error = ClickHouse::new(&settings).migrate().await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("1 addresses and the cluster 2"), "{text}");
    let settings = Settings {
        cluster: Some("nowhere".to_owned()),
        ..settings
    };
    let error = ClickHouse::new(&settings).migrate().await.unwrap_err();
    assert!(error.to_string().contains("remote_servers"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_to_engines_that_know_their_shards_in_different_orders() {
    let engines = TestEngine::start_shards_in_orders(&[&[0, 1], &[1, 0]]);
    let clickhouse = ClickHouse::new(&settings_of(&engines));
    let refused = [
        clickhouse.migrate().await.unwrap_err().to_string(),
        insert(&clickhouse, "token").await.unwrap_err().to_string(),
        clickhouse.ping().await.unwrap_err().to_string(),
    ];
    for text in refused {
        assert!(text.contains("another definition of the cluster"), "{text}");
    }
    let usable = clickhouse.check_usable(Purpose::Events).await;
    let advice = usable.unwrap_err().to_string();
    assert!(advice.contains("correct remote_servers"), "{advice}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_a_cluster_makes_no_tables_among_those_of_shards() {
    let shards = Shards::start().await;
    let alone = Settings {
        other_urls: Vec::new(),
        cluster: None,
        ..shards.settings.clone()
    };
    let error = ClickHouse::new(&alone).migrate().await.unwrap_err();
    assert!(error.to_string().contains("clickhouse_cluster"), "{error}");
    // Its inserts wait for the shards all the same.
    insert(&ClickHouse::new(&alone), "token").await.unwrap();
    assert_eq!(shards.present().await.rows, ROWS);
}
