//! The whole schema in an empty database: the migrations m0001 to m0050 in one.
//!
//! Catalogs of commit 4bbccd5 and later get to the same schema by the steps that follow that
//! commit; a test compares the two. This migration is never edited: the next one follows it.
//!
//! Names of columns and indexes hold in both databases. Columns are in the order in which the steps
//! added them.

mod batch_exports;
mod builder;
mod ingest;
mod organizations;
mod people;
mod persons;
mod plugins;
mod requests;

use crate::migrations::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::Query;
use sea_orm::{ConnectionTrait, DbBackend, DbErr};

const INDEXES: &str = include_str!("indexes.sql");
const TRIGGERS_IN_SQLITE: &str = include_str!("triggers_sqlite.sql");
const TRIGGERS_IN_POSTGRES: &str = include_str!("triggers_postgres.sql");

/// Work that one process does at a time.
const LEASES: [&str; 3] = ["batch_exports", "persons", "cleanup"];

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "c0001_schema"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        for owner in [
            organizations::tables(),
            people::tables(),
            requests::tables(),
            plugins::tables(),
            batch_exports::tables(),
            persons::tables(),
            ingest::tables(),
        ] {
            for table in owner {
                schema.execute(&table).await?;
            }
        }
        let triggers = match schema.backend() {
            DbBackend::Postgres => TRIGGERS_IN_POSTGRES,
            _ => TRIGGERS_IN_SQLITE,
        };
        for script in [INDEXES, triggers] {
            let connection = schema.connection();
            connection.execute_unprepared(script).await?;
        }
        first_rows(schema).await
    }
}

/// Writes the rows that are there before any organization is.
async fn first_rows(schema: &Schema<'_>) -> Result<(), DbErr> {
    let mut keys = Query::insert();
    keys.into_table("catalog_versions")
        .columns(["name", "version"])
        .values_panic(["keys".into(), 0_i64.into()]);
    schema.execute(&keys).await?;
    for name in LEASES {
        let mut lease = Query::insert();
        lease
            .into_table("leases")
            .columns(["name", "holder", "lapses_at"])
            .values_panic([name.into(), Uuid::nil().into(), 0_i64.into()]);
        schema.execute(&lease).await?;
    }
    let mut progress = Query::insert();
    progress
        .into_table("person_progress")
        .columns([
            "id",
            "created_at",
            "request_id",
            "position",
            "version",
            "copied",
        ])
        .values_panic([
            1.into(),
            0_i64.into(),
            Uuid::nil().into(),
            (-1_i64).into(),
            0_i64.into(),
            0_i64.into(),
        ]);
    schema.execute(&progress).await
}
