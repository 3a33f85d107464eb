//! Copies of the catalog's persons and groups, and the views that join them with events.
//!
//! The catalog decides; here are copies, and a row that is written again is the same row. Of
//! several versions of a row the highest wins. An event has only its distinct id: its person is
//! looked up at query time, so that merging persons rewrites no event. The id of a person without
//! any update is computed, as `millrace_rows::person_id` does.

use crate::dialect::Dialect;
use crate::person_presence;
use crate::person_table::PersonTable;
use crate::{ClickHouse, InsertError, InsertOutcome, QueryError};
use bytes::Bytes;
use millrace_rows::PERSON_NAMESPACE;
use uuid::Uuid;

impl ClickHouse {
    /// Returns the table expression of such a table for a FROM. On a cluster every host has all of
    /// it.
    #[must_use]
    pub fn person_source(&self, table: PersonTable) -> String {
        self.source_named(table.name())
    }

    /// Asks for the highest version of the rows in one of the tables; 0 without rows.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn latest_person_version(&self, table: PersonTable) -> Result<u64, QueryError> {
        let source = self.person_source(table);
        self.fetch_u64(&format!("SELECT assumeNotNull(max(version)) FROM {source}"))
            .await
    }

    /// Stores rows, as RowBinary, in one of the tables, on each shard. They may be stored already.
    /// Success names this very insert: a gateway may repeat ClickHouse's answer to another one.
    ///
    /// # Errors
    /// If the server cannot be asked or refuses, or success is answered without proof and the rows
    /// are not stored; then they are to be sent again.
    pub async fn copy_persons(&self, table: PersonTable, rows: Bytes) -> Result<(), InsertError> {
        if !self.is_sharded() {
            return self.copy_persons_to(table, rows, None).await;
        }
        let shards = self.shard_count().await.map_err(|error| InsertError {
            outcome: InsertOutcome::NotStored,
            code: error.code,
            message: error.to_string(),
        })?;
        // Every shard has all, so that a shard joins its events by itself. One that fails has the
        // rows sent again to all.
        for shard in 1..=shards {
            self.copy_persons_to(table, rows.clone(), Some(shard))
                .await?;
        }
        Ok(())
    }

    async fn copy_persons_to(
        &self,
        table: PersonTable,
        rows: Bytes,
        shard: Option<u32>,
    ) -> Result<(), InsertError> {
        let into = match shard {
            None => self.person_source(table),
            Some(_) => self.everywhere(table),
        };
        let sql = format!("INSERT INTO {into} ({}) FORMAT RowBinary", table.columns());
        let query_id = Uuid::new_v4().to_string();
        let mut settings = self.shared_settings();
        settings.extend(shard.map(|shard| ("insert_shard_id", shard.to_string())));
        let mut parameters = vec![
            ("query", sql.as_str()),
            ("query_id", query_id.as_str()),
            ("async_insert", "0"),
            ("insert_deduplicate", "0"),
        ];
        parameters.extend(settings.iter().map(|(name, value)| (*name, value.as_str())));
        let body = vec![rows.clone()];
        let answered = self.post(&parameters, &body).await?;
        let Err(words) = answered.check_query_id(&query_id) else {
            return Ok(());
        };
        // A gateway may strip ClickHouse's headers, on every try.
        let missing = match person_presence::keys(table, &rows) {
            Some(keys) => match self.are_copied(table, &keys, shard).await {
                Ok(true) => return Ok(()),
                Ok(false) => "the rows are not there".to_owned(),
                Err(error) => format!("it cannot be asked for the rows: {error}"),
            },
            None => "the rows cannot be read".to_owned(),
        };
        Err(InsertError::unproven(format!("{words}, and {missing}")))
    }
}

/// Statements that create the tables and the views.
pub(crate) fn statements(dialect: &Dialect) -> Vec<String> {
    let tables = PersonTable::ALL.into_iter();
    let tables = tables.map(|table| dialect.everywhere(table.name(), of_table(dialect, table)));
    let mut statements: Vec<String> = tables.flatten().collect();
    statements.push(persons_current(dialect));
    statements.push(events_with_persons(dialect));
    statements
}

