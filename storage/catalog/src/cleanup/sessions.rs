//! Sessions and sign-in links that have ended by time. Those that were ended have no row.

use super::{Cleanup, ROWS_MAX};
use crate::database_clock::micros;
use crate::entities::{sessions, sign_in_links as links};
use crate::error::CatalogError;
use crate::time::UtcTime;
use sea_orm::prelude::Uuid;
use sea_orm::{ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter, QuerySelect};
use std::time::Duration;

/// Longest time between two uses of a session.
pub const SESSION_IDLE_MAX: Duration = Duration::from_secs(12 * 3_600);

/// Condition for the sessions that are in force at `now`.
#[must_use]
pub fn session_in_force(now: UtcTime) -> Condition {
    let idle_since = now.plus_micros(micros(SESSION_IDLE_MAX).saturating_neg());
    Condition::all()
        .add(sessions::Column::ExpiresAt.gt(now))
        .add(sessions::Column::LastUsedAt.gt(idle_since))
}

impl Cleanup<'_> {
    /// Deletes a piece of the sessions and of the sign-in links that have ended: at most 2 000 of
    /// each. Answers how many; 0: there are none.
    ///
    /// # Errors
    ///
    /// Any database error; then nothing, or no link, was deleted.
    pub async fn prune_sessions(self) -> Result<u64, CatalogError> {
        let now = self.0.now();
        let pruned = async {
            let mut rows = self.delete_sessions(now).await?;
            rows += self.delete_links(now).await?;
            Ok(rows)
        };
        pruned.await.map_err(|error: DbErr| self.0.error(&error))
    }

    async fn delete_sessions(self, now: UtcTime) -> Result<u64, DbErr> {
        // Read apart, so that nothing is locked where nothing has ended.
        let ended: Vec<Uuid> = sessions::Entity::find()
            .select_only()
            .column(sessions::Column::Id)
            .filter(session_in_force(now).not())
            .limit(ROWS_MAX)
            .into_tuple()
            .all(&self.0.db)
            .await?;
        if ended.is_empty() {
            return Ok(0);
        }
        let gone = sessions::Entity::delete_many()
            .filter(sessions::Column::Id.is_in(ended))
            .filter(session_in_force(now).not())
            .exec(&self.0.writer)
            .await?;
        Ok(gone.rows_affected)
    }

    async fn delete_links(self, now: UtcTime) -> Result<u64, DbErr> {
        let ended: Vec<Uuid> = links::Entity::find()
            .select_only()
            .column(links::Column::Id)
            .filter(links::Column::ExpiresAt.lte(now))
            .limit(ROWS_MAX)
            .into_tuple()
            .all(&self.0.db)
            .await?;
        if ended.is_empty() {
            return Ok(0);
        }
        let gone = links::Entity::delete_many()
            .filter(links::Column::Id.is_in(ended))
            .exec(&self.0.writer)
            .await?;
        Ok(gone.rows_affected)
    }
}
