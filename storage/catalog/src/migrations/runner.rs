//! Runner of migrations, in the transaction of its caller.
//!
//! Applied ones are recorded in the table of SeaORM's migrator, by which earlier versions ran them.

use async_trait::async_trait;
use millrace_rows::{Clock, SystemClock};
use sea_orm::sea_query::{ColumnDef, Order, Query, Table};
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, Statement, StatementBuilder,
};

const MICROS_PER_SECOND: i64 = 1_000_000;

const TABLE: &str = "seaql_migrations";
const TABLE_IN_SQLITE: &str =
    "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'seaql_migrations'";
const TABLE_IN_POSTGRES: &str = "SELECT 1 FROM information_schema.tables \
     WHERE table_schema = CURRENT_SCHEMA() AND table_type = 'BASE TABLE' \
     AND table_name = 'seaql_migrations'";

/// Change of the schema, applied once.
#[async_trait]
pub(super) trait Migrate: Send + Sync {
    /// Name under which the migration is recorded.
    fn name(&self) -> &'static str;

    /// Applies the change.
    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr>;
}

/// Schema that is migrated.
pub(super) struct Schema<'a>(&'a DatabaseTransaction);

impl Schema<'_> {
    /// Transaction of all migrations.
    pub(super) const fn connection(&self) -> &DatabaseTransaction {
        self.0
    }

    /// Kind of the database.
    pub(super) fn backend(&self) -> DbBackend {
        self.0.get_database_backend()
    }

    /// Executes a statement whose result does not matter.
    pub(super) async fn execute<S: StatementBuilder>(&self, statement: &S) -> Result<(), DbErr> {
        self.0.execute(statement).await.map(drop)
    }
}

/// Reads the names of the applied migrations, in their order, without writing: an empty database
/// has no table of them.
pub(super) async fn recorded<C: ConnectionTrait>(db: &C) -> Result<Vec<String>, DbErr> {
    let backend = db.get_database_backend();
    let table = match backend {
        DbBackend::Postgres => TABLE_IN_POSTGRES,
        _ => TABLE_IN_SQLITE,
    };
    let table = Statement::from_string(backend, table);
    if db.query_one_raw(table).await?.is_none() {
        return Ok(Vec::new());
    }
    let mut names = Query::select();
    names
        .columns(["version"])
        .from(TABLE)
        .order_by("version", Order::Asc);
    let rows = db.query_all(&names).await?;
    rows.iter().map(|row| row.try_get("", "version")).collect()
}

/// Applies migrations that are not recorded, and records each.
pub(super) async fn apply(
    db: &DatabaseTransaction,
    migrations: &[&dyn Migrate],
) -> Result<(), DbErr> {
    create_table(db).await?;
    let applied = recorded(db).await?;
    let schema = Schema(db);
    for migration in migrations {
        let name = migration.name();
        if applied.iter().any(|applied| applied == name) {
            continue;
        }
        migration.up(&schema).await?;
        record(db, name).await?;
    }
    Ok(())
}

async fn create_table(db: &DatabaseTransaction) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table(TABLE)
        .if_not_exists()
        .col(ColumnDef::new("version").string().not_null().primary_key())
        .col(ColumnDef::new("applied_at").big_integer().not_null());
    db.execute(&table).await.map(drop)
}

async fn record(db: &DatabaseTransaction, name: &'static str) -> Result<(), DbErr> {
    let applied_at_seconds = SystemClock.now().0 / MICROS_PER_SECOND;
    let mut record = Query::insert();
    record
        .into_table(TABLE)
        .columns(["version", "applied_at"])
        .values_panic([name.into(), applied_at_seconds.into()]);
    db.execute(&record).await.map(drop)
}
