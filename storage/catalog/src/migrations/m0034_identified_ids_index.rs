//! Index of a person's ids in the order in which it identified them: of a person with a million
//! ids, the first ones are read without the others. It replaces the index without that order.
//!
//! All migrations are one transaction, so the index cannot be made `CONCURRENTLY` here. An operator
//! with very many ids creates it before the upgrade, while the old version works.

use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::DbErr;
use sea_orm::sea_query::Index;

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0034_identified_ids_index"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        let mut index = Index::create();
        index
            .if_not_exists()
            .name("person_distinct_ids_identified")
            .table("person_distinct_ids")
            .col("team_id")
            .col("person_id")
            .col("identified_at")
            .col("identified_by");
        schema.execute(&index).await?;
        let mut without = Index::drop();
        without
            .name("person_distinct_ids_of_person")
            .table("person_distinct_ids");
        schema.execute(&without).await
    }
}
