//! Approving, rejecting and finishing migrations.

use super::{HistoricalMigrations, audit_change, check_positive, of_organization, state_name};
use crate::names::must_be_plain;
use millrace_catalog::entities::historical_migrations::{self as migrations, MigrationState};
use millrace_catalog::transaction::{Abort, lock_organization, locked, must_act_as};
use millrace_catalog::{Activity, Actor, ChangeError, Level};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter,
};

/// Operator's decision on a request.
#[derive(Clone, Debug, Default)]
pub struct HistoricalDecision {
    /// True approves the request; false rejects it.
    pub approve: bool,
    /// Note for the organization; `None` keeps the present one.
    pub note: Option<String>,
    /// Events that may come, if other than asked for; at least 1.
    pub total_events: Option<i64>,
    /// Events that may come in a minute, if other than asked for; at least 1.
    pub events_per_minute: Option<i64>,
}

impl HistoricalMigrations<'_> {
    /// Decides on a migration. Only the operator may, which the caller has checked. A decision may
    /// be changed until the migration is finished. `organization_id`: as in the path; `None` on the
    /// command line.
    ///
    /// # Errors
    ///
    /// No such migration, a bad number, or it is finished.
    pub async fn decide(
        self,
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
        let transaction = self.0.begin().await?;
        let decided = async {
            let before = found(&transaction, organization_id, id).await?;
            self.decide_within(&transaction, actor, before, decision)
                .await
        };
        let decided = decided.await;
        self.0.finish(transaction, decided).await
    }

    /// Ends a migration that was requested or approved: it is done, or given up. The actor must be
    /// an administrator or above.
    ///
    /// # Errors
    ///
    /// No such migration, it was rejected, or the actor may not.
    pub async fn finish(
        self,
        actor: &Actor,
        organization_id: Uuid,
        id: Uuid,
    ) -> Result<migrations::Model, ChangeError> {
        let transaction = self.0.begin().await?;
        let finished = async {
            let before = found(&transaction, Some(organization_id), id).await?;
            must_act_as(&transaction, actor, organization_id, Level::Administrator).await?;
            if before.state == MigrationState::Rejected {
                let detail = "A migration that was rejected never ran.";
                return Err(ChangeError::invalid("state", "invalid_input", detail).into());
            }
            let mut after = before.clone();
            after.state = MigrationState::Finished;
            self.save(&transaction, actor, &before, after).await
        };
        let finished = finished.await;
        self.0.finish(transaction, finished).await
    }

    pub(super) async fn decide_within(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        before: migrations::Model,
        decision: HistoricalDecision,
    ) -> Result<migrations::Model, Abort> {
        if before.state == MigrationState::Finished {
            let detail = "The migration is finished; there is nothing to decide any more.";
            return Err(ChangeError::invalid("state", "invalid_input", detail).into());
        }
        if let Some(note) = &decision.note {
            must_be_plain("note", note)?;
        }
        let mut after = before.clone();
        after.state = if decision.approve {
            MigrationState::Approved
        } else {
            MigrationState::Rejected
        };
        if after.state != before.state {
            after.decided_at = Some(self.0.now());
        }
        after.note = decision.note.or(after.note);
        after.total_events = decision.total_events.unwrap_or(after.total_events);
        after.events_per_minute = decision
            .events_per_minute
            .unwrap_or(after.events_per_minute);
        self.save(within, actor, &before, after).await
    }

    /// Writes the fields that differ with their entry in the activity log, and notifies the
    /// ingestion path.
    async fn save(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        before: &migrations::Model,
        after: migrations::Model,
    ) -> Result<migrations::Model, Abort> {
        let audit = audit_change(Activity::Updated, before)
            .field("state", state_name(before.state), state_name(after.state))
            .field("note", &before.note, &after.note)
            .field("total_events", before.total_events, after.total_events)
            .field(
                "events_per_minute",
                before.events_per_minute,
                after.events_per_minute,
            );
        if audit.changes_nothing() {
            return Ok(after);
        }
        self.0.record(within, actor, audit).await?;
        self.0.keys_changed(within).await?;
        let row = after.into_active_model().reset_all();
        Ok(row.update(within).await?)
    }
}

/// Locks a migration for a change, its organization first.
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
    let not_found = || ChangeError::not_found("historical migration", &id);
    let seen = query.clone().one(within).await?.ok_or_else(not_found)?;
    lock_organization(within, seen.organization_id).await?;
    let found = locked(within, query).one(within).await?;
    found.ok_or_else(|| not_found().into())
}
