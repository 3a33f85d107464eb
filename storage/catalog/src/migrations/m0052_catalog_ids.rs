//! Random id of the catalog. Data folders and ClickHouse keep it, so that no server takes the rows
//! of one catalog's projects for those of another's, which have the same numbers.
//!
//! A catalog of before gets its id now. A copy of the catalog has the id of the original.

use super::columns::pk_uuid;
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::DbErr;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Query, Table};

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0052_catalog_ids"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        let mut table = Table::create();
        table.table("catalog_ids").col(pk_uuid("id"));
        schema.execute(&table).await?;
        let mut first = Query::insert();
        first
            .into_table("catalog_ids")
            .columns(["id"])
            .values_panic([Uuid::new_v4().into()]);
        schema.execute(&first).await
    }
}
