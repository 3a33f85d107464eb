//! Approving, rejecting and finishing migrations.

use super::{check_positive, deed, of_organization, state_name};
use crate::activity::Activity;
use crate::actor::Actor;
use crate::catalog::Catalog;
use crate::entities::historical_migrations::{self as migrations, MigrationState};
use crate::entities::projects;
use crate::error::ChangeError;
use crate::transaction::{Abort, locked};
use millrace_rows::TeamId;
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel,
    QueryFilter, QueryOrder,
};

/// What the operator says to a request.
#[derive(Clone, Debug, Default)]
pub struct HistoricalDecision {
    /// Whether it may run.
    pub approve: bool,
    /// For whoever asked; `None` keeps what was said before.
    pub note: Option<String>,
    /// How many events may come, if other than asked for; at least 1.
    pub total_events: Option<i64>,
    /// How fast, if other than asked for; at least 1.
    pub events_per_minute: Option<i64>,
}

/// What the operator allows unasked.
#[derive(Clone, Debug)]
pub struct HistoricalGrant {
    /// Where the events go.
    pub team_id: TeamId,
    /// How many in all; at least 1.
    pub total_events: i64,
    /// How fast; at least 1.
    pub events_per_minute: i64,
    /// For whoever reads it.
    pub note: Option<String>,
}

impl Catalog {
    /// Decides on a migration; the operator's alone, which the caller has checked. What was
    /// decided may be decided otherwise until it is finished. `organization_id`: as the path has
    /// it; `None` on the command line.
    ///
    /// # Errors
    ///
    /// No such migration, a bad number, or it is finished.
    pub async fn decide_historical_migration(
        &self,
        actor: &Actor,
        organization_id: Option<Uuid>,
        id: Uuid,
        decision: HistoricalDecision,
    ) -> Result<migrations::Model, ChangeError> {
        let numbers = [
            ("total_events", decision.total_events),
            ("events_per_minute", decision.events_per_minute),
        ];
        for (field, number) in numbers {
            number.map_or(Ok(()), |number| check_positive(field, number))?;
        }
        let transaction = self.begin().await?;
        let decided = async {
            let before = found(&transaction, organization_id, id).await?;
            self.decide(&transaction, actor, before, decision).await
        };
        let decided = decided.await;
        self.finish(transaction, decided).await
    }

    /// Approves a project's oldest open request with these numbers; without a request, makes one
    /// that is approved.
    ///
    /// # Errors
    ///
    /// No such project, or a bad number.
    pub async fn grant_historical_migration(
        &self,
        actor: &Actor,
        grant: HistoricalGrant,
    ) -> Result<migrations::Model, ChangeError> {
        check_positive("total_events", grant.total_events)?;
        check_positive("events_per_minute", grant.events_per_minute)?;
        let transaction = self.begin().await?;
        let granted = async {
            let team_id = grant.team_id;
            let project = projects::Entity::find_by_id(team_id.0);
            // Makes those who grant for one project queue up.
            let project = locked(&transaction, project).one(&transaction).await?;
            let project = project.ok_or_else(|| ChangeError::not_found("project", &team_id))?;
            let open = migrations::Entity::find()
                .filter(migrations::Column::TeamId.eq(team_id.0))
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
                    self.decide(&transaction, actor, open, decision).await
                }
                None => {
                    self.insert_grant(&transaction, actor, &project, grant)
                        .await
                }
            }
        };
        let granted = granted.await;
        self.finish(transaction, granted).await
    }

    /// Ends a migration that was asked for or approved: it is done, or given up.
    ///
    /// # Errors
    ///
    /// No such migration, or it was rejected.
    pub async fn finish_historical_migration(
        &self,
        actor: &Actor,
        organization_id: Uuid,
        id: Uuid,
    ) -> Result<migrations::Model, ChangeError> {
        let transaction = self.begin().await?;
        let finished = async {
            let before = found(&transaction, Some(organization_id), id).await?;
            if before.state == MigrationState::Rejected {
                let detail = "A migration that was rejected never ran.";
                return Err(ChangeError::invalid("state", "invalid_input", detail).into());
            }
            let mut after = before.clone();
            after.state = MigrationState::Finished;
            self.save_migration(&transaction, actor, &before, after)
                .await
        };
        let finished = finished.await;
        self.finish(transaction, finished).await
    }

    async fn decide(
        &self,
        within: &DatabaseTransaction,
        actor: &Actor,
        before: migrations::Model,
        decision: HistoricalDecision,
    ) -> Result<migrations::Model, Abort> {
        if before.state == MigrationState::Finished {
            let detail = "The migration is finished; there is nothing to decide any more.";
            return Err(ChangeError::invalid("state", "invalid_input", detail).into());
        }
        let mut after = before.clone();
        after.state = if decision.approve {
            MigrationState::Approved
        } else {
            MigrationState::Rejected
        };
        if after.state != before.state {
            after.decided_at = Some(self.now());
        }
        after.note = decision.note.or(after.note);
        after.total_events = decision.total_events.unwrap_or(after.total_events);
        after.events_per_minute = decision
            .events_per_minute
            .unwrap_or(after.events_per_minute);
        self.save_migration(within, actor, &before, after).await
    }

    async fn insert_grant(
        &self,
        within: &DatabaseTransaction,
        actor: &Actor,
        project: &projects::Model,
        grant: HistoricalGrant,
    ) -> Result<migrations::Model, Abort> {
        let now = self.now();
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
            created_at: ActiveValue::Set(now),
            decided_at: ActiveValue::Set(Some(now)),
            note: ActiveValue::Set(grant.note),
        };
        self.keys_changed(within).await?;
        self.insert_migration(within, actor, row).await
    }

    /// Writes what differs, the entry that says so, and tells the ingestion path.
    pub(super) async fn save_migration(
        &self,
        within: &DatabaseTransaction,
        actor: &Actor,
        before: &migrations::Model,
        after: migrations::Model,
    ) -> Result<migrations::Model, Abort> {
        let deed = deed(Activity::Updated, before)
            .field("state", state_name(before.state), state_name(after.state))
            .field("note", &before.note, &after.note)
            .field("total_events", before.total_events, after.total_events)
            .field(
                "events_per_minute",
                before.events_per_minute,
                after.events_per_minute,
            );
        let counted = before.events_imported != after.events_imported;
        let changed = !deed.changes_nothing();
        if changed {
            self.record(within, actor, deed).await?;
            self.keys_changed(within).await?;
        }
        if !changed && !counted {
            return Ok(after);
        }
        let row = after.into_active_model().reset_all();
        Ok(row.update(within).await?)
    }
}

/// A migration that is about to be changed.
async fn found(
    within: &DatabaseTransaction,
    organization_id: Option<Uuid>,
    id: Uuid,
) -> Result<migrations::Model, Abort> {
    let query = match organization_id {
        Some(organization_id) => of_organization(organization_id),
        None => migrations::Entity::find(),
    };
    let query = query.filter(migrations::Column::Id.eq(id));
    let found = locked(within, query).one(within).await?;
    found.ok_or_else(|| ChangeError::not_found("historical migration", &id).into())
}
