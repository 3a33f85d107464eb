//! Rows of deleted projects and organizations.

use super::{BYTES_MAX, Cleanup, ENTRIES_MAX, ROWS_MAX};
use crate::entities::{
    activity_log as log, deleted_batch_exports, deleted_organizations, deleted_plugins,
    deleted_projects, withdrawn_plugins,
};
use crate::error::{CatalogError, ChangeError};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, DbErr, EntityTrait, QueryFilter, QueryOrder,
    QuerySelect, QueryTrait,
};

/// Tables that have many rows of a project, each with an expression for the bytes of a row.
const TABLES: [(&str, &str); 3] = [
    ("persons", "octet_length(properties)"),
    ("person_distinct_ids", "octet_length(distinct_id)"),
    ("groups", "octet_length(properties)"),
];

impl Cleanup<'_> {
    /// Tells whether deleted projects, organizations, batch exports or plugins, or withdrawn
    /// plugins, have left any rows.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn has_leftovers(self) -> Result<bool, CatalogError> {
        let looked = async {
            let project = deleted_projects::Entity::find().one(&self.0.db).await?;
            let organization = deleted_organizations::Entity::find()
                .one(&self.0.db)
                .await?;
            let export = deleted_batch_exports::Entity::find()
                .one(&self.0.db)
                .await?;
            let plugin = deleted_plugins::Entity::find().one(&self.0.db).await?;
            let withdrawn = withdrawn_plugins::Entity::find().one(&self.0.db).await?;
            let is_any = project.is_some() || organization.is_some();
            Ok(is_any || export.is_some() || plugin.is_some() || withdrawn.is_some())
        };
        looked.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Deletes a piece of the rows that withdrawn plugins have in other organizations, or that
    /// deleted projects, organizations, batch exports and plugins left: at most 2 000 rows, and
    /// 8 MiB of properties but for the last of them. Answers how many rows; 0: nothing is left.
    ///
    /// Withdrawn plugins go first: who deletes one meanwhile is told to try again in some seconds,
    /// and a large project takes minutes.
    ///
    /// # Errors
    ///
    /// Any database error; then nothing was deleted. A withdrawn plugin that cannot be read keeps
    /// no other row from being deleted: its error is returned once nothing else is left.
    pub async fn delete_leftovers(self) -> Result<u64, ChangeError> {
        let withdrawn = self.delete_of_withdrawn_plugin().await;
        if let Ok(rows @ 1..) = withdrawn {
            return Ok(rows);
        }
        let deleted = async {
            let mut count = self.delete_of_project().await?;
            if count == 0 {
                count = self.delete_of_batch_export().await?;
            }
            if count == 0 {
                count = self.delete_of_plugin().await?;
            }
            if count == 0 {
                count = self.delete_of_organization().await?;
            }
            Ok(count)
        };
        let deleted: Result<u64, DbErr> = deleted.await;
        match deleted.map_err(|error| self.0.error(&error))? {
            0 => withdrawn,
            rows => Ok(rows),
        }
    }

    async fn delete_of_project(self) -> Result<u64, DbErr> {
        let first = deleted_projects::Entity::find()
            .order_by_asc(deleted_projects::Column::TeamId)
            .one(&self.0.db)
            .await?;
        let Some(deleted_projects::Model {
            team_id: project_id,
        }) = first
        else {
            return Ok(0);
        };
        for (table, bytes) in TABLES {
            let piece = piece(
                self.0.writer.get_database_backend(),
                table,
                bytes,
                project_id,
            );
            let count = self.0.writer.execute_unprepared(&piece).await?;
            if count.rows_affected() > 0 {
                return Ok(count.rows_affected());
            }
        }
        let done = deleted_projects::Entity::delete_by_id(project_id)
            .exec(&self.0.writer)
            .await?;
        tracing::info!(
            project_id,
            "the catalog has no rows of a deleted project any more; its events stay in ClickHouse \
             until `millrace purge`"
        );
        Ok(done.rows_affected)
    }

    async fn delete_of_organization(self) -> Result<u64, DbErr> {
        let first = deleted_organizations::Entity::find()
            .order_by_asc(deleted_organizations::Column::OrganizationId)
            .one(&self.0.db)
            .await?;
        let Some(deleted_organizations::Model { organization_id }) = first else {
            return Ok(0);
        };
        let entries = log::Entity::find()
            .select_only()
            .column(log::Column::Id)
            .filter(log::Column::OrganizationId.eq(organization_id))
            .limit(ENTRIES_MAX)
            .into_query();
        let gone = log::Entity::delete_many()
            .filter(log::Column::Id.in_subquery(entries))
            .exec(&self.0.writer)
            .await?;
        if gone.rows_affected > 0 {
            return Ok(gone.rows_affected);
        }
        let done = deleted_organizations::Entity::delete_by_id(organization_id)
            .exec(&self.0.writer)
            .await?;
        Ok(done.rows_affected)
    }
}

/// Deletes the first rows of a project in a table. Rows are addressed by their location in the
/// file, which is quicker than by their keys and the same for all tables; rows of a deleted project
/// are never made or moved.
fn piece(backend: DbBackend, table: &str, bytes: &str, project_id: i64) -> String {
    let (row, before, behind) = match backend {
        DbBackend::Postgres => ("ctid", "= ANY (ARRAY(", "))"),
        _ => ("rowid", "IN (", ")"),
    };
    format!(
        "DELETE FROM {table} WHERE {row} {before}SELECT place FROM (\
         SELECT place, SUM(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS bytes_before FROM (\
         SELECT {row} AS place, {bytes} AS bytes FROM {table} \
         WHERE team_id = {project_id} LIMIT {ROWS_MAX}) AS first_rows) AS measured \
         WHERE bytes_before < {BYTES_MAX}{behind}"
    )
}
