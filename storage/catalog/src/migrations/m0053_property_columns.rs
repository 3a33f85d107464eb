//! Property columns of projects and of all of them, and the lease of the process that makes them in
//! ClickHouse.

use super::columns::{big_integer, big_integer_null, big_pk_auto, integer_null, json, text};
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::DbErr;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{ForeignKey, ForeignKeyAction, Query, Table};

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0053_property_columns"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        let mut of_project = ForeignKey::create()
            .from("property_columns", "team_id")
            .to("projects", "id")
            .on_delete(ForeignKeyAction::Cascade)
            .take();
        let mut table = Table::create();
        table
            .table("property_columns")
            .col(big_pk_auto("id"))
            .col(big_integer_null("team_id"))
            .col(json("path"))
            .col(text("kind"))
            .col(integer_null("bytes_max"))
            .col(big_integer("created_at"))
            .col(big_integer_null("added_at"))
            .foreign_key(&mut of_project);
        schema.execute(&table).await?;
        let mut lease = Query::insert();
        lease
            .into_table("leases")
            .columns(["name", "holder", "lapses_at"])
            .values_panic(["property_columns".into(), Uuid::nil().into(), 0_i64.into()]);
        schema.execute(&lease).await
    }
}
