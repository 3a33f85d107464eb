//! The handle to the catalog.

use crate::condition::Condition;
use crate::connect::{Absent, Connected, connect};
use crate::entities::catalog_versions;
use crate::error::{CatalogError, ChangeError};
use crate::leases::database_now;
use crate::limits::CatalogLimits;
use crate::migrations::{is_made, migrate};
use crate::place::Place;
use crate::plugins::SourceParser;
#[cfg(feature = "testing")]
use crate::testing::StatementCount;
use crate::time::UtcTime;
use millrace_rows::{Clock, SystemClock};
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr,
    EntityTrait, QueryFilter, Statement, Value,
};
use std::fmt;
use std::sync::Arc;
use tokio::runtime::Handle;

/// The counter of changes to anything that the ingestion path caches.
const KEYS_COUNTER: &str = "keys";

/// The catalog. Clones share its connections.
#[derive(Clone)]
pub struct Catalog {
    /// For reading.
    pub(crate) db: DatabaseConnection,
    /// For whatever changes something; in SQLite one connection, for which changes queue up.
    pub(crate) writer: DatabaseConnection,
    /// For reading while a transaction is open; see `condition`.
    pub(crate) lookouts: DatabaseConnection,
    /// What must hold in every transaction.
    pub(crate) condition: Option<Condition>,
    pub(crate) place: Place,
    clock: Arc<dyn Clock>,
    /// Whether that clock is used also where the clocks of machines must agree.
    follows_own_clock: bool,
    /// Where the sockets and timers of the pool live; they die with it.
    runtime: Handle,
    /// Reads sources of plugins; `None`: this process reads none.
    source_parser: Option<Arc<dyn SourceParser>>,
    /// How much an organization may have.
    pub(crate) limits: CatalogLimits,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Catalog({})", self.place)
    }
}

impl Catalog {
    /// Connects and brings the schema up to date. Many processes may do so at the same time.
    ///
    /// `database_url` is `sqlite://<path>?mode=rwc` or `postgres://<user>:<password>@<host>/<db>`.
    ///
    /// # Errors
    ///
    /// What is wrong with the URL, the file, the server or the schema, and what to do.
    pub async fn open(database_url: &str) -> Result<Self, CatalogError> {
        let connected = connect(database_url, Absent::Make).await?;
        Self::new(connected, Arc::new(SystemClock)).migrated().await
    }

    /// Opens a catalog that is there, and makes none: no file, and no tables in a database without
    /// any of ours. One of an earlier version is brought up to date.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Missing`], and those of [`Catalog::open`].
    pub async fn open_existing(database_url: &str) -> Result<Self, CatalogError> {
        let connected = connect(database_url, Absent::Refuse).await?;
        let catalog = Self::new(connected, Arc::new(SystemClock));
        let missing = match is_made(&catalog.db, &catalog.place).await {
            Ok(true) => return catalog.migrated().await,
            Ok(false) => CatalogError::Missing {
                place: catalog.place.to_string(),
            },
            Err(error) => error,
        };
        // The pools would otherwise hold their connections until they are dropped.
        let _ = catalog.close().await;
        Err(missing)
    }

