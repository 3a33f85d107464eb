//! Delayed deletion of a batch export's runs, backfills and lines, as of persons after their
//! project: an export every five minutes has a hundred thousand runs a year. A trigger records each
//! deletion of an export, also by a cascade, and `cleanup` deletes the rows piece by piece.
//!
//! SQLite cannot take a foreign key away, so the three tables are copied there. The keys between
//! them stay: a line belongs to an existing run, and a run to an existing backfill.
//!
//! Also an index of backfills that have not ended, and the time since which an export waits for its
//! operator.

use super::columns::{
    big_integer, big_integer_null, big_pk_auto, integer, json_null, pk_uuid, text, text_null, uuid,
    uuid_null,
};
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::sea_query::{
    ForeignKey, ForeignKeyAction, ForeignKeyCreateStatement, Index, Table, TableCreateStatement,
};
use sea_orm::{ConnectionTrait, DbBackend, DbErr};

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0042_deleted_exports"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        let mut marks = Table::create();
        marks
            .table("deleted_batch_exports")
            .col(pk_uuid("batch_export_id"));
        schema.execute(&marks).await?;
        let connection = schema.connection();
        match schema.backend() {
            DbBackend::Postgres => {
                connection.execute_unprepared(MARK_IN_POSTGRES).await?;
                connection.execute_unprepared(RELEASE_IN_POSTGRES).await?;
            }
            _ => {
                connection.execute_unprepared(MARK_IN_SQLITE).await?;
                copy_in_sqlite(schema).await?;
            }
        }
        connection.execute_unprepared(OPEN_BACKFILLS).await?;
        // SQLite takes one column a statement.
        for column in ["waits_since", "wait_told_at"] {
            let mut table = Table::alter();
            table
                .table("batch_exports")
                .add_column(big_integer_null(column));
            schema.execute(&table).await?;
        }
        Ok(())
    }
}

const MARK_IN_SQLITE: &str = "CREATE TRIGGER batch_exports_deleted AFTER DELETE ON batch_exports BEGIN \
     INSERT INTO deleted_batch_exports (batch_export_id) VALUES (OLD.id) ON CONFLICT DO NOTHING; END";

const MARK_IN_POSTGRES: &str = "CREATE FUNCTION batch_exports_deleted() RETURNS trigger LANGUAGE plpgsql \
     AS $$ BEGIN INSERT INTO deleted_batch_exports (batch_export_id) VALUES (OLD.id) \
     ON CONFLICT DO NOTHING; RETURN NULL; END $$; \
     CREATE TRIGGER batch_exports_deleted AFTER DELETE ON batch_exports FOR EACH ROW \
     EXECUTE FUNCTION batch_exports_deleted()";

/// The names are PostgreSQL's, as `m0013` gave none.
const RELEASE_IN_POSTGRES: &str = "ALTER TABLE batch_export_runs \
     DROP CONSTRAINT batch_export_runs_batch_export_id_fkey; \
     ALTER TABLE batch_export_backfills DROP CONSTRAINT batch_export_backfills_batch_export_id_fkey; \
     ALTER TABLE batch_export_logs DROP CONSTRAINT batch_export_logs_batch_export_id_fkey";

/// Index that the builder cannot express, as it has no conditions.
const ONCE: &str = "CREATE UNIQUE INDEX batch_export_runs_once \
     ON batch_export_runs (batch_export_id, data_interval_end) WHERE backfill_id IS NULL";

const OPEN_BACKFILLS: &str = "CREATE INDEX batch_export_backfills_open \
     ON batch_export_backfills (batch_export_id, created_at, id) WHERE finished_at IS NULL";

/// Other indexes of the copied tables; the first two are unique.
const INDEXES: [(&str, &str, &[&str]); 10] = [
    (
        "batch_export_runs_in_order",
        "batch_export_runs",
        &["batch_export_id", "ordinal"],
    ),
    (
        "batch_export_runs_once_a_backfill",
        "batch_export_runs",
        &["backfill_id", "data_interval_end"],
    ),
    (
        "batch_export_runs_by_window",
        "batch_export_runs",
        &["batch_export_id", "data_interval_start"],
    ),
    (
        "batch_export_runs_of_backfill",
        "batch_export_runs",
        &["backfill_id", "status"],
    ),
    (
        "batch_export_runs_by_status",
        "batch_export_runs",
        &["status", "created_at"],
    ),
    (
        "batch_export_runs_by_end",
        "batch_export_runs",
        &["finished_at", "id"],
    ),
    (
        "batch_export_backfills_in_order",
        "batch_export_backfills",
        &["batch_export_id", "created_at", "id"],
    ),
    (
        "batch_export_logs_of_export",
        "batch_export_logs",
        &["batch_export_id", "logged_at", "id"],
    ),
    (
        "batch_export_logs_of_run",
        "batch_export_logs",
        &["run_id", "logged_at", "id"],
    ),
    (
        "batch_export_logs_by_time",
        "batch_export_logs",
        &["logged_at", "id"],
    ),
];
const UNIQUE_INDEXES: usize = 2;

