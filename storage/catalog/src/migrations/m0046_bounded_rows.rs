//! Counted bytes of stored responses, by which users and organizations are bounded; indexes of keys
//! by their end; users who have nothing any more, and indexes of what refers to users.
//!
//! The indexes of keys leave out keys without an end: by an index with all of them, SQLite would
//! read everybody's to find those of one user that are not revoked.

use super::columns::{big_integer, text};
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::DbErr;
use sea_orm::sea_query::{
    ConditionalStatement, Expr, ExprTrait, ForeignKey, ForeignKeyAction, Index, Table,
};

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0046_bounded_rows"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        response_bytes(schema).await?;
        ends_of_keys(schema).await?;
        unused_users(schema).await
    }
}

async fn response_bytes(schema: &Schema<'_>) -> Result<(), DbErr> {
    let mut counts = Table::create();
    counts
        .table("idempotency_bytes")
        .col(text("holder"))
        .col(big_integer("hour"))
        .col(big_integer("bytes"))
        .primary_key(Index::create().col("holder").col("hour"));
    schema.execute(&counts).await
}

async fn ends_of_keys(schema: &Schema<'_>) -> Result<(), DbErr> {
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
        schema.execute(&index).await?;
    }
    Ok(())
}

async fn unused_users(schema: &Schema<'_>) -> Result<(), DbErr> {
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
    schema.execute(&unused).await?;
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
        schema.execute(&index).await?;
    }
    Ok(())
}
