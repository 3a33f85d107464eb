//! Persons, their distinct ids, groups, and the progress of applying updates to them.
//!
//! `version` is the number of the step that changed a row last: rows with a higher one than was
//! copied to ClickHouse are still to be copied.

use sea_orm::prelude::Uuid;
use sea_orm_migration::schema::{
    big_integer, big_integer_null, boolean, integer, small_integer, text, uuid,
};
use sea_orm_migration::sea_query::{
    ForeignKey, ForeignKeyAction, ForeignKeyCreateStatement, Index, Query, Table,
};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0022_persons"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        persons(manager).await?;
        groups(manager).await?;
        for (name, table, columns) in [
            (
                "persons_changed",
                "persons",
                &["version", "team_id", "id"][..],
            ),
            (
                "person_distinct_ids_changed",
                "person_distinct_ids",
                &["version", "team_id", "distinct_id"],
            ),
            (
                "groups_changed",
                "groups",
                &["version", "team_id", "group_type", "group_key"],
            ),
            (
                "person_distinct_ids_of_person",
                "person_distinct_ids",
                &["team_id", "person_id"],
            ),
        ] {
            let mut index = Index::create();
            index.name(name).table(table);
            for column in columns {
                index.col(*column);
            }
            manager.create_index(index).await?;
        }
        progress(manager).await
    }
}

async fn persons(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut persons = Table::create();
    persons
        .table("persons")
        .col(big_integer("team_id"))
        .col(uuid("id"))
        .col(big_integer("created_at"))
        .col(boolean("is_identified"))
        .col(boolean("is_deleted"))
        .col(text("properties"))
        .col(big_integer("version"))
        .primary_key(Index::create().col("team_id").col("id"))
        .foreign_key(&mut below_project("persons"));
    manager.create_table(persons).await?;
    let mut ids = Table::create();
    ids.table("person_distinct_ids")
        .col(big_integer("team_id"))
        .col(text("distinct_id"))
        .col(uuid("person_id"))
        .col(big_integer("version"))
        .primary_key(Index::create().col("team_id").col("distinct_id"))
        .foreign_key(&mut below_project("person_distinct_ids"));
    manager.create_table(ids).await
}

async fn groups(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut types = Table::create();
    types
        .table("group_types")
        .col(big_integer("team_id"))
        .col(text("name"))
        .col(small_integer("position"))
        .primary_key(Index::create().col("team_id").col("name"))
        .foreign_key(&mut below_project("group_types"));
    manager.create_table(types).await?;
    let mut groups = Table::create();
    groups
        .table("groups")
        .col(big_integer("team_id"))
        .col(text("group_type"))
        .col(text("group_key"))
        .col(big_integer("created_at"))
        .col(text("properties"))
        .col(big_integer("version"))
        .primary_key(
            Index::create()
                .col("team_id")
                .col("group_type")
                .col("group_key"),
        )
        .foreign_key(&mut below_project("groups"));
    manager.create_table(groups).await
}

/// Foreign key to the project, which deletes its rows with it.
fn below_project(table: &'static str) -> ForeignKeyCreateStatement {
    ForeignKey::create()
        .name(format!("fk_{table}_team_id"))
        .from(table, "team_id")
        .to("projects", "id")
        .on_delete(ForeignKeyAction::Cascade)
        .take()
}

/// Creates the only row of progress.
async fn progress(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut table = Table::create();
    table
        .table("person_progress")
        .col(integer("id").primary_key())
        .col(big_integer("created_at"))
        .col(uuid("request_id"))
        .col(big_integer("position"))
        .col(big_integer("version"))
        .col(big_integer("copied"))
        .col(big_integer_null("passed"));
    manager.create_table(table).await?;
    let mut first = Query::insert();
    first
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
    manager.execute(first).await?;
    let mut lease = Query::insert();
    lease
        .into_table("leases")
        .columns(["name", "holder", "lapses_at"])
        .values_panic(["persons".into(), Uuid::nil().into(), 0_i64.into()]);
    manager.execute(lease).await
}
