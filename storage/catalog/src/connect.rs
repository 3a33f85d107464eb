//! Connection pools from a database URL.
//!
//! **SQLite**: write-ahead journal, so that readers and the one writer do not wait for each
//! other; `synchronous = FULL`, so that what was committed survives a power cut; foreign keys
//! checked. All changes go through one connection, for which they queue up in their order: a
//! change that waits takes no reader's connection. Readers' connections refuse to write. Other
//! processes' writers are waited for up to [`BUSY_TIMEOUT`]. Every writing transaction takes the
//! write lock when it begins: one that read first could not wait for it, only fail. A connection
//! is given up whose transaction SQLite ended by itself, as it does on a full disk: sqlx counts
//! that transaction as open, and would only set savepoints in those to come, never commit.
//!
//! **PostgreSQL**: one pool for all, and a small one to read while changes hold locks; TLS as the
//! URL's `sslmode` says. A connection whose caller gave a statement up is closed, unless the server
//! has answered soon: sqlx waits for that answer without a limit, and for as long as that the pool
//! would have one connection less. Connections to a server that takes no changes any more are
//! closed, see [`crate::stale_sessions`].

use crate::error::CatalogError;
use crate::location::CatalogLocation;
use backon::{ConstantBuilder, Retryable};
use sea_orm::prelude::Uuid;
use sea_orm::sqlx::postgres::{PgConnectOptions, PgConnection};
use sea_orm::sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous,
};
use sea_orm::sqlx::{self, Connection};
use sea_orm::{
    ConnectOptions, Database, DatabaseConnection, DatabaseTransaction, DbErr, RuntimeErr,
    SqliteTransactionMode, TransactionOptions, TransactionTrait,
};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// Longest wait of a writer for another one in SQLite.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before connecting again to a busy SQLite file, and the most attempts.
const BUSY_STEP: Duration = Duration::from_millis(20);
const BUSY_STEPS_MAX: usize = 125;
/// Longest wait of a query for a free connection, and of a new connection for the server.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for a PostgreSQL server's reason for refusing a connection.
const REFUSAL_WAIT: Duration = Duration::from_secs(2);
/// Longest wait for the answer of a PostgreSQL server to a released connection.
const RELEASE_WAIT: Duration = Duration::from_secs(2);
/// Connections of SQLite that write.
const SQLITE_WRITERS: u32 = 1;
const SQLITE_READERS_MAX: u32 = 4;
/// Page cache of each connection, in KiB: it holds the indexes of an organization of 100 000
/// members, and then some. Beyond it, every list fetches every page of an index again.
const SQLITE_CACHE_KIB: i64 = 16 * 1024;
/// Memory of all connections of the process together, in bytes, beyond which SQLite takes pages of
/// other connections for new ones. Each part of the server has a catalog of its own, so there are
/// twenty connections: without this limit their page caches alone grow to 320 MiB with the file.
const SQLITE_HEAP_BYTES_MAX: i64 = 96 << 20;
/// Rows that SQLite's thread may be ahead of the reader: a whole page, as each wait of the two for
/// one another costs more than a row does.
const SQLITE_ROWS_BUFFERED_MAX: usize = 1024;
/// Connections of each process; a server's default allows 100 in all.
const POSTGRES_CONNECTIONS_MAX: u32 = 10;
/// Further connections, to read while changes hold or wait for locks with all the others.
const POSTGRES_RESERVE_MAX: u32 = 2;

pub(crate) struct Connected {
    /// Connections for reading.
    pub(crate) db: DatabaseConnection,
    /// Connections for changes.
    pub(crate) writer: DatabaseConnection,
    /// Connections for reading while a transaction of the writer is open.
    pub(crate) reserve_db: DatabaseConnection,
    pub(crate) location: CatalogLocation,
}

/// Reaction to a missing file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMissing {
    /// Create it, if the URL says so.
    Create,
    /// Fail, whatever the URL says.
    Fail,
}