    /// The same, with another clock, also for what is measured by the database's otherwise.
    ///
    /// # Errors
    ///
    /// As [`Catalog::open`].
    pub async fn open_with_clock(
        database_url: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, CatalogError> {
        let mut catalog = Self::new(connect(database_url, Absent::Make).await?, clock);
        catalog.follows_own_clock = true;
        catalog.migrated().await
    }

    async fn migrated(self) -> Result<Self, CatalogError> {
        let catalog = self;
        let migrated = migrate(&catalog.writer, &catalog.place, None).await;
        if let Err(error) = migrated {
            // The pools would otherwise hold their connections until they are dropped.
            let _ = catalog.close().await;
            return Err(error);
        }
        Ok(catalog)
    }

    fn new(connected: Connected, clock: Arc<dyn Clock>) -> Self {
        let Connected {
            db,
            writer,
            lookouts,
            place,
        } = connected;
        Self {
            db,
            writer,
            lookouts,
            condition: None,
            place,
            clock,
            follows_own_clock: false,
            runtime: Handle::current(),
            source_parser: None,
            limits: CatalogLimits::default(),
        }
    }

    /// The same catalog, with somebody who reads sources of plugins.
    #[must_use]
    pub fn with_source_parser(mut self, parser: Arc<dyn SourceParser>) -> Self {
        self.source_parser = Some(parser);
        self
    }

    /// The same catalog, where organizations may have so much.
    #[must_use]
    pub fn with_limits(mut self, limits: CatalogLimits) -> Self {
        self.limits = limits;
        self
    }

    pub(crate) fn source_parser(&self) -> Result<&dyn SourceParser, ChangeError> {
        let parser = self.source_parser.as_deref();
        let reason = || "this process reads no sources of plugins".to_owned();
        parser.ok_or_else(|| ChangeError::Unavailable(reason()))
    }

    /// Writes a schema as old as after `steps` migrations; what is newer must be missing.
    #[cfg(feature = "testing")]
    pub(crate) async fn create_old(database_url: &str, steps: u32) -> Result<Self, CatalogError> {
        let connected = connect(database_url, Absent::Make).await?;
        let catalog = Self::new(connected, Arc::new(SystemClock));
        migrate(&catalog.writer, &catalog.place, Some(steps)).await?;
        Ok(catalog)
    }

    /// Writes a copy of a SQLite catalog to a file that is not there, as it is at one moment;
    /// others may go on changing it. PostgreSQL has tools of its own for this.
    ///
    /// # Errors
    ///
    /// The file is there or cannot be written, or the catalog is none of SQLite.
    pub async fn copy_to(&self, file: &str) -> Result<(), CatalogError> {
        let statement =
            Statement::from_sql_and_values(DbBackend::Sqlite, "VACUUM INTO ?", [Value::from(file)]);
        let copied = self.writer.execute_raw(statement).await;
        copied.map(drop).map_err(|error| self.error(&error))
    }

    /// Size of the database, in bytes; of a SQLite file without what is in its `-wal` still.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn bytes(&self) -> Result<u64, CatalogError> {
        let backend = self.db.get_database_backend();
        let sql = match backend {
            DbBackend::Sqlite => {
                "SELECT page_count * page_size AS bytes FROM pragma_page_count(), pragma_page_size()"
            }
            _ => "SELECT pg_database_size(current_database()) AS bytes",
        };
        let read = async {
            let statement = Statement::from_string(backend, sql);
            let row = self.db.query_one_raw(statement).await?;
            let bytes: i64 = row.map_or(Ok(0), |row| row.try_get("", "bytes"))?;
            Ok(u64::try_from(bytes).unwrap_or(0))
        };
        read.await.map_err(|error: DbErr| self.error(&error))
    }

    /// The settings of the writer on which durability in SQLite depends: name and value.
    ///
    /// # Errors
    ///
    /// What the database says.
    #[cfg(feature = "testing")]
    pub async fn sqlite_settings(&self) -> Result<Vec<(String, String)>, CatalogError> {
        let read = async {
            let mut settings = Vec::new();
            for name in ["journal_mode", "synchronous", "foreign_keys"] {
                let sql = format!("SELECT CAST({name} AS TEXT) AS value FROM pragma_{name}");
                let statement = Statement::from_string(DbBackend::Sqlite, sql);
                if let Some(row) = self.writer.query_one_raw(statement).await? {
                    settings.push((name.to_owned(), row.try_get("", "value")?));
                }
            }
            Ok(settings)
        };
        read.await.map_err(|error: DbErr| self.error(&error))
    }

    /// The same catalog, and a count of the statements that this clone of it sends.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn counted(&self) -> (Self, StatementCount) {
        let mut counted = self.clone();
        let count = StatementCount::default();
        counted.db.set_metric_callback(count.callback());
        counted.writer.set_metric_callback(count.callback());
        (counted, count)
    }

    /// The runtime that opened the catalog, which drives its connections. Other runtimes spawn
    /// their calls there.
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Closes all connections; calls on any clone fail from then on.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn close(&self) -> Result<(), CatalogError> {
        let closed = self.db.close_by_ref().await;
        let closed = closed.and(self.writer.close_by_ref().await);
        let closed = closed.and(self.lookouts.close_by_ref().await);
        closed.map_err(|error| self.error(&error))
    }

    /// Counts the changes to what [`Catalog::project_by_key`] answers. A process that caches
    /// answers looks here once a second; if the number moved, its answers are in doubt.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn keys_version(&self) -> Result<i64, CatalogError> {
        let row = catalog_versions::Entity::find_by_id(KEYS_COUNTER.to_owned())
            .one(&self.db)
            .await
            .map_err(|error| self.error(&error))?;
        Ok(row.map_or(0, |row| row.version))
    }

    /// Says so in the same transaction as the change.
    pub(crate) async fn keys_changed(&self, within: &DatabaseTransaction) -> Result<(), DbErr> {
        let version = catalog_versions::Column::Version;
        catalog_versions::Entity::update_many()
            .col_expr(version, Expr::col(version).add(1))
            .filter(catalog_versions::Column::Name.eq(KEYS_COUNTER))
            .exec(within)
            .await
            .map(drop)
    }

    pub(crate) fn now(&self) -> UtcTime {
        self.clock.now().into()
    }

    /// The time in microseconds since 1970 that is the same for all who share the database.
    pub(crate) async fn shared_now<C: ConnectionTrait>(&self, db: &C) -> Result<i64, DbErr> {
        if self.follows_own_clock {
            return Ok(self.now().0);
        }
        database_now(db).await
    }

    pub(crate) fn error(&self, error: &DbErr) -> CatalogError {
        self.place.error(error)
    }
}
