//! Lease of the process that counts events by project and time.

use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::DbErr;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::Query;

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0056_stats_lease"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        let mut lease = Query::insert();
        lease
            .into_table("leases")
            .columns(["name", "holder", "lapses_at"])
            .values_panic(["stats".into(), Uuid::nil().into(), 0_i64.into()]);
        schema.execute(&lease).await
    }
}