/// Connects to a database whose schema may still be old or missing.
pub(crate) async fn connect(
    database_url: &str,
    if_missing: IfMissing,
) -> Result<Connected, CatalogError> {
    if database_url.starts_with("sqlite:") {
        return connect_sqlite(database_url, if_missing).await;
    }
    let (options, location) = postgres(database_url, None)?;
    let db = match Database::connect(options.clone()).await {
        Ok(db) => db,
        Err(error) => return Err(cause(database_url, &location, &error).await),
    };
    // Connected when it is needed, which is seldom.
    let reserve_db = connect_lazily(options, POSTGRES_RESERVE_MAX).await;
    Ok(Connected {
        writer: db.clone(),
        db,
        reserve_db: reserve_db.map_err(|error| location.error(&error))?,
        location,
    })
}

/// Pools for a catalog in PostgreSQL that is away now. Each connection, once it is made, is checked
/// to lead to the catalog with this id: another one is as good as none.
pub(crate) async fn connect_later(database_url: &str, id: Uuid) -> Result<Connected, CatalogError> {
    let (options, location) = postgres(database_url, Some(id))?;
    let db = connect_lazily(options.clone(), POSTGRES_CONNECTIONS_MAX).await;
    let reserve_db = connect_lazily(options, POSTGRES_RESERVE_MAX).await;
    let db = db.map_err(|error| location.error(&error))?;
    Ok(Connected {
        writer: db.clone(),
        db,
        reserve_db: reserve_db.map_err(|error| location.error(&error))?,
        location,
    })
}

/// Makes a pool that connects when it is used.
async fn connect_lazily(
    mut options: ConnectOptions,
    connections_max: u32,
) -> Result<DatabaseConnection, DbErr> {
    options
        .max_connections(connections_max)
        .min_connections(0)
        .connect_lazy(true);
    Database::connect(options).await
}

/// Cause of a failed attempt to connect: a pool tries again until its time is over, and then
/// reports the time-out only. One connection without a pool has the server's or the system's words.
async fn cause(database_url: &str, location: &CatalogLocation, pool: &DbErr) -> CatalogError {
    let Ok(options) = PgConnectOptions::from_str(database_url) else {
        return location.error(pool);
    };
    match tokio::time::timeout(REFUSAL_WAIT, PgConnection::connect_with(&options)).await {
        Ok(Err(error)) => location.error(&DbErr::Conn(RuntimeErr::SqlxError(error.into()))),
        // It accepts by now.
        Ok(Ok(_)) => location.error(pool),
        Err(_) => CatalogError::Unreachable {
            location: location.to_string(),
            reason: format!(
                "nothing there answers within {} s; correct host and port of the database URL, or \
                 look for a firewall between",
                REFUSAL_WAIT.as_secs()
            ),
        },
    }
}

async fn connect_sqlite(url: &str, if_missing: IfMissing) -> Result<Connected, CatalogError> {
    let location = sqlite_file(url)?;
    // An empty file counts as missing: opening it would write to it.
    if if_missing == IfMissing::Fail && !has_bytes(&location) {
        return Err(CatalogError::Missing {
            location: location.name,
        });
    }
    // The writer first, as it creates the file and switches it to the write-ahead journal.
    let writer = open_sqlite(sqlite(url, SQLITE_WRITERS, false), &location).await?;
    let db = open_sqlite(sqlite(url, SQLITE_READERS_MAX, true), &location).await?;
    Ok(Connected {
        reserve_db: db.clone(),
        db,
        writer,
        location,
    })
}

fn has_bytes(location: &CatalogLocation) -> bool {
    // SQLite reports a file that cannot be read.
    let looked = Path::new(&location.name).metadata();
    looked.map_or_else(
        |error| error.kind() != std::io::ErrorKind::NotFound,
        |file| file.len() > 0,
    )
}

/// Connects to a SQLite file, with retries: SQLite does not wait while another process switches a
/// new file to the write-ahead journal.
async fn open_sqlite(
    options: ConnectOptions,
    location: &CatalogLocation,
) -> Result<DatabaseConnection, CatalogError> {
    let retries = ConstantBuilder::default()
        .with_delay(BUSY_STEP)
        .with_max_times(BUSY_STEPS_MAX)
        .with_jitter();
    let opened = (|| Database::connect(options.clone()))
        .retry(retries)
        .when(|error| matches!(location.error(error), CatalogError::Locked { .. }))
        .await;
    opened.map_err(|error| location.error(&error))
}

