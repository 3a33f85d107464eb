//! Normal form of existing e-mail addresses.
//!
//! Only addresses with letters outside ASCII can be written in several forms. Where two users, or
//! two invites of an organization, have one mailbox in two forms, the one that is in normal form
//! stays in it, or else the older one gets it; the other one stays as it is.

use super::runner::{Migrate, Schema};
use crate::email::Email;
use async_trait::async_trait;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait, Order, Query};
use sea_orm::{ConnectionTrait, DbErr};
use std::collections::HashSet;

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0040_email_forms"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        users(schema).await?;
        invites(schema).await
    }
}

async fn users(schema: &Schema<'_>) -> Result<(), DbErr> {
    let mut all = Query::select();
    all.columns(["id", "email"])
        .from("users")
        .order_by("id", Order::Asc);
    let rows = schema.connection().query_all(&all).await?;
    let mut users: Vec<(i64, String)> = Vec::new();
    for row in rows {
        users.push((row.try_get("", "id")?, row.try_get("", "email")?));
    }
    let mut taken: HashSet<String> = users.iter().map(|(_, email)| email.clone()).collect();
    for (id, email) in users {
        let key = Email::key_of(&email);
        if email.is_ascii() || key == email || !taken.insert(key.clone()) {
            continue;
        }
        let mut update = Query::update();
        update
            .table("users")
            .value("email", key)
            .and_where(Expr::col("id").eq(id));
        schema.execute(&update).await?;
    }
    Ok(())
}

async fn invites(schema: &Schema<'_>) -> Result<(), DbErr> {
    let mut all = Query::select();
    all.columns(["id", "organization_id", "target_email", "email_key"])
        .from("organization_invites")
        .order_by("created_at", Order::Asc);
    let rows = schema.connection().query_all(&all).await?;
    let mut invites: Vec<(Uuid, Uuid, String, String)> = Vec::new();
    for row in rows {
        invites.push((
            row.try_get("", "id")?,
            row.try_get("", "organization_id")?,
            row.try_get("", "target_email")?,
            row.try_get("", "email_key")?,
        ));
    }
    let mut taken: HashSet<(Uuid, String)> = HashSet::new();
    taken.extend(invites.iter().map(|(_, of, _, key)| (*of, key.clone())));
    for (id, organization_id, target, before) in invites {
        // The mail went to the other address with this ASCII key: it proves nothing, and stays.
        let Some(email) = Email::parse(&target) else {
            continue;
        };
        if before.is_ascii() || email.key == before {
            continue;
        }
        if !taken.insert((organization_id, email.key.clone())) {
            continue;
        }
        // A mail to another form before the `@` proves nothing of this one.
        let local = |text: &str| text.rsplit_once('@').map(|(local, _)| local.to_owned());
        let is_same = local(&target) == local(&email.mailbox);
        let target = if is_same { email.mailbox } else { target };
        let mut update = Query::update();
        update
            .table("organization_invites")
            .values([
                ("email_key", email.key.into()),
                ("target_email", target.into()),
            ])
            .and_where(Expr::col("id").eq(id));
        schema.execute(&update).await?;
    }
    Ok(())
}
