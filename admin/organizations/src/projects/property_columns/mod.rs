//! Property columns: properties that a project, or the operator for all projects, names, so that
//! they become columns of `events`.
//!
//! The rows say which columns there are to be. The process that holds their lease makes them in
//! ClickHouse and then marks them; only then shippers fill them. A column's number is never used
//! again, so a column that is there by mistake is never filled with another property.
//!
//! | Module | Holds |
//! |---|---|
//! | `input` | what is sent to name properties |
//! | `budget` | how many columns there may be, and how wide |
//! | `operator` | changes by the operator, and by the process that makes the columns |

mod budget;
mod input;
mod operator;

pub use input::{NewPropertyColumn, PropertyColumnsChange};

use super::locks::{lock_project_of, project_audit};
use budget::{must_be_within, must_have_capacity, row_bytes, width};
use input::{CheckedColumn, blame, checked};
use millrace_catalog::entities::{projects, property_columns as columns};
use millrace_catalog::transaction::Abort;
use millrace_catalog::{
    Activity, ActivityScope, Actor, AuditChange, Catalog, CatalogError, ChangeError,
};
use millrace_rows::{ProjectId, PropertyType};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    QueryFilter, QueryOrder,
};

/// Property columns of projects, and of all of them.
#[derive(Clone, Copy, Debug)]
pub struct PropertyColumns<'a>(&'a Catalog);

/// Property columns that a project's rows have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectColumns {
    /// Columns of the project, in the order in which they were named.
    pub own: Vec<columns::Model>,
    /// Columns of all projects, in that order.
    pub shared: Vec<columns::Model>,
}

impl<'a> PropertyColumns<'a> {
    /// Returns a handle to the property columns in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }

    /// Lists all columns, by number. A process that keeps them reads [`Catalog::keys_version`]
    /// first, which every change of them increments.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list_all(self) -> Result<Vec<columns::Model>, CatalogError> {
        let found = all(self.0.reader()).await;
        found.map_err(|error| self.0.error(&error))
    }

    /// Reads the columns that a project's rows have.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn of_project(self, project_id: ProjectId) -> Result<ProjectColumns, CatalogError> {
        Ok(ProjectColumns::of(project_id, self.list_all().await?))
    }

    /// Replaces the columns of an organization's project. Requires administrator.
    ///
    /// # Errors
    ///
    /// The organization has no such project, a column is malformed or there twice, there are too
    /// many or they are too wide, or the actor may not.
    pub async fn replace(
        self,
        actor: &Actor,
        organization_id: Uuid,
        project_id: ProjectId,
        change: PropertyColumnsChange,
    ) -> Result<ProjectColumns, ChangeError> {
        let wanted = change.columns.sent().map(checked).transpose()?;
        let transaction = self.0.begin().await?;
        let replaced = async {
            let project = lock_project_of(&transaction, actor, organization_id, project_id).await?;
            match wanted {
                Some(wanted) => self.set(&transaction, actor, &project, &wanted).await,
                None => Ok(ProjectColumns::of(project_id, all(&transaction).await?)),
            }
        };
        let replaced = replaced.await;
        self.0.finish(transaction, replaced).await
    }

    /// Replaces the columns of a locked project.
    async fn set(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        project: &projects::Model,
        wanted: &[CheckedColumn],
    ) -> Result<ProjectColumns, Abort> {
        let id = ProjectId(project.id);
        let before = ProjectColumns::of(id, all(within).await?);
        let is_new = |column: &CheckedColumn| !before.own.iter().any(|row| column.is(row));
        let is_wanted = |row: &columns::Model| wanted.iter().any(|column| column.is(row));
        let gone = before.own.iter().filter(|row| !is_wanted(row));
        let gone: Vec<i64> = gone.map(|row| row.id).collect();
        let new: Vec<&CheckedColumn> = wanted.iter().filter(|column| is_new(column)).collect();
        if new.is_empty() && gone.is_empty() {
            return Ok(before);
        }
        // Behind the counter's lock: what is counted from here on stays so until the end.
        self.0.keys_changed(within).await?;
        columns::Entity::delete_many()
            .filter(columns::Column::Id.is_in(gone))
            .exec(within)
            .await?;
        let rows = all(within).await?;
        let is_shared = |column: &CheckedColumn| {
            let mut shared = rows.iter().filter(|row| row.team_id.is_none());
            shared.any(|row| column.is_of_property(&row.path, row.kind))
        };
        let refused = wanted
            .iter()
            .position(|column| is_new(column) && is_shared(column));
        if let Some(index) = refused {
            return Err(blame(index, shared_already()).into());
        }
        let widths: Vec<_> = wanted.iter().map(CheckedColumn::width).collect();
        must_be_within(&widths)?;
        must_have_capacity(within, project, &rows, new.len() as u64).await?;
        for column in new {
            self.insert(within, Some(id), column).await?;
        }
        let after = ProjectColumns::of(id, all(within).await?);
        let entry = audit(Some(project), &before.own, &after.own);
        self.0.record(within, actor, entry).await?;
        Ok(after)
    }

    async fn insert(
        self,
        within: &DatabaseTransaction,
        project_id: Option<ProjectId>,
        new: &CheckedColumn,
    ) -> Result<columns::Model, DbErr> {
        let row = columns::ActiveModel {
            id: ActiveValue::NotSet,
            team_id: ActiveValue::Set(project_id.map(|id| id.0)),
            path: ActiveValue::Set(new.path.clone()),
            kind: ActiveValue::Set(new.kind),
            bytes_max: ActiveValue::Set(new.bytes_max),
            created_at: ActiveValue::Set(self.0.now()),
            added_at: ActiveValue::Set(None),
        };
        columns::Entity::insert(row)
            .exec_with_returning(within)
            .await
    }
}

impl ProjectColumns {
    fn of(project_id: ProjectId, rows: Vec<columns::Model>) -> Self {
        let mut columns = Self::default();
        for row in rows {
            match row.team_id {
                None => columns.shared.push(row),
                Some(id) if id == project_id.0 => columns.own.push(row),
                Some(_) => {}
            }
        }
        columns
    }

    /// Bytes that the project's own columns take of an event at most.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        let widths: Vec<_> = self.own.iter().map(width).collect();
        row_bytes(&widths)
    }
}

async fn all<C: ConnectionTrait>(db: &C) -> Result<Vec<columns::Model>, DbErr> {
    let query = columns::Entity::find().order_by_asc(columns::Column::Id);
    query.all(db).await
}

/// Entry of the activity log of a project, or of all projects, which no organization has together.
fn audit(
    project: Option<&projects::Model>,
    had: &[columns::Model],
    has: &[columns::Model],
) -> AuditChange {
    let entry = match project {
        Some(project) => project_audit(Activity::Updated, project),
        None => {
            let (activity, scope) = (Activity::Updated, ActivityScope::Project);
            AuditChange::new(activity, scope, None::<Uuid>, &"all", "All projects")
        }
    };
    let described = |rows: &[columns::Model]| rows.iter().map(described).collect::<Vec<_>>();
    entry.field("property_columns", described(had), described(has))
}

/// Describes a column in the activity log.
fn described(row: &columns::Model) -> String {
    let kind = PropertyType::from(row.kind).name();
    let path = row.path.0.join(" → ");
    match row.bytes_max {
        Some(bytes_max) => format!("{path}: {kind}, {bytes_max} bytes"),
        None => format!("{path}: {kind}"),
    }
}

fn shared_already() -> ChangeError {
    let detail = "All projects have a column of this property and type already.";
    ChangeError::invalid("path", "unique", detail)
}
