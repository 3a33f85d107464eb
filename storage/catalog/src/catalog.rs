//! Handle to the catalog.

use crate::condition_locks::{ConditionLocks, ConditionOutcome};
use crate::connect::{Connected, IfMissing, connect, connect_later};
use crate::database_clock::database_now;
use crate::entities::catalog_versions;
use crate::error::CatalogError;
use crate::limits::CatalogLimits;
use crate::location::CatalogLocation;
#[cfg(feature = "testing")]
use crate::migrations::migrate_before;
use crate::migrations::{is_made, migrate};
#[cfg(feature = "testing")]
use crate::testing::StatementCount;
use crate::time::UtcTime;
use millrace_rows::{Clock, SystemClock};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr,
    EntityTrait, QueryFilter, Statement, Value,
};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Counter of changes to anything that the ingestion path caches.
const KEYS_COUNTER: &str = "keys";

/// Check of a condition that is under way.
pub(crate) type CheckFuture = Pin<Box<dyn Future<Output = ConditionOutcome> + Send>>;

/// Condition, and the locks that keep it from breaking.
#[derive(Clone)]
pub(crate) struct Condition {
    pub(crate) locks: ConditionLocks,
    pub(crate) check: Arc<dyn Fn(Catalog) -> CheckFuture + Send + Sync>,
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Condition({:?})", self.locks)
    }
}

/// Handle to the catalog. Clones share its connections.
#[derive(Clone)]
pub struct Catalog {
    /// Connections for reading.
    pub(crate) db: DatabaseConnection,
    /// Connections for changes; in SQLite a single one, for which changes queue up.
    pub(crate) writer: DatabaseConnection,
    /// Connections for reading while a transaction is open; see `condition`.
    pub(crate) reserve_db: DatabaseConnection,
    /// Condition that must hold in every transaction.
    pub(crate) condition: Option<Condition>,
    pub(crate) location: CatalogLocation,
    clock: Arc<dyn Clock>,
    /// True if `clock` also replaces the database's clock, by which machines agree.
    follows_own_clock: bool,
    /// Runtime of the pool's sockets and timers, which die with it.
    runtime: Handle,
    /// Limits of each organization.
    limits: CatalogLimits,
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Catalog({})", self.location)
    }
}

impl Catalog {
    /// Connects and brings the schema up to date. Many processes may do so at the same time.
    ///
    /// `database_url` is `sqlite://<path>?mode=rwc` or `postgres://<user>:<password>@<host>/<db>`.
    ///
    /// # Errors
    ///
    /// A fault of the URL, the file, the server or the schema; the message says what to do.
    pub async fn open(database_url: &str) -> Result<Self, CatalogError> {
        let connected = connect(database_url, IfMissing::Create).await?;
        Self::new(connected, Arc::new(SystemClock)).migrated().await
    }

    /// Opens an existing catalog and creates none: no file, and no tables in a database without any
    /// of ours. A catalog of an earlier version is brought up to date.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Missing`], and those of [`Catalog::open`].
    pub async fn open_existing(database_url: &str) -> Result<Self, CatalogError> {
        let connected = connect(database_url, IfMissing::Fail).await?;
        let catalog = Self::new(connected, Arc::new(SystemClock));
        let missing = match is_made(&catalog.db, &catalog.location).await {
            Ok(true) => return catalog.migrated().await,
            Ok(false) => CatalogError::Missing {
                location: catalog.location.to_string(),
            },
            Err(error) => error,
        };
        // The pools would otherwise hold their connections until they are dropped.
        let _ = catalog.close().await;
        Err(missing)
    }

    /// Handle to the catalog in PostgreSQL with this id, which is away now: it connects when it is
    /// used, and fails as long as it cannot, or finds another catalog there. The schema is left as
    /// it is.
    ///
    /// # Errors
    ///
    /// A fault of the URL.
    pub async fn open_later(database_url: &str, id: Uuid) -> Result<Self, CatalogError> {
        let connected = connect_later(database_url, id).await?;
        Ok(Self::new(connected, Arc::new(SystemClock)))
    }