/// Begins a transaction that will write.
pub(crate) async fn begin_write(db: &DatabaseConnection) -> Result<DatabaseTransaction, DbErr> {
    db.begin_with_options(TransactionOptions {
        sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    })
    .await
}

fn sqlite_file(url: &str) -> Result<CatalogLocation, CatalogError> {
    let parsed = SqliteConnectOptions::from_str(url).map_err(|error| CatalogError::Url {
        reason: error.to_string(),
    })?;
    let path = parsed.get_filename().to_path_buf();
    if url.contains(":memory:") || url.contains("mode=memory") || path.as_os_str().is_empty() {
        return Err(CatalogError::Url {
            reason: "the catalog must be a file, because keys have to outlive the process"
                .to_owned(),
        });
    }
    Ok(CatalogLocation::new(path.display().to_string()))
}

fn sqlite(url: &str, connections_max: u32, reads_only: bool) -> ConnectOptions {
    let mut options = common(url, connections_max);
    // A connection is tested when it is released, and no network can have failed since.
    options.test_before_acquire(false);
    options.map_sqlx_sqlite_opts(move |options| {
        options
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY_TIMEOUT)
            .foreign_keys(true)
            .row_buffer_size(SQLITE_ROWS_BUFFERED_MAX)
            // Less than zero: in KiB, not in pages.
            .pragma("cache_size", format!("-{SQLITE_CACHE_KIB}"))
            // Of the process, whichever connection sets it.
            .pragma("soft_heap_limit", SQLITE_HEAP_BYTES_MAX.to_string())
            .pragma("query_only", if reads_only { "ON" } else { "OFF" })
    });
    options.map_sqlx_sqlite_pool_opts(|pool| {
        // Whoever waits longer than that gets an error, which says more than a warning of the pool.
        pool.acquire_slow_threshold(ACQUIRE_TIMEOUT)
            .after_release(|connection, _| Box::pin(has_no_transaction(connection)))
    });
    options
}

/// Returns true if a released connection can be used again.
async fn has_no_transaction(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    if connection.is_in_transaction() {
        // A transaction that was dropped is rolled back by the time of the answer.
        connection.ping().await?;
    }
    Ok(!connection.is_in_transaction())
}

/// Options of a pool for a URL; connections to a catalog with another id than `expected` fail.
fn postgres(
    url: &str,
    expected: Option<Uuid>,
) -> Result<(ConnectOptions, CatalogLocation), CatalogError> {
    // SeaORM accepts only one of the spellings.
    let rest = url.strip_prefix("postgresql://");
    let rest = rest.or_else(|| url.strip_prefix("postgres://"));
    let rest = rest.ok_or_else(|| CatalogError::Url {
        reason: "it starts neither with sqlite: nor with postgres://".to_owned(),
    })?;
    let url = format!("postgres://{rest}");
    let parsed = PgConnectOptions::from_str(&url).map_err(|error| CatalogError::Url {
        reason: error.to_string(),
    })?;
    let host = parsed.get_socket().map_or_else(
        || format!("{}:{}", parsed.get_host(), parsed.get_port()),
        |socket| socket.display().to_string(),
    );
    let database = parsed.get_database().unwrap_or(parsed.get_username());
    let location = CatalogLocation::new(format!("postgres://{host}/{database}"));
    let mut options = common(&url, POSTGRES_CONNECTIONS_MAX);
    options.set_application_name("millrace");
    let stale_sessions = location.stale_sessions.clone();
    options.map_sqlx_postgres_pool_opts(move |pool| {
        let (when_idle, when_released) = (stale_sessions.clone(), stale_sessions.clone());
        let pool =
            pool.after_connect(move |connection, _| Box::pin(leads_to(connection, expected)));
        pool.acquire_slow_threshold(ACQUIRE_TIMEOUT)
            .before_acquire(move |_, session| {
                let is_usable = !when_idle.includes(session.age);
                Box::pin(async move { Ok(is_usable) })
            })
            .after_release(move |connection, session| {
                let is_stale = when_released.includes(session.age);
                Box::pin(async move { Ok(answers_soon(connection).await? && !is_stale) })
            })
    });
    Ok((options, location))
}

