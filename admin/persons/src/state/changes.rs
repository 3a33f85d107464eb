//! Changes since the last copy to ClickHouse, page by page.
//!
//! A row has the number of the step that changed it last. Only the deletion of a project removes
//! rows meanwhile, and pages begin behind the last row, so none is missed.

use super::PersonStore;
use super::device_properties::with_device_properties;
use super::registers::Registers;
use millrace_catalog::entities::{deleted_projects, groups, person_distinct_ids as ids, persons};
use millrace_catalog::{CatalogError, UtcTime};
use sea_orm::sea_query::{Expr, ExprTrait, SelectStatement, SimpleExpr};
use sea_orm::{
    ColumnTrait, DbErr, EntityTrait, IntoSimpleExpr, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait, Value,
};
use uuid::Uuid;

/// Person as ClickHouse stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after their columns")]
pub struct ChangedPerson {
    pub team_id: i64,
    pub id: Uuid,
    pub created_at: UtcTime,
    /// JSON object.
    pub properties: String,
    pub is_identified: bool,
    pub is_deleted: bool,
    pub version: i64,
}

/// Distinct id as ClickHouse stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after their columns")]
pub struct ChangedId {
    pub team_id: i64,
    pub distinct_id: String,
    pub person_id: Uuid,
    pub version: i64,
}

/// Group as ClickHouse stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after their columns")]
pub struct ChangedGroup {
    pub team_id: i64,
    pub group_type: String,
    pub group_key: String,
    pub created_at: UtcTime,
    /// JSON object.
    pub properties: String,
    pub version: i64,
}

impl PersonStore<'_> {
    /// Lists persons that a later step than this one changed, those behind `after` in the order of
    /// steps.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn changed_persons(
        self,
        copied: i64,
        after: Option<&ChangedPerson>,
        count_max: u64,
    ) -> Result<Vec<ChangedPerson>, CatalogError> {
        use persons::Column::{Id, TeamId, Version};
        let mut query = persons::Entity::find()
            .filter(Version.gt(copied))
            .filter(TeamId.not_in_subquery(deleted()));
        if let Some(last) = after {
            query = query.filter(behind(vec![
                (Version, last.version.into()),
                (TeamId, last.team_id.into()),
                (Id, last.id.into()),
            ]));
        }
        for column in [Version, TeamId, Id] {
            query = query.order_by_asc(column);
        }
        let rows = query.limit(count_max).all(self.0.reader()).await;
        let rows = rows.map_err(|error| self.0.error(&error))?;
        let shown = with_device_properties(self.0.reader(), rows).await;
        let shown = shown.map_err(|error| self.0.error(&error))?;
        let changed = shown.into_iter().map(|(row, properties)| ChangedPerson {
            team_id: row.team_id,
            id: row.id,
            created_at: row.created_at,
            properties: properties.registers.to_json(),
            is_identified: row.is_identified,
            is_deleted: row.is_deleted,
            version: row.version,
        });
        Ok(changed.collect())
    }

    /// Lists distinct ids that a later step than this one changed, those behind `after`.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn changed_ids(
        self,
        copied: i64,
        after: Option<&ChangedId>,
        count_max: u64,
    ) -> Result<Vec<ChangedId>, CatalogError> {
        use ids::Column::{DistinctId, TeamId, Version};
        let mut query = ids::Entity::find()
            .filter(Version.gt(copied))
            .filter(TeamId.not_in_subquery(deleted()));
        if let Some(last) = after {
            query = query.filter(behind(vec![
                (Version, last.version.into()),
                (TeamId, last.team_id.into()),
                (DistinctId, last.distinct_id.clone().into()),
            ]));
        }
        for column in [Version, TeamId, DistinctId] {
            query = query.order_by_asc(column);
        }
        let rows = query.limit(count_max).all(self.0.reader()).await;
        let rows = rows.map_err(|error| self.0.error(&error))?;
        let changed = rows.into_iter().map(|row| ChangedId {
            team_id: row.team_id,
            distinct_id: row.distinct_id,
            person_id: row.person_id,
            version: row.version,
        });
        Ok(changed.collect())
    }

    /// Lists groups that a later step than this one changed, those behind `after`.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn changed_groups(
        self,
        copied: i64,
        after: Option<&ChangedGroup>,
        count_max: u64,
    ) -> Result<Vec<ChangedGroup>, CatalogError> {
        use groups::Column::{GroupKey, GroupType, TeamId, Version};
        let mut query = groups::Entity::find()
            .filter(Version.gt(copied))
            .filter(TeamId.not_in_subquery(deleted()));
        if let Some(last) = after {
            query = query.filter(behind(vec![
                (Version, last.version.into()),
                (TeamId, last.team_id.into()),
                (GroupType, last.group_type.clone().into()),
                (GroupKey, last.group_key.clone().into()),
            ]));
        }
        for column in [Version, TeamId, GroupType, GroupKey] {
            query = query.order_by_asc(column);
        }
        let rows = query.limit(count_max).all(self.0.reader()).await;
        let rows = rows.map_err(|error| self.0.error(&error))?;
        let changed = rows.into_iter().map(|row| {
            Ok(ChangedGroup {
                team_id: row.team_id,
                group_type: row.group_type,
                group_key: row.group_key,
                created_at: row.created_at,
                properties: self.shown(&row.properties)?,
                version: row.version,
            })
        });
        changed.collect()
    }

    fn shown(self, properties: &str) -> Result<String, CatalogError> {
        let registers = Registers::parse(properties);
        let registers = registers.map_err(|error| self.0.error(&DbErr::Type(error.to_string())))?;
        Ok(registers.to_json())
    }
}

/// Projects that are gone: their rows wait for cleanup, and ClickHouse's may be purged already.
pub(super) fn deleted() -> SelectStatement {
    deleted_projects::Entity::find()
        .select_only()
        .column(deleted_projects::Column::TeamId)
        .into_query()
}

/// Condition of rows behind a row in the order of these columns, which an index has.
fn behind<C: ColumnTrait>(last: Vec<(C, Value)>) -> SimpleExpr {
    let (columns, values): (Vec<C>, Vec<Value>) = last.into_iter().unzip();
    let columns = columns.into_iter().map(|column| column.into_simple_expr());
    let values = values.into_iter().map(Expr::value);
    Expr::tuple(columns).gt(Expr::tuple(values))
}
