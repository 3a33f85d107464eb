//! One empty database for one test.

use super::TestPostgres;
use crate::connect::begin_write;
use crate::migrations::migrations_count;
use crate::{Catalog, CatalogError};
use sea_orm::{ConnectionTrait, Database, DatabaseConnection, DbBackend, DbErr, Statement};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// The PostgreSQL database with the schema, which the others are copied from.
static TEMPLATE: OnceCell<TestDatabase> = OnceCell::const_new();

/// What keeps the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseKind {
    /// A file.
    Sqlite,
    /// A database in the test binary's cluster.
    Postgres,
}

/// A database and its URL. It goes when this and all its handles are dropped.
pub struct TestDatabase {
    url: String,
    place: Place,
}

#[derive(Clone)]
enum Place {
    File { _directory: Arc<TempDir> },
    Cluster(Arc<ClusterDatabase>),
}

struct ClusterDatabase {
    name: String,
}

impl Drop for ClusterDatabase {
    fn drop(&mut self) {
        TestPostgres::start().forget(&self.name);
    }
}

impl TestDatabase {
    /// A database to open a catalog in. Where making the schema takes long, it is there already.
    ///
    /// # Panics
    ///
    /// As [`TestDatabase::sqlite`] and [`TestDatabase::postgres`].
    #[allow(clippy::expect_used, reason = "tests end here")]
    pub async fn of(kind: DatabaseKind) -> Self {
        if kind == DatabaseKind::Sqlite {
            return Self::sqlite();
        }
        let make = || async {
            let template = Self::postgres().await;
            let catalog = Catalog::open(template.url()).await.expect("the schema");
            catalog.close().await.expect("an end");
            template
        };
        let template = TEMPLATE.get_or_init(make).await;
        template.copy().await.expect("a copy")
    }

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
            place: Place::File {
                _directory: Arc::new(directory),
            },
        }
    }

    /// An empty database in the test binary's cluster.
    ///
    /// # Panics
    ///
    /// PostgreSQL does not start.
    #[allow(clippy::expect_used, reason = "tests end here")]
    pub async fn postgres() -> Self {
        let made = Self::in_cluster("template1").await;
        made.expect("a new database")
    }

    /// A database with what another one in the cluster has, that nobody is connected to.
    async fn in_cluster(template: &str) -> Result<Self, DbErr> {
        let cluster = TestPostgres::start();
        let name = cluster.next_name();
        let create = format!("CREATE DATABASE {name} TEMPLATE {template}");
        execute(&cluster.url("postgres"), &create).await?;
        Ok(Self {
            url: cluster.url(&name),
            place: Place::Cluster(Arc::new(ClusterDatabase { name })),
        })
    }

    /// What [`Catalog::open`] takes.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Another handle of this database, which goes with the last one.
    #[must_use]
    pub fn again(&self) -> Self {
        Self {
            url: self.url.clone(),
            place: self.place.clone(),
        }
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> DatabaseKind {
        match self.place {
            Place::File { .. } => DatabaseKind::Sqlite,
            Place::Cluster(_) => DatabaseKind::Postgres,
        }
    }

    /// Whether it is a SQLite file.
    #[must_use]
    pub fn is_sqlite(&self) -> bool {
        self.kind() == DatabaseKind::Sqlite
    }

    /// Runs one statement, on a connection of its own.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn execute(&self, sql: &str) -> Result<(), DbErr> {
        execute(&self.url, sql).await
    }

    /// Another database with what this one holds now. Nobody may be connected to PostgreSQL's.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn copy(&self) -> Result<Self, DbErr> {
        if let Place::Cluster(database) = &self.place {
            return Self::in_cluster(&database.name).await;
        }
        let copy = Self::sqlite();
        let path = copy.url.trim_start_matches("sqlite://");
        let path = path.trim_end_matches("?mode=rwc");
        self.execute(&format!("VACUUM INTO '{path}'")).await?;
        Ok(copy)
    }

    /// Every row of every table, in order and as text: the same as before means that nothing was
    /// changed.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn contents(&self) -> Result<Vec<String>, DbErr> {
        let db = Database::connect(&self.url).await?;
        let tables = match self.kind() {
            DatabaseKind::Sqlite => "SELECT name FROM sqlite_master WHERE type = 'table'",
            DatabaseKind::Postgres => {
                "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'"
            }
        };
        let mut contents = Vec::new();
        for table in texts(&db, &format!("{tables} ORDER BY 1")).await? {
            let row = match self.kind() {
                DatabaseKind::Sqlite => {
                    let columns = format!("SELECT name FROM pragma_table_info('{table}')");
                    let columns = texts(&db, &columns).await?;
                    let quoted = columns.iter().map(|name| format!("quote(\"{name}\")"));
                    quoted.collect::<Vec<_>>().join(" || ' ' || ")
                }
                DatabaseKind::Postgres => format!("\"{table}\"::text"),
            };
            let rows = format!("SELECT '{table} ' || {row} FROM \"{table}\" ORDER BY 1");
            contents.extend(texts(&db, &rows).await?);
        }
        db.close().await?;
        Ok(contents)
    }

    /// The first column of what a query finds, which must be text.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn first_column(&self, sql: &str) -> Result<Vec<String>, DbErr> {
        let db = Database::connect(&self.url).await?;
        let found = texts(&db, sql).await?;
        db.close().await?;
        Ok(found)
    }

    /// Keeps everybody else from writing to a SQLite file until the answer is dropped.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn lock_sqlite(&self) -> Result<impl Sized + use<>, DbErr> {
        begin_write(&Database::connect(&self.url).await?).await
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

pub(super) async fn execute(url: &str, sql: &str) -> Result<(), DbErr> {
    let db = Database::connect(url).await?;
    db.execute_unprepared(sql).await?;
    db.close().await
}

/// The first column of what a query finds.
async fn texts(db: &DatabaseConnection, sql: &str) -> Result<Vec<String>, DbErr> {
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let rows = db.query_all_raw(statement).await?;
    rows.iter().map(|row| row.try_get_by_index(0)).collect()
}