    /// [`Catalog::open`] with another clock, which also replaces the database's clock.
    ///
    /// # Errors
    ///
    /// As [`Catalog::open`].
    pub async fn open_with_clock(
        database_url: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, CatalogError> {
        let mut catalog = Self::new(connect(database_url, IfMissing::Create).await?, clock);
        catalog.follows_own_clock = true;
        catalog.migrated().await
    }

    async fn migrated(self) -> Result<Self, CatalogError> {
        let catalog = self;
        let migrated = migrate(&catalog.writer, &catalog.location).await;
        if let Err(error) = migrated {
            // The pools would otherwise hold their connections until they are dropped.
            let _ = catalog.close().await;
            return Err(error);
        }
        Ok(catalog)
    }

    pub(crate) fn new(connected: Connected, clock: Arc<dyn Clock>) -> Self {
        let Connected {
            db,
            writer,
            reserve_db,
            location,
        } = connected;
        Self {
            db,
            writer,
            reserve_db,
            condition: None,
            location,
            clock,
            follows_own_clock: false,
            runtime: Handle::current(),
            limits: CatalogLimits::default(),
        }
    }

    /// Replaces the limits of organizations.
    #[must_use]
    pub fn with_limits(mut self, limits: CatalogLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Limits of organizations, as the operator sets them.
    #[must_use]
    pub const fn limits(&self) -> &CatalogLimits {
        &self.limits
    }

    /// Writes an old catalog into an empty database and applies the steps before one.
    #[cfg(feature = "testing")]
    pub(crate) async fn create_before(
        database_url: &str,
        old: &str,
        step: &str,
    ) -> Result<Self, CatalogError> {
        let connected = connect(database_url, IfMissing::Create).await?;
        let catalog = Self::new(connected, Arc::new(SystemClock));
        let written = migrate_before(&catalog.writer, old, step).await;
        written.map_err(|error| catalog.error(&error))?;
        Ok(catalog)
    }

    /// Writes a consistent copy of a SQLite catalog to a new file, while others go on changing it.
    /// PostgreSQL has tools of its own for this.
    ///
    /// # Errors
    ///
    /// The file exists or cannot be written, or the catalog is not SQLite's.
    pub async fn copy_to(&self, file: &str) -> Result<(), CatalogError> {
        let statement =
            Statement::from_sql_and_values(DbBackend::Sqlite, "VACUUM INTO ?", [Value::from(file)]);
        let copied = self.writer.execute_raw(statement).await;
        copied.map(drop).map_err(|error| self.error(&error))
    }

    /// Size of the database, in bytes; of SQLite without the `-wal` file.
    ///
    /// # Errors
    ///
    /// Any database error.
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

    /// Settings of the writer on which durability in SQLite depends: name and value.
    ///
    /// # Errors
    ///
    /// Any database error.
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

    /// Clone of the catalog, with a count of the statements that the clone sends.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn counted(&self) -> (Self, StatementCount) {
        let mut counted = self.clone();
        let count = StatementCount::default();
        counted.db.set_metric_callback(count.callback());
        counted.writer.set_metric_callback(count.callback());
        (counted, count)
    }

    /// Connections for statements that only read.
    #[must_use]
    pub const fn reader(&self) -> &DatabaseConnection {
        &self.db
    }

    /// Connection for single statements that write; for several, see [`Catalog::begin`].
    #[must_use]
    pub const fn writer(&self) -> &DatabaseConnection {
        &self.writer
    }

    /// Runtime that opened the catalog and drives its connections. Other runtimes spawn their calls
    /// there.
    #[must_use]
    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Closes all connections; calls on any clone fail from then on.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn close(&self) -> Result<(), CatalogError> {
        let closed = self.db.close_by_ref().await;
        let closed = closed.and(self.writer.close_by_ref().await);
        let closed = closed.and(self.reserve_db.close_by_ref().await);
        closed.map_err(|error| self.error(&error))
    }

    /// Number of changes so far to the results of
    /// [`ProjectKeys::find`](crate::ProjectKeys::find). A process that caches results reads it once
    /// a second; if the number moved, its cache is in doubt.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn keys_version(&self) -> Result<i64, CatalogError> {
        let row = catalog_versions::Entity::find_by_id(KEYS_COUNTER.to_owned())
            .one(&self.db)
            .await
            .map_err(|error| self.error(&error))?;
        Ok(row.map_or(0, |row| row.version))
    }

    /// Increments the counter of [`Catalog::keys_version`], in the transaction of the change.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn keys_changed(&self, within: &DatabaseTransaction) -> Result<(), DbErr> {
        let version = catalog_versions::Column::Version;
        catalog_versions::Entity::update_many()
            .col_expr(version, Expr::col(version).add(1))
            .filter(catalog_versions::Column::Name.eq(KEYS_COUNTER))
            .exec(within)
            .await
            .map(drop)
    }

    /// Time by the clock of this process.
    #[must_use]
    pub fn now(&self) -> UtcTime {
        self.clock.now().into()
    }

    /// Time by the database's clock, in microseconds since 1970, the same for all processes.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn shared_now<C: ConnectionTrait>(&self, db: &C) -> Result<i64, DbErr> {
        if self.follows_own_clock {
            return Ok(self.now().0);
        }
        database_now(db).await
    }

    /// Converts an error of the database to one that names the catalog.
    #[must_use]
    pub fn error(&self, error: &DbErr) -> CatalogError {
        self.location.error(error)
    }
}
