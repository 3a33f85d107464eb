//! Approvals that the operator makes without a request.

use super::{HistoricalDecision, HistoricalMigrations, check_positive};
use crate::names::must_be_plain;
use millrace_catalog::entities::historical_migrations::{self as migrations, MigrationState};
use millrace_catalog::entities::projects;
use millrace_catalog::transaction::{Abort, lock_organization, locked};
use millrace_catalog::{Actor, ChangeError};
use millrace_rows::ProjectId;
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveValue, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder,
};

/// Approval that the operator makes without a request.
#[derive(Clone, Debug)]
pub struct HistoricalGrant {
    /// Project that the events go to.
    pub project_id: ProjectId,
    /// Events that may come in all; at least 1.
    pub total_events: i64,
    /// Events that may come in a minute; at least 1.
    pub events_per_minute: i64,
    /// Note for people.
    pub note: Option<String>,
}

impl HistoricalMigrations<'_> {
    /// Approves a project's oldest open request with these numbers; without a request, creates an
    /// approved one.
    ///
    /// # Errors
    ///
    /// No such project, or a bad number.
    pub async fn grant(
        self,
        actor: &Actor,
        grant: HistoricalGrant,
    ) -> Result<migrations::Model, ChangeError> {
        check_positive("total_events", grant.total_events)?;
        check_positive("events_per_minute", grant.events_per_minute)?;
        if let Some(note) = &grant.note {
            must_be_plain("note", note)?;
        }
        let transaction = self.0.begin().await?;
        let granted = async {
            let project_id = grant.project_id;
            let project = lock_project(&transaction, project_id).await?;
            let open = migrations::Entity::find()
                .filter(migrations::Column::TeamId.eq(project_id.0))
                .filter(migrations::Column::State.eq(MigrationState::Requested))
                .order_by_asc(migrations::Column::CreatedAt)
                .order_by_asc(migrations::Column::Id);
            match locked(&transaction, open).one(&transaction).await? {
                Some(open) => {
                    let decision = HistoricalDecision {
                        approve: true,
                        note: grant.note,
                        total_events: Some(grant.total_events),
                        events_per_minute: Some(grant.events_per_minute),
                    };
                    self.decide_within(&transaction, actor, open, decision)
                        .await
                }
                None => {
                    self.insert_grant(&transaction, actor, &project, grant)
                        .await
                }
            }
        };
        let granted = granted.await;
        self.0.finish(transaction, granted).await
    }

    async fn insert_grant(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        project: &projects::Model,
        grant: HistoricalGrant,
    ) -> Result<migrations::Model, Abort> {
        let now = self.0.now();
        let row = migrations::ActiveModel {
            id: ActiveValue::Set(Uuid::now_v7()),
            organization_id: ActiveValue::Set(project.organization_id),
            team_id: ActiveValue::Set(project.id),
            source: ActiveValue::Set("unknown".to_owned()),
            method: ActiveValue::Set("unknown".to_owned()),
            total_events: ActiveValue::Set(grant.total_events),
            events_per_minute: ActiveValue::Set(grant.events_per_minute),
            state: ActiveValue::Set(MigrationState::Approved),
            events_imported: ActiveValue::Set(0),
            events_leased: ActiveValue::Set(0),
            created_at: ActiveValue::Set(now),
            decided_at: ActiveValue::Set(Some(now)),
            note: ActiveValue::Set(grant.note),
        };
        let made = self.insert(within, actor, row).await?;
        self.0.keys_changed(within).await?;
        Ok(made)
    }
}

/// Locks a project's organization, then finds the project: concurrent grants queue up.
async fn lock_project(
    within: &DatabaseTransaction,
    project_id: ProjectId,
) -> Result<projects::Model, Abort> {
    let query = projects::Entity::find_by_id(project_id.0);
    let not_found = || ChangeError::not_found("project", &project_id);
    let seen = query.clone().one(within).await?.ok_or_else(not_found)?;
    lock_organization(within, seen.organization_id).await?;
    let found = locked(within, query).one(within).await?;
    found.ok_or_else(|| not_found().into())
}
