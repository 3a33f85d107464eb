//! Whether a project ever got an event.

use crate::catalog::Catalog;
use crate::entities::projects;
use crate::error::CatalogError;
use millrace_rows::TeamId;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

impl Catalog {
    /// Notes that a project has events. Nothing is written if that was noted before, or the
    /// project has gone. It is no change of anybody's: it leaves no activity entry and no
    /// `updated_at`, and the counter of keys stays, as an answer cached without it does no harm.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn note_first_event(&self, team_id: TeamId) -> Result<(), CatalogError> {
        let noted = projects::Entity::update_many()
            .col_expr(projects::Column::IngestedEvent, Expr::val(true))
            .filter(projects::Column::Id.eq(team_id.0))
            .filter(projects::Column::IngestedEvent.eq(false))
            .exec(&self.writer)
            .await;
        noted.map(drop).map_err(|error| self.error(&error))
    }
}
