//! Domains of reverse proxies.

use sea_orm_migration::schema::{
    big_integer, big_integer_null, pk_uuid, text, text_null, text_uniq, uuid,
};
use sea_orm_migration::sea_query::{ForeignKey, ForeignKeyAction, Index, Table};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0011_proxy_records"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut table = Table::create();
        table
            .table("proxy_records")
            .col(pk_uuid("id"))
            .col(uuid("organization_id"))
            .col(text_uniq("domain"))
            .col(text("target_cname"))
            .col(text("status"))
            .col(text_null("message"))
            .col(big_integer_null("created_by"))
            .col(big_integer("created_at"))
            .col(big_integer("updated_at"))
            .col(big_integer("check_at"))
            .foreign_key(
                ForeignKey::create()
                    .from("proxy_records", "organization_id")
                    .to("organizations", "id")
                    .on_delete(ForeignKeyAction::Cascade),
            )
            .foreign_key(
                ForeignKey::create()
                    .from("proxy_records", "created_by")
                    .to("users", "id")
                    .on_delete(ForeignKeyAction::SetNull),
            );
        manager.create_table(table).await?;
        let mut of_organization = Index::create();
        of_organization
            .name("proxy_records_of_organization")
            .table("proxy_records")
            .col("organization_id")
            .col("created_at")
            .col("id");
        manager.create_index(of_organization).await?;
        let mut due = Index::create();
        due.name("proxy_records_due")
            .table("proxy_records")
            .col("check_at");
        manager.create_index(due).await
    }
}
