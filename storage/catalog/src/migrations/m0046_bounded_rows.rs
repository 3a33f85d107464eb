//! Counted bytes of stored responses, by which users and organizations are bounded; indexes of keys
//! by their end; users who have nothing any more, and indexes of what refers to users.
//!
//! The indexes of keys leave out keys without an end: by an index with all of them, SQLite would
//! read everybody's to find those of one user that are not revoked.

use sea_orm_migration::schema::{big_integer, text};
use sea_orm_migration::sea_query::{
    ConditionalStatement, Expr, ExprTrait, ForeignKey, ForeignKeyAction, Index, Table,
};
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
        response_bytes(manager).await?;
        ends_of_keys(manager).await?;
        unused_users(manager).await
    }
}

async fn response_bytes(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let mut counts = Table::create();
    counts
        .table("idempotency_bytes")
        .col(text("holder"))
        .col(big_integer("hour"))
        .col(big_integer("bytes"))
        .primary_key(Index::create().col("holder").col("hour"));
    manager.create_table(counts).await
}

async fn ends_of_keys(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    for (name, column) in [
        ("personal_api_keys_revoked", "revoked_at"),
        ("personal_api_keys_expiring", "expires_at"),
    ] {
        let mut index = Index::create();
        index
            .name(name)
            .table("personal_api_keys")
            .col(column)
            .and_where(Expr::col(column).is_not_null());
        manager.create_index(index).await?;
    }
    Ok(())
}

async fn unused_users(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
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
    for (name, table, column) in [
        (
            "organization_invites_by_address",
            "organization_invites",
            "email_key",
        ),
        ("proxy_records_of_maker", "proxy_records", "created_by"),
    ] {
        let mut index = Index::create();
        index.name(name).table(table).col(column);
        manager.create_index(index).await?;
    }
    Ok(())
}
