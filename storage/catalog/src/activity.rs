//! The activity log: who changed what. An entry is written in the transaction of its change, so
//! there is neither a change without an entry nor an entry without a change.
//!
//! Entries hold no secrets: keys appear as masks, the fields of destinations as names only. Nor do
//! they hold long values: of those, they tell how they begin.

use crate::actor::Actor;
use crate::catalog::Catalog;
use crate::entities::{activity_counts as counts, activity_log as log};
use crate::error::CatalogError;
use crate::page::{Page, PageRequest, part};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveEnum, ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr,
    DeriveActiveEnum, EntityTrait, EnumIter, FromJsonQueryResult, PaginatorTrait, QueryFilter,
    QueryOrder, Select,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;

/// The longest value in an entry, as JSON, in bytes; lists answer up to 1000 entries at once.
const VALUE_BYTES_MAX: usize = 1024;
/// The longest names and values of all changes in an entry together, in bytes: a source has up to
/// 200 files.
const CHANGES_BYTES_MAX: usize = 32 * 1024;

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

/// What an entry says of the change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct ActivityDetail {
    /// What people called the thing then.
    pub name: String,
    /// Which fields changed.
    pub changes: Vec<ActivityChange>,
}

impl ActivityDetail {
    /// The same with the beginnings of long values, and of a long list of changes.
    fn shortened(mut self) -> Self {
        for change in &mut self.changes {
            for value in [&mut change.before, &mut change.after] {
                if let Some(short) = beginning(value) {
                    *value = short.into();
                }
            }
        }
        let mut bytes = 0;
        let fitting = self.changes.iter().take_while(|change| {
            bytes += change.field.len() + change.before.to_string().len();
            bytes += change.after.to_string().len();
            bytes <= CHANGES_BYTES_MAX
        });
        let fitting = fitting.count();
        let rest = self.changes.split_off(fitting);
        if let Some(first) = rest.first() {
            self.changes.push(ActivityChange {
                kind: first.kind.clone(),
                action: "changed".to_owned(),
                field: "…".to_owned(),
                before: Value::Null,
                after: format!("and {} more", rest.len()).into(),
            });
        }
        self
    }
}

/// How a long value begins, with its length; of others nothing.
fn beginning(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => Cow::from(text),
        other => Cow::from(other.to_string()),
    };
    let bytes = text.len();
    if bytes <= VALUE_BYTES_MAX {
        return None;
    }
    let start = text.get(..text.floor_char_boundary(VALUE_BYTES_MAX))?;
    Some(format!("{start}… ({bytes} bytes)"))
}

/// One changed field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityChange {
    /// The scope of the entry.
    #[serde(rename = "type")]
    pub kind: String,
    /// `created`, `changed` or `deleted`.
    pub action: String,
    /// Its name in the API.
    pub field: String,
    /// Null if it was not set; the beginning of a long one, as text.
    pub before: Value,
    /// Null if it is not set any more; otherwise as `before`.
    pub after: Value,
}

/// An entry to be written.
#[derive(Clone, Debug)]
pub(crate) struct Deed {
    organization_id: Option<Uuid>,
    scope: ActivityScope,
    item_id: String,
    activity: Activity,
    detail: ActivityDetail,
}

impl Deed {
    /// `item_id` is the id in the API's paths, `name` what people call the thing.
    pub(crate) fn new(
        activity: Activity,
        scope: ActivityScope,
        organization_id: impl Into<Option<Uuid>>,
        item_id: &dyn fmt::Display,
        name: &str,
    ) -> Self {
        Self {
            organization_id: organization_id.into(),
            scope,
            item_id: item_id.to_string(),
            activity,
            detail: ActivityDetail {
                name: name.to_owned(),
                changes: Vec::new(),
            },
        }
    }

    /// Adds a field if it changed.
    pub(crate) fn field(
        mut self,
        name: &str,
        before: impl Serialize,
        after: impl Serialize,
    ) -> Self {
        let before = serde_json::to_value(before).unwrap_or_default();
        let after = serde_json::to_value(after).unwrap_or_default();
        if before != after {
            let action = match (before.is_null(), after.is_null()) {
                (true, _) => "created",
                (_, true) => "deleted",
                _ => "changed",
            };
            self.detail.changes.push(ActivityChange {
                kind: self.scope.name(),
                action: action.to_owned(),
                field: name.to_owned(),
                before,
                after,
            });
        }
        self
    }

    /// Whether no field changed: then nothing needs writing, neither row nor entry.
    pub(crate) fn changes_nothing(&self) -> bool {
        self.detail.changes.is_empty()
    }

    /// The same deed as one of several organizations sees it: of lists of organizations only
    /// whether it is among them.
    pub(crate) fn seen_by(&self, organization_id: Option<Uuid>) -> Self {
        let mut seen = self.clone();
        seen.organization_id = organization_id;
        let Some(own) = organization_id.map(|id| Value::from(id.to_string())) else {
            return seen;
        };
        for change in &mut seen.detail.changes {
            if change.field == "scoped_organizations" {
                for side in [&mut change.before, &mut change.after] {
                    if let Value::Array(ids) = side {
                        ids.retain(|id| *id == own);
                    }
                }
            }
        }
        seen
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn long_values_are_told_by_their_beginnings() {
        let letters = |letter: &str, count: usize| letter.repeat(count);
        let table = [
            (json!(null), None),
            (json!(true), None),
            (json!(letters("a", 1024)), None),
            (json!([letters("a", 1020)]), None),
            (
                json!(letters("a", 1025)),
                Some(format!("{}… (1025 bytes)", letters("a", 1024))),
            ),
            (
                json!(format!("a{}", letters("ü", 512))),
                Some(format!("a{}… (1025 bytes)", letters("ü", 511))),
            ),
            (
                json!([letters("a", 2000)]),
                Some(format!("[\"{}… (2004 bytes)", letters("a", 1022))),
            ),
        ];
        for (value, expected) in table {
            assert_eq!(beginning(&value), expected);
        }
    }
}
