//! E-mail domains.

use sea_orm_migration::schema::{
    big_integer, big_integer_null, boolean, pk_uuid, text, text_null, uuid,
};
use sea_orm_migration::sea_query::{
    ConditionalStatement, Expr, ExprTrait, ForeignKey, ForeignKeyAction, Index, Table,
};
use sea_orm_migration::{DbErr, MigrationName, MigrationTrait, SchemaManager, async_trait};

pub(super) struct Migration;

impl MigrationName for Migration {
    fn name(&self) -> &'static str {
        "m0007_domains"
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let mut table = Table::create();
        table
            .table("organization_domains")
            .col(pk_uuid("id"))
            .col(uuid("organization_id"))
            .col(text("domain"))
            .col(text("verification_challenge"))
            .col(big_integer_null("verified_at"))
            .col(boolean("jit_provisioning_enabled"))
            .col(text("sso_enforcement"))
            .col(text_null("saml_entity_id"))
            .col(text_null("saml_acs_url"))
            .col(text_null("saml_x509_cert"))
            .col(big_integer("created_at"))
            .col(big_integer("updated_at"))
            .foreign_key(
                ForeignKey::create()
                    .from("organization_domains", "organization_id")
                    .to("organizations", "id")
                    .on_delete(ForeignKeyAction::Cascade),
            );
        manager.create_table(table).await?;
        // A claim excludes nobody; the first proof does.
        let mut verified_once = Index::create();
        verified_once
            .name("organization_domains_verified_once")
            .table("organization_domains")
            .col("domain")
            .unique()
            .and_where(Expr::col("verified_at").is_not_null());
        manager.create_index(verified_once).await?;
        let mut claimed_once = Index::create();
        claimed_once
            .name("organization_domains_claimed_once")
            .table("organization_domains")
            .col("organization_id")
            .col("domain")
            .unique();
        manager.create_index(claimed_once).await?;
        let mut in_order = Index::create();
        in_order
            .name("organization_domains_in_order")
            .table("organization_domains")
            .col("organization_id")
            .col("created_at")
            .col("id");
        manager.create_index(in_order).await
    }
}
