//! One empty database for one test.

use super::TestPostgres;
use crate::migrations::migrations_count;
use crate::{Catalog, CatalogError};
use sea_orm::{ConnectionTrait, Database, DbBackend, DbErr, Statement};
use tempfile::TempDir;

/// An empty database and its URL. A SQLite file goes when this is dropped; a PostgreSQL database
/// goes with its cluster.
pub struct TestDatabase {
    url: String,
    directory: Option<TempDir>,
}

impl TestDatabase {
    /// A SQLite file that does not exist yet.
    ///
    /// # Panics
    ///
    /// There is no room for temporary files.
    #[must_use]
    #[allow(clippy::expect_used, reason = "tests end here")]
    pub fn sqlite() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let path = directory.path().join("catalog.db");
        Self {
            url: format!("sqlite://{}?mode=rwc", path.display()),
            directory: Some(directory),
        }
    }

    /// An empty database in the test binary's cluster.
    ///
    /// # Panics
    ///
    /// PostgreSQL does not start.
    #[allow(clippy::expect_used, reason = "tests end here")]
    pub async fn postgres() -> Self {
        let cluster = TestPostgres::start();
        let name = cluster.next_name();
        let create = format!("CREATE DATABASE {name}");
        execute(&cluster.url("postgres"), &create)
            .await
            .expect("a new database");
        Self {
            url: cluster.url(&name),
            directory: None,
        }
    }

    /// What [`Catalog::open`] takes.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it is a SQLite file.
    #[must_use]
    pub fn is_sqlite(&self) -> bool {
        self.directory.is_some()
    }

    /// Runs one statement, on a connection of its own.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn execute(&self, sql: &str) -> Result<(), DbErr> {
        execute(&self.url, sql).await
    }

    /// Another file with what a SQLite file holds now.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn copy(&self) -> Result<Self, DbErr> {
        let copy = Self::sqlite();
        let path = copy.url.trim_start_matches("sqlite://");
        let path = path.trim_end_matches("?mode=rwc");
        self.execute(&format!("VACUUM INTO '{path}'")).await?;
        Ok(copy)
    }

    /// Every row of every table of a SQLite file, in order and as text: the same as before means
    /// that nothing was changed.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn sqlite_contents(&self) -> Result<Vec<String>, DbErr> {
        let db = Database::connect(&self.url).await?;
        let texts = async |sql: String| {
            let statement = Statement::from_string(DbBackend::Sqlite, sql);
            let rows = db.query_all_raw(statement).await?;
            let texts = rows.iter().map(|row| row.try_get_by_index::<String>(0));
            texts.collect::<Result<Vec<_>, _>>()
        };
        let tables = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name";
        let mut contents = Vec::new();
        for table in texts(tables.to_owned()).await? {
            let columns = format!("SELECT name FROM pragma_table_info('{table}')");
            let quoted = texts(columns).await?;
            let quoted = quoted.iter().map(|name| format!("quote(\"{name}\")"));
            let row = quoted.collect::<Vec<_>>().join(" || ' ' || ");
            let rows = format!("SELECT '{table} ' || {row} FROM \"{table}\" ORDER BY 1");
            contents.extend(texts(rows).await?);
        }
        db.close().await?;
        Ok(contents)
    }

    /// How SQLite would answer a query: the lines of its plan.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn sqlite_plan(&self, sql: &str) -> Result<Vec<String>, DbErr> {
        let db = Database::connect(&self.url).await?;
        let explain = format!("EXPLAIN QUERY PLAN {sql}");
        let statement = Statement::from_string(DbBackend::Sqlite, explain);
        let lines = db.query_all_raw(statement).await?;
        db.close().await?;
        let details = lines.iter().map(|line| line.try_get("", "detail"));
        details.collect()
    }

    /// How many migrations there are.
    #[must_use]
    pub fn migrations() -> u32 {
        migrations_count()
    }

    /// A catalog as the first `steps` migrations left it.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn open_old(&self, steps: u32) -> Result<Catalog, CatalogError> {
        Catalog::create_old(&self.url, steps).await
    }
}

async fn execute(url: &str, sql: &str) -> Result<(), DbErr> {
    let db = Database::connect(url).await?;
    db.execute_unprepared(sql).await?;
    db.close().await
}
