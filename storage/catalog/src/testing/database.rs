//! Databases, one for each test: empty ones, and copies of one with the schema.

use super::connect::{connected, execute};
use super::postgres::TestPostgres;
use crate::connect::begin_write;
use crate::migrations::step_names;
use crate::{Catalog, CatalogError};
use sea_orm::prelude::Uuid;
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// PostgreSQL database with the schema, which the others are copied from.
static POSTGRES_TEMPLATE: OnceCell<TestDatabase> = OnceCell::const_new();
/// Bytes of a SQLite file with the schema: a file would outlive the process.
static SQLITE_TEMPLATE: OnceCell<Vec<u8>> = OnceCell::const_new();

/// Catalog of commit 4bbccd5 without organizations.
const SQLITE_4BBCCD5: &str = include_str!("../../tests/fixtures/schema_4bbccd5.sqlite.sql");
const POSTGRES_4BBCCD5: &str = include_str!("../../tests/fixtures/schema_4bbccd5.postgres.sql");

/// Query for a `SELECT` of each table, whose rows are texts that begin with the table's name.
const SQLITE_SELECTS: &str = r#"SELECT 'SELECT ''' || tables.name || ' '' || '
    || group_concat('quote("' || columns.name || '")', ' || '' '' || ' ORDER BY columns.cid)
    || ' FROM "' || tables.name || '"'
    FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns
    WHERE tables.type = 'table' GROUP BY tables.name"#;
const POSTGRES_SELECTS: &str = "SELECT format('SELECT %L || %I::text FROM %I', \
    tablename || ' ', tablename, tablename) FROM pg_tables WHERE schemaname = 'public'";

/// Kind of database that keeps the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseKind {
    /// SQLite, in a file.
    Sqlite,
    /// PostgreSQL, in the test binary's cluster.
    Postgres,
}

/// Database and its URL. It is removed when this and all its handles are dropped.
pub struct TestDatabase {
    url: String,
    location: Location,
}

#[derive(Clone)]
enum Location {
    File { _directory: Arc<TempDir> },
    Cluster(Arc<ClusterDatabase>),
}

struct ClusterDatabase {
    name: String,
}

impl Drop for ClusterDatabase {
    fn drop(&mut self) {
        TestPostgres::start().remove_later(&self.name);
    }
}

impl TestDatabase {
    /// Creates a database with the schema and no rows: a copy, as to migrate one takes long.
    ///
    /// # Panics
    ///
    /// See [`TestDatabase::sqlite`] and [`TestDatabase::postgres`].
    #[allow(clippy::expect_used, reason = "tests end here")]
    pub async fn of(kind: DatabaseKind) -> Self {
        match kind {
            DatabaseKind::Sqlite => {
                let copy = Self::sqlite();
                Self::write_sqlite(copy.sqlite_path()).await;
                copy
            }
            DatabaseKind::Postgres => {
                let template = POSTGRES_TEMPLATE.get_or_init(postgres_with_schema).await;
                template.copy().await.expect("a copy")
            }
        }
    }

    /// Writes a SQLite file with the schema and no rows.
    ///
    /// # Panics
    ///
    /// The file cannot be written.
    #[allow(clippy::expect_used, reason = "tests end here")]
    pub async fn write_sqlite(path: impl AsRef<Path>) {
        let template = SQLITE_TEMPLATE.get_or_init(sqlite_with_schema).await;
        std::fs::write(path, template).expect("a copy");
    }

