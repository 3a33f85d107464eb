//! Reading the activity log.

use millrace_catalog::entities::{activity_counts as counts, activity_log as log};
use millrace_catalog::page::part;
use millrace_catalog::{ActivityScope, Catalog, CatalogError, Page, PageRequest};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder,
    Select,
};
use std::cmp::Reverse;

/// Filter of entries.
#[derive(Clone, Debug)]
pub struct ActivityFilter {
    /// Organization whose entries are listed.
    pub organization_id: Uuid,
    /// Kinds of resources; empty: all.
    pub scopes: Vec<ActivityScope>,
    /// Id of a single resource.
    pub item_id: Option<String>,
}

/// Activity log of organizations.
#[derive(Clone, Copy, Debug)]
pub struct ActivityLog<'a>(&'a Catalog);

impl<'a> ActivityLog<'a> {
    /// Returns a handle to the activity log in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

impl ActivityLog<'_> {
    /// Lists the entries of an organization, newest first.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list(
        self,
        filter: &ActivityFilter,
        page: PageRequest,
    ) -> Result<Page<log::Model>, CatalogError> {
        let query = filtered(filter);
        let read = async {
            let count = match filter.item_id {
                Some(_) => query.clone().count(self.0.reader()).await?,
                None => counted(self.0.reader(), filter).await?,
            };
            let newest = query
                .order_by_desc(log::Column::CreatedAt)
                .order_by_desc(log::Column::Id);
            let part = part(newest, log::Column::Id, page);
            let mut rows = part.all(self.0.reader()).await?;
            rows.sort_by_key(|entry| Reverse((entry.created_at, entry.id)));
            Ok(Page { count, rows })
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }
}

fn filtered(filter: &ActivityFilter) -> Select<log::Entity> {
    let mut query =
        log::Entity::find().filter(log::Column::OrganizationId.eq(filter.organization_id));
    if !filter.scopes.is_empty() {
        query = query.filter(log::Column::Scope.is_in(filter.scopes.iter().copied()));
    }
    if let Some(item_id) = &filter.item_id {
        query = query.filter(log::Column::ItemId.eq(item_id.as_str()));
    }
    query
}

/// Number of entries with the filter's scopes, from the maintained counts; `item_id` is ignored.
async fn counted<C: ConnectionTrait>(db: &C, filter: &ActivityFilter) -> Result<u64, DbErr> {
    let wanted = |scope| filter.scopes.is_empty() || filter.scopes.contains(&scope);
    let counts = counts::Entity::find()
        .filter(counts::Column::OrganizationId.eq(filter.organization_id))
        .all(db)
        .await?;
    let counts = counts.iter().filter(|count| wanted(count.scope));
    Ok(counts.map(|count| count.entries.unsigned_abs()).sum())
}