fn of_table(dialect: &Dialect, table: PersonTable) -> String {
    let (columns, order) = match table {
        PersonTable::Persons => (
            "team_id Int64, \
             id UUID, \
             created_at DateTime64(6, 'UTC'), \
             properties String CODEC(ZSTD(1)), \
             is_identified Bool, \
             is_deleted Bool, \
             version UInt64",
            "team_id, id",
        ),
        PersonTable::DistinctIds => (
            "team_id Int64, \
             distinct_id String CODEC(ZSTD(1)), \
             person_id UUID, \
             version UInt64",
            "team_id, distinct_id",
        ),
        PersonTable::Groups => (
            "team_id Int64, \
             group_type LowCardinality(String), \
             group_key String CODEC(ZSTD(1)), \
             created_at DateTime64(6, 'UTC'), \
             properties String CODEC(ZSTD(1)), \
             version UInt64",
            "team_id, group_type, group_key",
        ),
    };
    format!(
        "CREATE TABLE IF NOT EXISTS {head} ({columns}) ENGINE = {engine} ORDER BY ({order}){settings}",
        head = dialect.head(table.name()),
        engine = dialect.merge_tree("Replacing", table.name(), Some("version")),
        settings = dialect.durability(),
    )
}

/// View of the persons as they are now.
fn persons_current(dialect: &Dialect) -> String {
    format!(
        "{create} AS SELECT team_id, id, created_at, properties, is_identified, version \
         FROM {persons} FINAL WHERE NOT is_deleted",
        create = dialect.create_view("persons_current"),
        persons = dialect.source("persons"),
    )
}

/// View of events with their persons as they are now. Known ids are in `person_distinct_ids`; for
/// others the person's id is computed, and the person has no properties.
fn events_with_persons(dialect: &Dialect) -> String {
    format!(
        "{create} AS SELECT e.uuid AS uuid, e.event AS event, e.properties AS properties, \
         e.timestamp AS timestamp, e.team_id AS team_id, e.distinct_id AS distinct_id, \
         e.created_at AS created_at, e.historical_migration AS historical_migration, \
         if(k.version > 0, k.person_id, {computed}) AS person_id, \
         if(k.version > 0, k.person_properties, '{{}}') AS person_properties, \
         k.is_identified AS is_identified, \
         JSONExtractRaw(e.properties, '$groups') AS groups \
         FROM {events} AS e LEFT ANY JOIN (\
         SELECT d.team_id AS team_id, d.distinct_id AS distinct_id, d.person_id AS person_id, \
         d.version AS version, p.properties AS person_properties, p.is_identified AS is_identified \
         FROM (SELECT * FROM {ids} FINAL) AS d LEFT ANY JOIN (SELECT * FROM {persons} FINAL) AS p \
         ON d.team_id = p.team_id AND d.person_id = p.id\
         ) AS k ON e.team_id = k.team_id AND e.distinct_id = k.distinct_id",
        create = dialect.create_view("events_with_persons"),
        computed = computed_id("e.team_id", "e.distinct_id"),
        events = dialect.source("events"),
        ids = dialect.source("person_distinct_ids"),
        persons = dialect.source("persons"),
    )
}

/// `millrace_rows::person_id` in SQL: the first 16 bytes of a SHA-1, with version and variant.
fn computed_id(project_id: &str, distinct_id: &str) -> String {
    let namespace = PERSON_NAMESPACE.simple();
    let digest = format!(
        "hex(SHA1(concat(unhex('{namespace}'), toString({project_id}), ':', {distinct_id}))) AS digest"
    );
    format!(
        "toUUID(concat(substring({digest}, 1, 8), '-', substring(digest, 9, 4), '-5', \
         substring(digest, 14, 3), '-', \
         substring('89AB', (position('0123456789ABCDEF', substring(digest, 17, 1)) - 1) % 4 + 1, 1), \
         substring(digest, 18, 3), '-', substring(digest, 21, 12)))"
    )
}
