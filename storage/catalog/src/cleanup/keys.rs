//! Personal keys that were revoked or have expired long ago.

use super::{Cleanup, ROWS_MAX};
use crate::database_clock::micros;
use crate::entities::personal_api_keys as keys;
use crate::error::CatalogError;
use sea_orm::prelude::Uuid;
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QuerySelect};
use std::time::Duration;

impl Cleanup<'_> {
    /// Deletes a piece of the keys that were revoked, or have expired, longer than `kept` ago: at
    /// most 2 000. Answers how many; 0: there are none.
    ///
    /// # Errors
    ///
    /// Any database error; then nothing was deleted.
    pub async fn prune_keys(self, kept: Duration) -> Result<u64, CatalogError> {
        let until = self.0.now().plus_micros(micros(kept).saturating_neg());
        let pruned = async {
            for end in [keys::Column::RevokedAt, keys::Column::ExpiresAt] {
                // Read apart, so that nothing is locked where nothing is old.
                let old: Vec<Uuid> = keys::Entity::find()
                    .select_only()
                    .column(keys::Column::Id)
                    .filter(end.lt(until))
                    .limit(ROWS_MAX)
                    .into_tuple()
                    .all(&self.0.db)
                    .await?;
                if old.is_empty() {
                    continue;
                }
                let gone = keys::Entity::delete_many()
                    .filter(keys::Column::Id.is_in(old))
                    // Its owner may have given a key another time of expiry meanwhile.
                    .filter(end.lt(until))
                    .exec(&self.0.writer)
                    .await?;
                if gone.rows_affected > 0 {
                    let keys = gone.rows_affected;
                    tracing::info!(keys, "deleted keys that ended long ago");
                    return Ok(keys);
                }
            }
            Ok(0)
        };
        pruned.await.map_err(|error: DbErr| self.0.error(&error))
    }
}