const BACKFILL_COLUMNS: &str = "id, batch_export_id, start_at, end_at, status, total_runs, finished_runs, \
     created_at, finished_at, last_updated_at, message, asked_for";
const RUN_COLUMNS: &str = "id, batch_export_id, ordinal, backfill_id, status, data_interval_start, \
     data_interval_end, records_completed, records_total_count, cursor, latest_error, created_at, finished_at, \
     last_updated_at, claim, claim_lapses_at, next_try_at, failures_count, bytes_exported";
const LOG_COLUMNS: &str = "id, batch_export_id, run_id, logged_at, level, message";

async fn copy_in_sqlite(schema: &Schema<'_>) -> Result<(), DbErr> {
    let connection = schema.connection();
    // Parents before their children, as the keys between them hold meanwhile.
    let copies = [
        ("batch_export_backfills", BACKFILL_COLUMNS, backfills()),
        ("batch_export_runs", RUN_COLUMNS, runs()),
        ("batch_export_logs", LOG_COLUMNS, logs()),
    ];
    for (table, columns, create) in &copies {
        schema.execute(create).await?;
        let copy = format!("INSERT INTO {table}_copied ({columns}) SELECT {columns} FROM {table}");
        connection.execute_unprepared(&copy).await?;
    }
    // Children before their parents, as a dropped table deletes the rows that belong to its own.
    for (table, _, _) in copies.iter().rev() {
        let drop = format!("DROP TABLE {table}");
        connection.execute_unprepared(&drop).await?;
    }
    // Foreign keys follow the new names of the tables.
    for (table, _, _) in &copies {
        let rename = format!("ALTER TABLE {table}_copied RENAME TO {table}");
        connection.execute_unprepared(&rename).await?;
    }
    for (number, (name, table, columns)) in INDEXES.into_iter().enumerate() {
        let mut index = Index::create();
        index.name(name).table(table);
        for column in columns {
            index.col(*column);
        }
        if number < UNIQUE_INDEXES {
            index.unique();
        }
        schema.execute(&index).await?;
    }
    connection.execute_unprepared(ONCE).await.map(drop)
}

fn backfills() -> TableCreateStatement {
    Table::create()
        .table("batch_export_backfills_copied")
        .col(pk_uuid("id"))
        .col(uuid("batch_export_id"))
        .col(big_integer_null("start_at"))
        .col(big_integer_null("end_at"))
        .col(text("status"))
        .col(big_integer_null("total_runs"))
        .col(big_integer("finished_runs"))
        .col(big_integer("created_at"))
        .col(big_integer_null("finished_at"))
        .col(big_integer("last_updated_at"))
        .col(text_null("message"))
        .col(json_null("asked_for"))
        .take()
}

fn runs() -> TableCreateStatement {
    Table::create()
        .table("batch_export_runs_copied")
        .col(pk_uuid("id"))
        .col(uuid("batch_export_id"))
        .col(big_integer("ordinal"))
        .col(uuid_null("backfill_id"))
        .col(text("status"))
        .col(big_integer_null("data_interval_start"))
        .col(big_integer("data_interval_end"))
        .col(big_integer_null("records_completed"))
        .col(big_integer_null("records_total_count"))
        .col(text_null("cursor"))
        .col(text_null("latest_error"))
        .col(big_integer("created_at"))
        .col(big_integer_null("finished_at"))
        .col(big_integer("last_updated_at"))
        .col(uuid_null("claim"))
        .col(big_integer("claim_lapses_at").default(0))
        .col(big_integer("next_try_at").default(0))
        .col(integer("failures_count").default(0))
        .col(big_integer_null("bytes_exported"))
        .foreign_key(&mut child_of(
            "batch_export_runs_copied",
            "backfill_id",
            "batch_export_backfills_copied",
        ))
        .take()
}

fn logs() -> TableCreateStatement {
    Table::create()
        .table("batch_export_logs_copied")
        .col(big_pk_auto("id"))
        .col(uuid("batch_export_id"))
        .col(uuid_null("run_id"))
        .col(big_integer("logged_at"))
        .col(text("level"))
        .col(text("message"))
        .foreign_key(&mut child_of(
            "batch_export_logs_copied",
            "run_id",
            "batch_export_runs_copied",
        ))
        .take()
}

fn child_of(
    table: &'static str,
    column: &'static str,
    parent: &'static str,
) -> ForeignKeyCreateStatement {
    let mut key = ForeignKey::create();
    key.from(table, column)
        .to(parent, "id")
        .on_delete(ForeignKeyAction::Cascade);
    key
}
