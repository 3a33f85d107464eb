//! Mark of projects that have events.

use super::ProjectKeys;
use crate::entities::projects;
use crate::error::CatalogError;
use millrace_rows::ProjectId;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

impl ProjectKeys<'_> {
    /// Marks a project as having events. Nothing is written if it is marked already, or deleted.
    /// The mark is no user's change: it leaves no activity entry and no `updated_at`, and the
    /// counter of keys stays, as a cached result without the mark does no harm.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn note_first_event(self, project_id: ProjectId) -> Result<(), CatalogError> {
        let noted = projects::Entity::update_many()
            .col_expr(projects::Column::IngestedEvent, Expr::val(true))
            .filter(projects::Column::Id.eq(project_id.0))
            .filter(projects::Column::IngestedEvent.eq(false))
            .exec(&self.0.writer)
            .await;
        noted.map(drop).map_err(|error| self.0.error(&error))
    }
}
