//! Fingerprint of the key that secrets in the catalog are encrypted with. The first process with a
//! key keeps its own here; another one can tell by it that its key would open nothing.

use crate::catalog::Catalog;
use crate::entities::secret_key_fingerprints as fingerprints;
use crate::error::CatalogError;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveValue, EntityTrait};

/// Id of the only row.
const ID: i16 = 1;

impl Catalog {
    /// Reads the fingerprint of the key; `None` if no process with a key has started yet.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn key_fingerprint(&self) -> Result<Option<String>, CatalogError> {
        let found = fingerprints::Entity::find_by_id(ID).one(&self.db).await;
        let found = found.map_err(|error| self.error(&error))?;
        Ok(found.map(|row| row.fingerprint))
    }

    /// Keeps the fingerprint of a key, unless there is one already; returns the one that is kept.
    /// Of processes that do so at the same time the first wins.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn keep_key_fingerprint(&self, fingerprint: &str) -> Result<String, CatalogError> {
        let mut again = OnConflict::column(fingerprints::Column::Id);
        again.do_nothing();
        self.write_fingerprint(fingerprint, again).await?;
        let kept = self.key_fingerprint().await?;
        Ok(kept.unwrap_or_else(|| fingerprint.to_owned()))
    }

    /// Replaces the fingerprint, once all secrets are encrypted with another key.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn replace_key_fingerprint(&self, fingerprint: &str) -> Result<(), CatalogError> {
        let mut again = OnConflict::column(fingerprints::Column::Id);
        again.update_column(fingerprints::Column::Fingerprint);
        self.write_fingerprint(fingerprint, again).await
    }

    async fn write_fingerprint(
        &self,
        fingerprint: &str,
        again: OnConflict,
    ) -> Result<(), CatalogError> {
        let row = fingerprints::ActiveModel {
            id: ActiveValue::Set(ID),
            fingerprint: ActiveValue::Set(fingerprint.to_owned()),
        };
        let written = fingerprints::Entity::insert(row)
            .on_conflict(again)
            .exec_without_returning(&self.writer)
            .await;
        written.map(drop).map_err(|error| self.error(&error))
    }
}
