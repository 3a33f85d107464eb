//! Identity of a catalog. Numbers of projects mean something in one catalog alone: what has rows of
//! projects keeps the id of their catalog.

use crate::catalog::Catalog;
use crate::entities::{catalog_ids, projects};
use crate::error::CatalogError;
use sea_orm::prelude::Uuid;
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter};

impl Catalog {
    /// Random id that was made with the catalog. Copies of the catalog have it, too.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn id(&self) -> Result<Uuid, CatalogError> {
        let found = catalog_ids::Entity::find().one(&self.db).await;
        let row = found.and_then(|row| {
            row.ok_or_else(|| DbErr::RecordNotFound("the id of the catalog".to_owned()))
        });
        row.map(|row| row.id).map_err(|error| self.error(&error))
    }

    /// Tells whether a project of the catalog has ever sent an event.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn has_events(&self) -> Result<bool, CatalogError> {
        let sender = projects::Entity::find()
            .filter(projects::Column::IngestedEvent.eq(true))
            .one(&self.db)
            .await;
        let sender = sender.map_err(|error| self.error(&error))?;
        Ok(sender.is_some())
    }

    /// Location for messages: path of the file, or server and database without a password.
    #[must_use]
    pub fn location(&self) -> &str {
        &self.location.name
    }
}