    /// Names a SQLite file that does not exist yet.
    ///
    /// # Panics
    ///
    /// There is no space for temporary files.
    #[must_use]
    #[allow(clippy::expect_used, reason = "tests end here")]
    pub fn sqlite() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let path = directory.path().join("catalog.db");
        Self {
            url: format!("sqlite://{}?mode=rwc", path.display()),
            location: Location::File {
                _directory: Arc::new(directory),
            },
        }
    }

    /// Creates an empty database in the test binary's cluster.
    ///
    /// # Panics
    ///
    /// PostgreSQL does not start.
    #[allow(clippy::expect_used, reason = "tests end here")]
    pub async fn postgres() -> Self {
        let made = Self::in_cluster("template1").await;
        made.expect("a new database")
    }

    /// Copies another database of the cluster that nobody is connected to.
    async fn in_cluster(template: &str) -> Result<Self, DbErr> {
        let cluster = TestPostgres::start();
        let name = cluster.next_name();
        let create = format!("CREATE DATABASE {name} TEMPLATE {template}");
        execute(&cluster.url("postgres"), &create).await?;
        Ok(Self {
            url: cluster.url(&name),
            location: Location::Cluster(Arc::new(ClusterDatabase { name })),
        })
    }

    /// URL for [`Catalog::open`].
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Creates another handle of this database, which is removed with the last handle.
    #[must_use]
    pub fn again(&self) -> Self {
        Self {
            url: self.url.clone(),
            location: self.location.clone(),
        }
    }

    /// Kind of the database.
    #[must_use]
    pub fn kind(&self) -> DatabaseKind {
        match self.location {
            Location::File { .. } => DatabaseKind::Sqlite,
            Location::Cluster(_) => DatabaseKind::Postgres,
        }
    }

    /// Returns true for a SQLite file.
    #[must_use]
    pub fn is_sqlite(&self) -> bool {
        self.kind() == DatabaseKind::Sqlite
    }

    /// Literal of a UUID in SQL.
    #[must_use]
    pub fn uuid_literal(&self, id: Uuid) -> String {
        match self.kind() {
            DatabaseKind::Sqlite => format!("x'{}'", id.simple()),
            DatabaseKind::Postgres => format!("'{id}'"),
        }
    }

    /// Runs one statement, on a connection of its own.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn execute(&self, sql: &str) -> Result<(), DbErr> {
        execute(&self.url, sql).await
    }

    /// Copies the database with its present rows. Nobody may be connected to PostgreSQL's.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn copy(&self) -> Result<Self, DbErr> {
        if let Location::Cluster(database) = &self.location {
            return Self::in_cluster(&database.name).await;
        }
        let copy = Self::sqlite();
        let path = copy.sqlite_path();
        self.execute(&format!("VACUUM INTO '{path}'")).await?;
        Ok(copy)
    }

    /// Path of a SQLite file.
    fn sqlite_path(&self) -> &str {
        let path = self.url.trim_start_matches("sqlite://");
        path.trim_end_matches("?mode=rwc")
    }

    /// Reads every row of every table, in order and as text: equal contents mean that nothing was
    /// changed.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn contents(&self) -> Result<Vec<String>, DbErr> {
        let db = connected(&self.url).await?;
        let selects = match self.kind() {
            DatabaseKind::Sqlite => SQLITE_SELECTS,
            DatabaseKind::Postgres => POSTGRES_SELECTS,
        };
        let selects = texts(&db, selects).await?;
        // One statement, as tests of all operations read everything hundreds of times.
        let mut contents = match selects.is_empty() {
            true => Vec::new(),
            false => texts(&db, &selects.join(" UNION ALL ")).await?,
        };
        contents.sort();
        db.close().await?;
        Ok(contents)
    }

    /// First column of a query's rows, which must be text.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn first_column(&self, sql: &str) -> Result<Vec<String>, DbErr> {
        let db = connected(&self.url).await?;
        let found = texts(&db, sql).await?;
        db.close().await?;
        Ok(found)
    }

    /// Keeps everybody else from writing to a SQLite file until the answer is dropped.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn lock_sqlite(&self) -> Result<impl Sized + use<>, DbErr> {
        begin_write(&connected(&self.url).await?).await
    }

    /// Lines of SQLite's plan for a query.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn sqlite_plan(&self, sql: &str) -> Result<Vec<String>, DbErr> {
        let db = connected(&self.url).await?;
        let explain = format!("EXPLAIN QUERY PLAN {sql}");
        let statement = Statement::from_string(DbBackend::Sqlite, explain);
        let lines = db.query_all_raw(statement).await?;
        db.close().await?;
        let details = lines.iter().map(|line| line.try_get("", "detail"));
        details.collect()
    }

    /// Lists the migrations that commit 4bbccd5 did not have yet.
    #[must_use]
    pub fn steps_since_4bbccd5() -> Vec<String> {
        step_names()
    }

    /// Opens a catalog as commit 4bbccd5 made it, in a database that is empty.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn open_4bbccd5(&self) -> Result<Catalog, CatalogError> {
        self.open_before("m0027_identified_ids").await
    }

    /// Opens a catalog of commit 4bbccd5 with the migrations that follow it, up to the one before
    /// `step`, in a database that is empty.
    ///
    /// # Errors
    ///
    /// Any database error, or there is no such migration.
    pub async fn open_before(&self, step: &str) -> Result<Catalog, CatalogError> {
        let old = match self.kind() {
            DatabaseKind::Sqlite => SQLITE_4BBCCD5,
            DatabaseKind::Postgres => POSTGRES_4BBCCD5,
        };
        Catalog::create_before(&self.url, old, step).await
    }
}

/// Writes the schema into a database.
#[allow(clippy::expect_used, reason = "tests end here")]
async fn write_schema(database: &TestDatabase) {
    let catalog = Catalog::open(database.url()).await.expect("the schema");
    catalog.close().await.expect("an end");
}

#[allow(clippy::expect_used, reason = "tests end here")]
async fn sqlite_with_schema() -> Vec<u8> {
    let database = TestDatabase::sqlite();
    write_schema(&database).await;
    // A copy has all of it in one file.
    let copy = database.copy().await.expect("a copy");
    std::fs::read(copy.sqlite_path()).expect("a file")
}

async fn postgres_with_schema() -> TestDatabase {
    let database = TestDatabase::postgres().await;
    write_schema(&database).await;
    database
}

/// First column of a query's rows.
async fn texts(db: &DatabaseConnection, sql: &str) -> Result<Vec<String>, DbErr> {
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let rows = db.query_all_raw(statement).await?;
    rows.iter().map(|row| row.try_get_by_index(0)).collect()
}
