//! Old entries of the activity log, where an operator keeps them for a number of days only.

use super::{Cleanup, ENTRIES_MAX};
use crate::activity::ActivityScope;
use crate::database_clock::micros;
use crate::entities::{activity_counts as counts, activity_log as log};
use crate::error::ChangeError;
use crate::time::UtcTime;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait};
use sea_orm::{
    ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait,
};
use std::time::Duration;

/// Organization and scope whose entries one row counts. `None`: entries of no organization, which
/// are not counted.
type ScopeInOrganization = (Option<Uuid>, ActivityScope);

impl Cleanup<'_> {
    /// Deletes a piece of the entries that are older than `kept`: at most 250, of one organization
    /// and scope. Answers how many; 0: there are none.
    ///
    /// # Errors
    ///
    /// Any database error; then nothing was deleted.
    pub async fn prune_activity(self, kept: Duration) -> Result<u64, ChangeError> {
        let until = self.0.now().plus_micros(micros(kept).saturating_neg());
        let found = self.old_activity(until).await;
        // Without old entries no transaction is begun, and nothing is locked.
        let Some(which) = found.map_err(|error| self.0.error(&error))? else {
            return Ok(0);
        };
        let transaction = self.0.begin().await?;
        let forgotten = delete_entries(&transaction, which, until).await;
        self.0
            .finish(transaction, forgotten.map_err(Into::into))
            .await
    }

    /// Finds an old entry among the first of all, which are in the order of their ids, that is of
    /// writing: so the rest of the log is not read.
    async fn old_activity(self, until: UtcTime) -> Result<Option<ScopeInOrganization>, DbErr> {
        let first: Vec<(Option<Uuid>, ActivityScope, UtcTime)> = log::Entity::find()
            .select_only()
            .columns([
                log::Column::OrganizationId,
                log::Column::Scope,
                log::Column::CreatedAt,
            ])
            .order_by_asc(log::Column::Id)
            .limit(ENTRIES_MAX)
            .into_tuple()
            .all(&self.0.db)
            .await?;
        let mut old = first.into_iter().filter(|(.., at)| *at < until);
        Ok(old
            .next()
            .map(|(organization, scope, _)| (organization, scope)))
    }
}

/// Deletes entries and lowers their count. The count is written last, as by writers of entries, and
/// it locks one row only: so neither waits for the other.
async fn delete_entries(
    within: &DatabaseTransaction,
    (organization, scope): ScopeInOrganization,
    until: UtcTime,
) -> Result<u64, DbErr> {
    let oldest = log::Entity::find()
        .select_only()
        .column(log::Column::Id)
        .filter(of_organization(organization))
        .filter(log::Column::Scope.eq(scope))
        .filter(log::Column::CreatedAt.lt(until))
        .order_by_asc(log::Column::CreatedAt)
        .limit(ENTRIES_MAX)
        .into_query();
    let gone = log::Entity::delete_many()
        .filter(log::Column::Id.in_subquery(oldest))
        .exec(within)
        .await?
        .rows_affected;
    let Some(organization) = organization else {
        return Ok(gone);
    };
    let entries = counts::Column::Entries;
    let less = Expr::col(entries).sub(i64::try_from(gone).unwrap_or(i64::MAX));
    counts::Entity::update_many()
        .col_expr(entries, less)
        .filter(counts::Column::OrganizationId.eq(organization))
        .filter(counts::Column::Scope.eq(scope))
        .exec(within)
        .await?;
    Ok(gone)
}

fn of_organization(id: Option<Uuid>) -> Expr {
    match id {
        Some(id) => log::Column::OrganizationId.eq(id),
        None => log::Column::OrganizationId.is_null(),
    }
}
