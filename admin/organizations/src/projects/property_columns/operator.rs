//! Changes of property columns by the operator, and by the process that makes the columns.

use super::budget::{must_be_within, must_have_capacity, width};
use super::input::twice;
use super::{NewPropertyColumn, PropertyColumns, all, audit};
use crate::projects::locks::lock_project;
use millrace_catalog::entities::{projects, property_columns as columns};
use millrace_catalog::transaction::Abort;
use millrace_catalog::{Actor, ChangeError};
use millrace_rows::ProjectId;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use std::slice::from_ref;

impl PropertyColumns<'_> {
    /// Adds a column of a project, or of all, for the operator.
    ///
    /// # Errors
    ///
    /// There is no such project, the column is malformed or there already, or there are too many
    /// columns or they are too wide.
    pub async fn add_as_operator(
        self,
        actor: &Actor,
        project_id: Option<ProjectId>,
        new: NewPropertyColumn,
    ) -> Result<columns::Model, ChangeError> {
        let new = new.checked()?;
        let transaction = self.0.begin().await?;
        let added = async {
            let project = match project_id {
                Some(id) => Some(lock_project(&transaction, id).await?),
                None => None,
            };
            // Behind the counter's lock: what is counted from here on stays so until the end.
            self.0.keys_changed(&transaction).await?;
            let rows = all(&transaction).await?;
            let owner = project_id.map(|id| id.0);
            let mut visible = rows
                .iter()
                .filter(|row| row.team_id.is_none() || row.team_id == owner);
            if visible.any(|row| new.is_of_property(&row.path, row.kind)) {
                return Err(Abort::from(twice()));
            }
            let own = rows.iter().filter(|row| row.team_id == owner);
            let widths: Vec<_> = own.map(width).chain([new.width()]).collect();
            must_be_within(&widths)?;
            if let Some(project) = &project {
                must_have_capacity(&transaction, project, &rows, 1).await?;
            }
            let made = self.insert(&transaction, project_id, &new).await?;
            let entry = audit(project.as_ref(), &[], from_ref(&made));
            self.0.record(&transaction, actor, entry).await?;
            Ok(made)
        };
        let added = added.await;
        self.0.finish(transaction, added).await
    }

    /// Removes a column by its number, for the operator.
    ///
    /// # Errors
    ///
    /// There is no such column.
    pub async fn remove_as_operator(
        self,
        actor: &Actor,
        number: i64,
    ) -> Result<columns::Model, ChangeError> {
        let transaction = self.0.begin().await?;
        let removed = async {
            self.0.keys_changed(&transaction).await?;
            let found = columns::Entity::find_by_id(number)
                .one(&transaction)
                .await?;
            let row = found.ok_or_else(|| ChangeError::not_found("property column", &number))?;
            columns::Entity::delete_by_id(number)
                .exec(&transaction)
                .await?;
            let project = match row.team_id {
                Some(id) => projects::Entity::find_by_id(id).one(&transaction).await?,
                None => None,
            };
            let entry = audit(project.as_ref(), from_ref(&row), &[]);
            self.0.record(&transaction, actor, entry).await?;
            Ok(row)
        };
        let removed = removed.await;
        self.0.finish(transaction, removed).await
    }

    /// Marks columns as there in ClickHouse, from now on, or as not there any more: shippers fill
    /// those that are.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn mark(self, numbers: &[i64], is_added: bool) -> Result<(), ChangeError> {
        let transaction = self.0.begin().await?;
        let marked = async {
            let added_at = is_added.then(|| self.0.now().0);
            columns::Entity::update_many()
                .col_expr(columns::Column::AddedAt, Expr::value(added_at))
                .filter(columns::Column::Id.is_in(numbers.iter().copied()))
                .exec(&transaction)
                .await?;
            self.0.keys_changed(&transaction).await?;
            Ok(())
        };
        let marked = marked.await;
        self.0.finish(transaction, marked).await
    }
}
