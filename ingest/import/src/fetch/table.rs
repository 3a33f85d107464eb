//! Export of the events table of another instance of this service, or of PostHog: read day by day
//! over ClickHouse's HTTP interface, in pages that begin after the last row of the page before.

use crate::clickhouse::{ClickHouse, QueryError};
use anyhow::{Context, bail};
use async_trait::async_trait;
use millrace_sources::{Export, FetchError, Part, Transfer};
use serde::Deserialize;
use std::io::Write;

/// Rows that a table export reads.
#[derive(Clone, Debug)]
pub struct TableSettings {
    /// Name of the table, such as `millrace.events` or `posthog.events`.
    pub table: String,
    /// Project of the events.
    pub project_id: i64,
    /// First day, `YYYY-MM-DD` in UTC.
    pub from: Option<String>,
    /// Last day, `YYYY-MM-DD` in UTC.
    pub until: Option<String>,
    /// Number of rows in a page.
    pub page_rows: u64,
}

/// Export of an events table.
#[derive(Debug)]
pub struct TableExport {
    clickhouse: ClickHouse,
    settings: TableSettings,
    days: Vec<String>,
    rows: u64,
}

/// Last row of a page, after which the next page begins.
#[derive(Deserialize)]
struct Cursor {
    timestamp: String,
    uuid: String,
}

impl TableExport {
    /// Opens a table and lists its days.
    ///
    /// # Errors
    /// The table cannot be read, or has no events of the project in that time.
    pub async fn open(clickhouse: ClickHouse, settings: TableSettings) -> anyhow::Result<Self> {
        let is_name = settings
            .table
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.'));
        if !is_name {
            bail!("{} is not the name of a table", settings.table);
        }
        let sql = format!(
            "SELECT toString(toDate(timestamp)), count() FROM {} WHERE team_id = {{project:Int64}} \
             AND toDate(timestamp) BETWEEN {{from:Date}} AND {{until:Date}} \
             GROUP BY toDate(timestamp) ORDER BY toDate(timestamp) FORMAT JSONCompactEachRow \
             SETTINGS output_format_json_quote_64bit_integers = 0",
            settings.table
        );
        let day = |day: &Option<String>, default: &str| day.clone().unwrap_or(default.to_owned());
        let params = [
            ("project", settings.project_id.to_string()),
            ("from", day(&settings.from, "1970-01-01")),
            ("until", day(&settings.until, "2149-06-06")),
        ];
        let text = clickhouse.query(&sql, &params).await?.text().await?;
        let (mut days, mut rows) = (Vec::new(), 0);
        for line in text.lines() {
            let (day, count): (String, u64) =
                serde_json::from_str(line).context("ClickHouse answers something else")?;
            days.push(day);
            rows += count;
        }
        if days.is_empty() {
            bail!(
                "{} has no events of project {} in that time",
                settings.table,
                settings.project_id
            );
        }
        Ok(Self {
            clickhouse,
            settings,
            days,
            rows,
        })
    }

    /// Number of rows of all days.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    async fn page(
        &self,
        transfer: &Transfer,
        day: &str,
        cursor: Option<&Cursor>,
    ) -> Result<String, FetchError> {
        let after = match cursor {
            Some(_) => "AND (at, uuid) > ({timestamp:DateTime64(6, 'UTC')}, {uuid:UUID}) ",
            None => "",
        };
        let sql = format!(
            "SELECT team_id, uuid, event, properties, toString(at) AS timestamp, distinct_id FROM \
             (SELECT team_id, uuid, event, properties, toDateTime64(timestamp, 6, 'UTC') AS at, \
             distinct_id FROM {} WHERE team_id = {{project:Int64}} AND toDate(timestamp) = {{day:Date}}) \
             WHERE 1 {after}ORDER BY at, uuid LIMIT 1 BY at, uuid LIMIT {{rows:UInt64}} \
             FORMAT JSONEachRow",
            self.settings.table
        );
        let mut params = vec![
            ("project", self.settings.project_id.to_string()),
            ("day", day.to_owned()),
            ("rows", self.settings.page_rows.to_string()),
        ];
        if let Some(cursor) = cursor {
            params.push(("timestamp", cursor.timestamp.clone()));
            params.push(("uuid", cursor.uuid.clone()));
        }
        let response = transfer.head(self.clickhouse.query(&sql, &params)).await?;
        let mut response = response.map_err(|error| match error {
            QueryError::Refused(_) => FetchError::Permanent {
                message: error.to_string(),
            },
            QueryError::Unreachable { .. } | QueryError::Busy(_) => {
                FetchError::retryable(error.to_string())
            }
        })?;
        let mut page = Vec::new();
        let broke_off = |error: reqwest::Error| {
            FetchError::retryable(format!("the page broke off: {}", error.without_url()))
        };
        while let Some(piece) = transfer.piece(response.chunk()).await?.map_err(broke_off)? {
            page.extend_from_slice(&piece);
        }
        String::from_utf8(page).map_err(|_| FetchError::Permanent {
            message: "ClickHouse answers something else than text".to_owned(),
        })
    }
}

#[async_trait]
impl Export for TableExport {
    fn source(&self) -> String {
        // Folders that were fetched by earlier versions have this text, so it keeps `team`.
        format!(
            "{} at {}, team {}",
            self.settings.table,
            self.clickhouse.url(),
            self.settings.project_id
        )
    }

    fn parts(&self) -> Vec<Part> {
        let part = |day: &String| Part {
            name: format!("clickhouse-{day}.ndjson.zst"),
            from: day.clone(),
            until: day.clone(),
            bytes: None,
            version: None,
        };
        self.days.iter().map(part).collect()
    }

    /// One page at a time: each sorts a day, which costs the other server much.
    fn parallel(&self) -> usize {
        1
    }

    async fn fetch(
        &self,
        transfer: &Transfer,
        part: &Part,
        _begun_bytes: u64,
        into: &mut (dyn Write + Send),
    ) -> Result<(), FetchError> {
        let mut encoder = zstd::Encoder::new(into, 3)?;
        let mut cursor: Option<Cursor> = None;
        loop {
            let page = self.page(transfer, &part.from, cursor.as_ref()).await?;
            encoder.write_all(page.as_bytes())?;
            let rows = page.lines().count() as u64;
            if rows < self.settings.page_rows {
                break;
            }
            let last = page.lines().next_back().unwrap_or_default();
            let last = serde_json::from_str(last).map_err(|error| FetchError::Permanent {
                message: format!("ClickHouse answers something else than rows: {error}"),
            })?;
            cursor = Some(last);
        }
        encoder.finish()?;
        Ok(())
    }
}
