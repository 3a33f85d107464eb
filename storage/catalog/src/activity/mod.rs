//! The activity log: who changed what. An entry is written in the transaction of its change, so
//! there is neither a change without an entry nor an entry without a change.
//!
//! `deed` holds what an entry says.

mod deed;

pub(crate) use deed::Deed;
pub use deed::{ActivityChange, ActivityDetail};

use crate::actor::Actor;
use crate::catalog::Catalog;
use crate::entities::{activity_counts as counts, activity_log as log};
use crate::error::CatalogError;
use crate::page::{Page, PageRequest, part};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveEnum, ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr,
    DeriveActiveEnum, EntityTrait, EnumIter, PaginatorTrait, QueryFilter, QueryOrder, Select,
};
use std::cmp::Reverse;

/// What kind of thing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
#[allow(missing_docs, reason = "named after what they are")]
pub enum ActivityScope {
    #[sea_orm(string_value = "Organization")]
    Organization,
    #[sea_orm(string_value = "OrganizationMembership")]
    Membership,
    #[sea_orm(string_value = "OrganizationInvite")]
    Invite,
    #[sea_orm(string_value = "OrganizationDomain")]
    Domain,
    #[sea_orm(string_value = "Project")]
    Project,
    #[sea_orm(string_value = "PersonalAPIKey")]
    PersonalKey,
    #[sea_orm(string_value = "Role")]
    Role,
    #[sea_orm(string_value = "ProxyRecord")]
    ProxyRecord,
    #[sea_orm(string_value = "BatchExport")]
    BatchExport,
    #[sea_orm(string_value = "Plugin")]
    Plugin,
    #[sea_orm(string_value = "PluginConfig")]
    PluginConfig,
    #[sea_orm(string_value = "HistoricalMigration")]
    HistoricalMigration,
}

impl ActivityScope {
    /// The name that tables and the API use.
    #[must_use]
    pub fn name(self) -> String {
        self.to_value()
    }

    /// The scope of a name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::try_from_value(&name.to_owned()).ok()
    }
}

/// What was done to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[allow(missing_docs, reason = "named after what they are")]
pub enum Activity {
    Created,
    Updated,
    Deleted,
    Installed,
    Uninstalled,
    Enabled,
    Disabled,
    ConfigUpdated,
}

impl Activity {
    /// The name that tables and the API use.
    #[must_use]
    pub fn name(self) -> String {
        self.to_value()
    }
}

/// Which entries are wanted.
#[derive(Clone, Debug)]
pub struct ActivityFilter {
    /// Of which organization.
    pub organization_id: Uuid,
    /// Of these kinds only; none: all.
    pub scopes: Vec<ActivityScope>,
    /// Of this thing only.
    pub item_id: Option<String>,
}

impl Catalog {
    /// The entries of an organization, newest first.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn list_activity(
        &self,
        filter: &ActivityFilter,
        page: PageRequest,
    ) -> Result<Page<log::Model>, CatalogError> {
        let query = filtered(filter);
        let read = async {
            let count = match filter.item_id {
                Some(_) => query.clone().count(&self.db).await?,
                None => counted(&self.db, filter).await?,
            };
            let newest = query
                .order_by_desc(log::Column::CreatedAt)
                .order_by_desc(log::Column::Id);
            let part = part(newest, log::Column::Id, page);
            let mut rows = part.all(&self.db).await?;
            rows.sort_by_key(|entry| Reverse((entry.created_at, entry.id)));
            Ok(Page { count, rows })
        };
        read.await.map_err(|error: DbErr| self.error(&error))
    }

    /// Writes an entry within the transaction of its change.
    pub(crate) async fn record(
        &self,
        within: &DatabaseTransaction,
        actor: &Actor,
        deed: Deed,
    ) -> Result<(), DbErr> {
        let row = log::ActiveModel {
            id: ActiveValue::Set(Uuid::now_v7()),
            organization_id: ActiveValue::Set(deed.organization_id),
            user_id: ActiveValue::Set(actor.user_id()),
            key_id: ActiveValue::Set(actor.key_id()),
            actor_name: ActiveValue::Set(actor.name().to_owned()),
            actor_email: ActiveValue::Set(actor.email().map(str::to_owned)),
            activity: ActiveValue::Set(deed.activity),
            scope: ActiveValue::Set(deed.scope),
            item_id: ActiveValue::Set(deed.item_id),
            detail: ActiveValue::Set(deed.detail.shortened()),
            created_at: ActiveValue::Set(self.now()),
        };
        log::Entity::insert(row)
            .exec_without_returning(within)
            .await
            .map(drop)
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

/// How many entries there are of the scopes of a filter; its thing is not looked at.
async fn counted<C: ConnectionTrait>(db: &C, filter: &ActivityFilter) -> Result<u64, DbErr> {
    let wanted = |scope| filter.scopes.is_empty() || filter.scopes.contains(&scope);
    let counts = counts::Entity::find()
        .filter(counts::Column::OrganizationId.eq(filter.organization_id))
        .all(db)
        .await?;
    let counts = counts.iter().filter(|count| wanted(count.scope));
    Ok(counts.map(|count| count.entries.unsigned_abs()).sum())
}
