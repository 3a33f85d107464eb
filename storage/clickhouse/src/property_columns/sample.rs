//! Properties that may be worth a column: how often queries ask for them, and what they hold.

use super::definition::TIME;
use crate::settings::quoted_text;
use crate::{ClickHouse, QueryError};
use millrace_rows::{ProjectId, Table};
use serde::Deserialize;

/// Functions of JSON on `properties` in a statement, with the first key that they ask for.
const USES: &str = r"JSON\w*\(\s*(?:\w+\.)?properties\s*,\s*'((?:[^'\\]|\\.)*)'";
/// Codes of ClickHouse where there is no log of statements, or it may not be read: UNKNOWN_TABLE,
/// ACCESS_DENIED.
const NO_LOG: [u32; 2] = [60, 497];
/// Most properties that are looked at.
const PROPERTIES_MAX: u32 = 200;

/// Property in a sample of events.
#[derive(clickhouse::Row, Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct SampledProperty {
    /// Key in `properties`.
    pub key: String,
    /// Events with the property.
    pub events: u64,
    /// Events where it is a text.
    pub texts: u64,
    /// Events where it is a text with a time.
    pub times: u64,
    /// Events where it is a number.
    pub numbers: u64,
    /// Events where it is a number without fraction and exponent.
    pub wholes: u64,
    /// Events where it is true or false.
    pub flags: u64,
    /// Number of different values, about.
    pub variants: u64,
    /// Longest value, in bytes of JSON.
    pub bytes: u64,
}

/// Property that statements ask for.
#[derive(clickhouse::Row, Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct QueriedProperty {
    /// Key in `properties`.
    pub key: String,
    /// Statements that ask for it.
    pub statements: u64,
    /// Milliseconds that they took together.
    pub millis: u64,
}

impl ClickHouse {
    /// Looks at the properties of up to so many events of the last days, of one project or of all;
    /// the most frequent first.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn sample_properties(
        &self,
        project_id: Option<ProjectId>,
        days: u32,
        events_max: u32,
    ) -> Result<Vec<SampledProperty>, QueryError> {
        let owner = project_id.map(|id| format!("team_id = {id} AND "));
        let sql = format!(
            "SELECT key, count() AS events, countIf(is_text) AS texts, \
             countIf(is_text AND match(substring(value, 2, length(value) - 2), {time})) AS times, \
             countIf(match(value, '^-?[0-9]')) AS numbers, \
             countIf(match(value, '^-?[0-9]+$')) AS wholes, \
             countIf(value IN ('true', 'false')) AS flags, \
             uniq(value) AS variants, max(length(value)) AS bytes FROM (\
             SELECT arrayJoin(JSONExtractKeysAndValuesRaw(properties)) AS pair, \
             pair.1 AS key, pair.2 AS value, startsWith(value, '\"') AS is_text FROM (\
             SELECT properties FROM {source} WHERE {owner}timestamp > now() - INTERVAL {days} DAY \
             LIMIT {events_max})) GROUP BY key ORDER BY events DESC, key LIMIT {PROPERTIES_MAX}",
            time = quoted_text(TIME),
            source = self.source(Table::Events),
            owner = owner.unwrap_or_default(),
        );
        let sampled = self.proving().query_raw(&sql).fetch_all();
        self.within_deadline(sampled).await
    }

    /// Counts the statements of the last days that ask for properties, those that took longest
    /// first; `None` if there is no log of statements.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub async fn queried_properties(
        &self,
        days: u32,
    ) -> Result<Option<Vec<QueriedProperty>>, QueryError> {
        let sql = format!(
            "SELECT key, count() AS statements, sum(query_duration_ms) AS millis FROM (\
             SELECT arrayJoin(arrayDistinct(extractAll(query, {uses}))) AS key, query_duration_ms \
             FROM {log} WHERE type = 'QueryFinish' AND event_date >= today() - {days} \
             AND query_kind = 'Select') \
             GROUP BY key ORDER BY millis DESC, key LIMIT {PROPERTIES_MAX}",
            uses = quoted_text(USES),
            log = self.on_every_host("query_log"),
        );
        let queried = self.proving().query_raw(&sql).fetch_all();
        match self.within_deadline(queried).await {
            Err(error) if error.code.is_some_and(|code| NO_LOG.contains(&code)) => Ok(None),
            queried => queried.map(Some),
        }
    }
}
