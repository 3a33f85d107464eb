//! Proxy records as claims, like domains: every organization may have one for a domain, and a
//! domain is unique only among records whose checks prove it. A claim without proof blocks nobody
//! else.
//!
//! Until now the column was unique, so existing rows keep both rules. SQLite cannot drop that from
//! a column: there the table is made anew.

use super::columns::{big_integer, big_integer_null, pk_uuid, text, text_null, uuid};
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::sea_query::{
    ConditionalStatement, Expr, ExprTrait, ForeignKey, ForeignKeyAction, Index, Table,
    TableCreateStatement,
};
use sea_orm::{ConnectionTrait, DbBackend, DbErr};

const COLUMNS: &str = "id, organization_id, domain, target_cname, status, message, created_by, \
     created_at, updated_at, check_at";

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0039_proxy_claims"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        let db = schema.connection();
        if schema.backend() == DbBackend::Postgres {
            let drop = "ALTER TABLE proxy_records DROP CONSTRAINT proxy_records_domain_key";
            db.execute_unprepared(drop).await?;
        } else {
            remake(schema).await?;
        }
        // The first record whose check succeeds has the domain while it stays so.
        let mut proven_once = Index::create();
        proven_once
            .name("proxy_records_proven_once")
            .table("proxy_records")
            .col("domain")
            .unique()
            .and_where(Expr::col("status").is_in(["valid", "warning"]));
        schema.execute(&proven_once).await?;
        let mut claimed_once = Index::create();
        claimed_once
            .name("proxy_records_claimed_once")
            .table("proxy_records")
            .col("organization_id")
            .col("domain")
            .unique();
        schema.execute(&claimed_once).await
    }
}

async fn remake(schema: &Schema<'_>) -> Result<(), DbErr> {
    let db = schema.connection();
    db.execute_unprepared("ALTER TABLE proxy_records RENAME TO proxy_records_before")
        .await?;
    schema.execute(&table()).await?;
    let copy =
        format!("INSERT INTO proxy_records ({COLUMNS}) SELECT {COLUMNS} FROM proxy_records_before");
    db.execute_unprepared(&copy).await?;
    // Its indexes are dropped with it, so that those of the new one can have their names.
    db.execute_unprepared("DROP TABLE proxy_records_before")
        .await?;
    let mut of_organization = Index::create();
    of_organization
        .name("proxy_records_of_organization")
        .table("proxy_records")
        .col("organization_id")
        .col("created_at")
        .col("id");
    schema.execute(&of_organization).await?;
    let mut due = Index::create();
    due.name("proxy_records_due")
        .table("proxy_records")
        .col("check_at");
    schema.execute(&due).await
}

fn table() -> TableCreateStatement {
    let mut table = Table::create();
    table
        .table("proxy_records")
        .col(pk_uuid("id"))
        .col(uuid("organization_id"))
        .col(text("domain"))
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
    table.to_owned()
}
