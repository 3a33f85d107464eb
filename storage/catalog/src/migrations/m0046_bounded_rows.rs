//! Counts of the bytes of stored responses, and users who have nothing any more since some time.
//! Both bound rows that were kept however many there were.
//!
//! Also indexes to find revoked keys by their age and invites by their address.

use sea_orm_migration::schema::{big_integer, text};
use sea_orm_migration::sea_query::{ForeignKey, ForeignKeyAction, Index, Table};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0046_bounded_rows"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut counts = Table::create();
        counts
            .table("idempotency_bytes")
            .col(text("holder"))
            .col(big_integer("hour"))
            .col(big_integer("bytes"))
            .primary_key(Index::create().col("holder").col("hour"));
        manager.create_table(counts).await?;
        let mut unused = Table::create();
        unused
            .table("unused_users")
            .col(big_integer("user_id").primary_key())
            .col(big_integer("since"))
            .foreign_key(
                ForeignKey::create()
                    .from("unused_users", "user_id")
                    .to("users", "id")
                    .on_delete(ForeignKeyAction::Cascade),
            );
        manager.create_table(unused).await?;
        let mut by_revocation = Index::create();
        by_revocation
            .name("personal_api_keys_by_revocation")
            .table("personal_api_keys")
            .col("revoked_at");
        manager.create_index(by_revocation).await?;
        let mut by_address = Index::create();
        by_address
            .name("organization_invites_by_address")
            .table("organization_invites")
            .col("email_key");
        manager.create_index(by_address).await
    }
}
