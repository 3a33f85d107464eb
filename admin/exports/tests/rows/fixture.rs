//! Databases with events, and readers of them.

use millrace_catalog::{ExportModel, ProjectId, UtcTime};
use millrace_clickhouse::{ClickHouse, QueryError, ReadOptions, Settings};
use millrace_embedded::testing::{TestEngine, shared};
use millrace_exports::query::ExportQuery;
use millrace_exports::rows::{EventFilter, RowForm, Statement, WindowPart, WindowQuery, options};
use millrace_exports::window::{RunScope, Window, WindowBy};
use millrace_rows::{EventRow, Micros, Table};
use uuid::Uuid;

/// Project whose rows are read.
pub const PROJECT: ProjectId = ProjectId(1);
/// Start of the window of an hour: 2026-11-20T00:00:00Z.
pub const START: i64 = 1_795_132_800_000_000;
pub const HOUR: i64 = 3_600_000_000;

/// Event to store.
#[derive(Clone, Debug)]
pub struct Event {
    pub uuid: Uuid,
    pub event: String,
    pub distinct_id: String,
    pub properties: String,
    pub timestamp: i64,
    pub created_at: i64,
    pub project_id: ProjectId,
    pub historical_migration: bool,
}

impl Event {
    /// The nth event in the window.
    pub fn nth(n: u32) -> Self {
        let browser = ["Firefox", "Safari", "Chrome"][n as usize % 3];
        Self {
            uuid: Uuid::from_u128(0xa0 << 120 | u128::from(n)),
            event: ["seen", "$pageview", "bought"][n as usize % 3].to_owned(),
            distinct_id: format!("person {}", n % 5),
            properties: format!(
                r#"{{"$browser": "{browser}", "price": {}.5, "tags": ["a", "b{n}"], "$ip": "10.0.0.{n}"}}"#,
                n % 7
            ),
            timestamp: START - HOUR + i64::from(n) * 1_000_001,
            created_at: START + i64::from(n) * 1_000,
            project_id: PROJECT,
            historical_migration: n.is_multiple_of(2),
        }
    }
}

pub struct Database {
    pub name: String,
    pub clickhouse: ClickHouse,
    engine: &'static TestEngine,
}

impl Database {
    pub async fn make(name: &str) -> Self {
        let engine = shared();
        let mut settings = Settings::new(&engine.url, &engine.user, &engine.password);
        settings.database = name.to_owned();
        let database = Self {
            name: name.to_owned(),
            clickhouse: ClickHouse::new(&settings),
            engine,
        };
        database.run(&format!("DROP DATABASE IF EXISTS {name}"));
        database.clickhouse.migrate().await.unwrap();
        database
    }

    pub fn store(&self, events: &[Event]) {
        let mut rows = Vec::new();
        for event in events {
            let row = EventRow {
                uuid: event.uuid,
                event: event.event.as_bytes(),
                properties: &[event.properties.as_bytes()],
                timestamp: Micros(event.timestamp),
                team_id: event.project_id,
                distinct_id: event.distinct_id.as_bytes(),
                created_at: Micros(event.created_at),
                historical_migration: event.historical_migration,
            };
            row.append_to(&mut rows);
        }
        let target = Table::Events.insert_target();
        let sql = format!("INSERT INTO {}.{target} FORMAT RowBinary", self.name);
        self.send(&[("query", &sql)], &rows).unwrap();
    }

    /// Runs a statement as it is, without the code under test.
    pub fn run(&self, sql: &str) -> String {
        self.send(&[], sql.as_bytes())
            .unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs a statement within the database, with settings.
    pub fn ask(&self, sql: &str, settings: &[(&str, &str)]) -> Result<String, String> {
        let database = [("database", self.name.as_str())];
        self.send(&[&database[..], settings].concat(), sql.as_bytes())
    }

    fn send(&self, parameters: &[(&str, &str)], body: &[u8]) -> Result<String, String> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .into();
        let mut request = agent
            .post(&self.engine.url)
            .header("X-ClickHouse-User", &self.engine.user)
            .header("X-ClickHouse-Key", &self.engine.password);
        for (name, value) in parameters {
            request = request.query(name, value);
        }
        let mut answer = request.send(body).unwrap();
        let is_good = answer.status().is_success();
        let text = answer
            .body_mut()
            .with_config()
            .limit(1 << 30)
            .read_to_string()
            .unwrap();
        if is_good { Ok(text) } else { Err(text) }
    }

    /// Reads a part of the window of [`PROJECT`].
    pub async fn read(&self, query: Option<&ExportQuery>, form: RowForm) -> Vec<u8> {
        let statement = window_query(&self.clickhouse, &scope(), &EventFilter::default(), query)
            .statement(form, WindowPart::WHOLE)
            .unwrap();
        let read = self.bytes(&statement).await;
        read.unwrap_or_else(|error| panic!("{}: {error}", statement.sql))
    }

    pub async fn bytes(&self, statement: &Statement) -> Result<Vec<u8>, QueryError> {
        self.bytes_with(&statement.sql, &new_options(statement))
            .await
    }

    pub async fn bytes_with(
        &self,
        sql: &str,
        options: &ReadOptions,
    ) -> Result<Vec<u8>, QueryError> {
        let mut stream = self.clickhouse.read(sql, options)?;
        let mut bytes = Vec::new();
        while let Some(piece) = stream.next().await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    pub async fn number(&self, statement: &Statement) -> u64 {
        let options = new_options(statement);
        let number = self.clickhouse.read_number(&statement.sql, &options).await;
        number.unwrap_or_else(|error| panic!("{}: {error}", statement.sql))
    }
}

pub fn new_options(statement: &Statement) -> ReadOptions {
    options(statement, Uuid::new_v4().to_string())
}

/// Scope of the hour from [`START`], by arrival.
pub fn scope() -> RunScope {
    RunScope {
        run_id: Uuid::nil(),
        export_id: Uuid::nil(),
        project_id: PROJECT,
        model: ExportModel::Events,
        window: Window {
            start: Some(UtcTime(START)),
            end: UtcTime(START + HOUR),
            by: WindowBy::Arrival,
        },
    }
}

pub fn window_query<'a>(
    clickhouse: &'a ClickHouse,
    scope: &'a RunScope,
    filter: &'a EventFilter,
    query: Option<&'a ExportQuery>,
) -> WindowQuery<'a> {
    WindowQuery {
        clickhouse,
        scope,
        filter,
        query,
    }
}

/// Lines of an answer, sorted, as exports have no order.
pub fn sorted_lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}
