//! What the ingestion path may take in beyond the limits for everyone, and what it took in.

use crate::actor::Actor;
use crate::catalog::Catalog;
use crate::entities::historical_migrations::{self as migrations, MigrationState};
use crate::error::{CatalogError, ChangeError};
use crate::transaction::locked;
use millrace_rows::TeamId;
use sea_orm::prelude::Uuid;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder};

/// An approved migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoricalAllowance {
    /// Which migration.
    pub migration_id: Uuid,
    /// Where its events go.
    pub team_id: TeamId,
    /// How many events may still come.
    pub events_left: u64,
    /// How fast.
    pub events_per_minute: u64,
}

impl Catalog {
    /// All migrations that may run now, oldest first; the change counter moves when they change.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn historical_allowances(&self) -> Result<Vec<HistoricalAllowance>, CatalogError> {
        let found = migrations::Entity::find()
            .filter(migrations::Column::State.eq(MigrationState::Approved))
            .order_by_asc(migrations::Column::CreatedAt)
            .order_by_asc(migrations::Column::Id)
            .all(&self.db)
            .await
            .map_err(|error| self.error(&error))?;
        let allowance = |migration: migrations::Model| HistoricalAllowance {
            migration_id: migration.id,
            team_id: TeamId(migration.team_id),
            events_left: unsigned(migration.total_events - migration.events_imported),
            events_per_minute: unsigned(migration.events_per_minute),
        };
        Ok(found.into_iter().map(allowance).collect())
    }

    /// Counts events that came; the last one that was approved finishes the migration. `false`:
    /// it is not approved any more.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn count_historical_events(
        &self,
        migration_id: Uuid,
        events: u64,
    ) -> Result<bool, ChangeError> {
        let transaction = self.begin().await?;
        let counted = async {
            let query = migrations::Entity::find_by_id(migration_id)
                .filter(migrations::Column::State.eq(MigrationState::Approved));
            let Some(before) = locked(&transaction, query).one(&transaction).await? else {
                return Ok(false);
            };
            let mut after = before.clone();
            let events = i64::try_from(events).unwrap_or(i64::MAX);
            after.events_imported = after.events_imported.saturating_add(events);
            if after.events_imported >= after.total_events {
                after.state = MigrationState::Finished;
            }
            let system = Actor::System;
            self.save_migration(&transaction, &system, &before, after)
                .await?;
            Ok(true)
        };
        let counted = counted.await;
        self.finish(transaction, counted).await
    }
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
