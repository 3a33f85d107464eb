//! Watermark of persons, which exports of persons wait for.

use crate::catalog::Catalog;
use crate::entities::{person_backlogs as backlogs, person_progress as progress};
use crate::error::CatalogError;
use crate::time::UtcTime;
use millrace_rows::ProjectId;
use sea_orm::{DbErr, EntityTrait};

/// Times up to which persons are known.
#[derive(Clone, Copy, Debug)]
pub struct PersonWatermark<'a>(&'a Catalog);

impl<'a> PersonWatermark<'a> {
    /// Returns a handle to the watermark of persons in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

impl PersonWatermark<'_> {
    /// Arrival time before which all updates of one project are applied and in ClickHouse; other
    /// projects hold it up for some rounds at most. `None` until that is known.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn of(self, project_id: ProjectId) -> Result<Option<UtcTime>, CatalogError> {
        let db = &self.0.writer;
        let read = async {
            // The common progress is read first: a project that gets a backlog after that has
            // passed it.
            let common = progress::Entity::find_by_id(progress::ROW).one(db).await?;
            let none = || DbErr::RecordNotFound("the progress of persons".to_owned());
            let common = common.ok_or_else(none)?;
            let own = backlogs::Entity::find_by_id(project_id.0).one(db).await?;
            Ok(own.map_or(common.passed, |own| own.passed))
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }
}