/// Fails for a connection to another catalog than the expected one.
async fn leads_to(
    connection: &mut PgConnection,
    expected: Option<Uuid>,
) -> Result<(), sqlx::Error> {
    let Some(expected) = expected else {
        return Ok(());
    };
    let id = "SELECT CAST(id AS text) FROM catalog_ids";
    let found: Option<String> = sqlx::query_scalar(id).fetch_optional(connection).await?;
    match found == Some(expected.to_string()) {
        true => Ok(()),
        false => Err(sqlx::Error::Configuration(
            format!("the database has another catalog than {expected}").into(),
        )),
    }
}

/// Waits for the end of what a released connection may still be doing; an error closes it without
/// another question.
async fn answers_soon(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let answered = tokio::time::timeout(RELEASE_WAIT, connection.ping()).await;
    answered.map_err(|elapsed| sqlx::Error::Io(elapsed.into()))??;
    Ok(true)
}

fn common(url: &str, connections_max: u32) -> ConnectOptions {
    let mut options = ConnectOptions::new(url);
    options
        .max_connections(connections_max)
        .min_connections(1)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_timeout(ACQUIRE_TIMEOUT)
        // Statements carry hashes and addresses; the callers log what matters.
        .sqlx_logging(false);
    end_maintenance(&mut options);
    options
}

/// Keeps connections for as long as they work. The task that would close idle and old ones can spin
/// for ever: it counts up to the number of idle connections, which is below zero, and so very
/// large, for a moment when one is taken just as another is given back (`spawn_maintenance_tasks`
/// of sqlx 0.9.0; seen in a test, at 100 % of a core).
pub(crate) fn end_maintenance(options: &mut ConnectOptions) {
    options
        .idle_timeout(None::<Duration>)
        .max_lifetime(None::<Duration>);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::on_both;
    use crate::testing::{DatabaseKind, TestDatabase};
    use sea_orm::{ConnectionTrait, DbBackend, Statement};

    on_both!(a_process_has_a_limited_number_of_connections);

    /// Most connections of a pool, whether each is tested before its use, and the times after which
    /// idle and old ones are closed.
    type PoolSettings = (u32, bool, [Option<Duration>; 2]);

    fn settings<DB: sqlx::Database>(options: &sqlx::pool::PoolOptions<DB>) -> PoolSettings {
        (
            options.get_max_connections(),
            options.get_test_before_acquire(),
            [options.get_idle_timeout(), options.get_max_lifetime()],
        )
    }

    async fn a_process_has_a_limited_number_of_connections(database: TestDatabase) {
        let connected = connect(database.url(), IfMissing::Create).await.unwrap();
        let kind = database.kind();
        let found = |db: &DatabaseConnection| match kind {
            DatabaseKind::Sqlite => settings(db.get_sqlite_connection_pool().options()),
            DatabaseKind::Postgres => settings(db.get_postgres_connection_pool().options()),
        };
        let found = [&connected.writer, &connected.db, &connected.reserve_db].map(found);
        // They are kept for ever, so those to another machine are tested.
        let (most, is_tested) = match kind {
            DatabaseKind::Sqlite => ([1, 4, 4], false),
            DatabaseKind::Postgres => ([10, 10, 2], true),
        };
        assert_eq!(found, most.map(|most| (most, is_tested, [None, None])));
    }

    #[tokio::test]
    async fn all_connections_to_sqlite_share_one_limit_of_memory() {
        let database = TestDatabase::of(DatabaseKind::Sqlite).await;
        let connected = connect(database.url(), IfMissing::Create).await.unwrap();
        let sql = "SELECT soft_heap_limit AS bytes FROM pragma_soft_heap_limit";
        for db in [&connected.writer, &connected.db] {
            let statement = Statement::from_string(DbBackend::Sqlite, sql);
            let row = db.query_one_raw(statement).await.unwrap().unwrap();
            let bytes: i64 = row.try_get("", "bytes").unwrap();
            assert_eq!(bytes, SQLITE_HEAP_BYTES_MAX);
        }
    }
}
