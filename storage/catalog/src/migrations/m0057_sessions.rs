//! Sessions of people, and the links by which they sign in. Their tokens are kept as hashes only.

use super::columns::{big_integer, pk_uuid, text, text_uniq};
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::DbErr;
use sea_orm::sea_query::{
    ForeignKey, ForeignKeyAction, ForeignKeyCreateStatement, Index, Table, TableCreateStatement,
};

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0057_sessions"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        schema.execute(&sign_in_links()).await?;
        schema.execute(&sessions()).await?;
        for (name, table) in [
            ("sign_in_links_of_user", "sign_in_links"),
            ("sessions_of_user", "sessions"),
        ] {
            let mut index = Index::create();
            index.name(name).table(table).col("user_id");
            schema.execute(&index).await?;
        }
        Ok(())
    }
}

fn sign_in_links() -> TableCreateStatement {
    Table::create()
        .table("sign_in_links")
        .col(pk_uuid("id"))
        .col(big_integer("user_id"))
        .col(text_uniq("token_hash"))
        .col(text("method"))
        .col(big_integer("created_at"))
        .col(big_integer("expires_at"))
        .foreign_key(&mut of_user("sign_in_links"))
        .take()
}

fn sessions() -> TableCreateStatement {
    Table::create()
        .table("sessions")
        .col(pk_uuid("id"))
        .col(big_integer("user_id"))
        .col(text_uniq("token_hash"))
        .col(text("method"))
        .col(text("user_agent"))
        .col(big_integer("created_at"))
        .col(big_integer("last_used_at"))
        .col(big_integer("expires_at"))
        .foreign_key(&mut of_user("sessions"))
        .take()
}

/// Foreign key to the user, who takes the row along.
fn of_user(table: &'static str) -> ForeignKeyCreateStatement {
    ForeignKey::create()
        .from(table, "user_id")
        .to("users", "id")
        .on_delete(ForeignKeyAction::Cascade)
        .take()
}
