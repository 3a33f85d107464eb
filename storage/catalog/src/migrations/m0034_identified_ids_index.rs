//! Index of a person's ids in the order in which it identified them: of a person with a million
//! ids, the first ones are read without the others. It replaces the index without that order.
//!
//! All migrations are one transaction, so the index cannot be made `CONCURRENTLY` here. An operator
//! with very many ids creates it before the upgrade, while the old version works.

use sea_orm_migration::sea_query::Index;
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0034_identified_ids_index"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut index = Index::create();
        index
            .if_not_exists()
            .name("person_distinct_ids_identified")
            .table("person_distinct_ids")
            .col("team_id")
            .col("person_id")
            .col("identified_at")
            .col("identified_by");
        manager.create_index(index).await?;
        let mut without = Index::drop();
        without
            .name("person_distinct_ids_of_person")
            .table("person_distinct_ids");
        manager.drop_index(without).await
    }
}
