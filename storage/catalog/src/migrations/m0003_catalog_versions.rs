//! Counters by which processes notice each other's changes.

use sea_orm_migration::schema::big_integer;
use sea_orm_migration::sea_query::ColumnDef;
use sea_orm_migration::sea_query::{Query, Table};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0003_catalog_versions"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut table = Table::create();
        table
            .table("catalog_versions")
            .col(ColumnDef::new("name").text().not_null().primary_key())
            .col(big_integer("version"));
        manager.create_table(table).await?;
        let mut keys = Query::insert();
        keys.into_table("catalog_versions")
            .columns(["name", "version"])
            .values_panic(["keys".into(), 0_i64.into()]);
        manager.execute(keys).await
    }
}
