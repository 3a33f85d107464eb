//! Time until which no run of an export is claimed, as what a cancelled one delivered may still be
//! taken back.

use super::columns::big_integer;
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::DbErr;
use sea_orm::sea_query::Table;

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0049_export_holds"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        let mut exports = Table::alter();
        exports
            .table("batch_exports")
            .add_column(big_integer("busy_until").default(0));
        schema.execute(&exports).await
    }
}
