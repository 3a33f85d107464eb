//! Renewal of quota leases: a node reports what it imported of a project, and is leased more.
//!
//! One transaction settles one project. Its organization is locked first, so that the project
//! exists until the end, then the row of its quota, where nodes queue up. It waits for a row as
//! long as a node waits for the answer: given up by the node alone, it would keep its connection.

use super::ImportQuotas;
use super::bucket::Bucket;
use super::project_quota::{LeaseDecision, LeaseReport};
use super::rows::{DEFAULT_QUOTA_PER_MINUTE, read_quota, write_lease, write_quota};
use millrace_catalog::entities::historical_migrations::{self as migrations, MigrationState};
use millrace_catalog::entities::ingest_nodes::{self, NodeState};
use millrace_catalog::entities::{
    import_leases as leases, import_quotas as quotas, organizations, projects,
};
use millrace_catalog::features::HISTORICAL_MIGRATIONS;
use millrace_catalog::transaction::{Abort, lock_organization, locked};
use millrace_catalog::{Activity, ActivityScope, Actor, AuditChange, CatalogError, ChangeError};
use millrace_rows::ProjectId;
use sea_orm::sea_query::{Expr, LockType};
use sea_orm::{
    ActiveEnum, ActiveModelTrait, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend,
    DbErr, EntityTrait, IntoActiveModel, QueryFilter, QuerySelect,
};
use uuid::Uuid;

/// Time since a node last published its watermark, in microseconds, within which it counts as
/// running.
const RUNS_MICROS: i64 = 30_000_000;

impl ImportQuotas<'_> {
    /// Starts the rate limit of every project anew and ends all leases, if no other node runs.
    ///
    /// # Errors
    ///
    /// Any database error; then the node must accept no imports.
    pub async fn start(self, node: &str) -> Result<(), CatalogError> {
        let started = async {
            let running = ingest_nodes::Entity::find()
                .filter(ingest_nodes::Column::Name.ne(node))
                .filter(ingest_nodes::Column::State.ne(NodeState::Stopped))
                .filter(ingest_nodes::Column::PublishedAt.gt(self.0.now().0 - RUNS_MICROS))
                .one(self.0.reader())
                .await?;
            if running.is_some() {
                return Ok(());
            }
            let (units, per_minute) = (Bucket::FULL.units, Bucket::FULL.per_minute);
            quotas::Entity::update_many()
                .col_expr(quotas::Column::BucketUnits, Expr::value(units))
                .col_expr(quotas::Column::BucketPerMinute, Expr::value(per_minute))
                .exec(self.0.writer())
                .await?;
            leases::Entity::update_many()
                .col_expr(leases::Column::ExpiresAt, Expr::value(0_i64))
                .exec(self.0.writer())
                .await
                .map(drop)
        };
        started.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Counts the events of a project that a node imported, and leases it what it needs. `holder`
    /// is a random id of the node's start. `None`: there is no such project any more.
    ///
    /// # Errors
    ///
    /// Any database error; then it is unknown whether the lease was renewed, and the node reports
    /// again, without what it may have been leased.
    pub async fn renew_lease(
        self,
        holder: Uuid,
        project_id: ProjectId,
        lease_report: LeaseReport,
    ) -> Result<Option<LeaseDecision>, ChangeError> {
        let transaction = self.0.begin_bounded().await?;
        let renewed = async {
            let Some(owner) = lock_owner(&transaction, project_id).await? else {
                return Ok(None);
            };
            let now = self.0.shared_now(&transaction).await?;
            let mut quota = read_quota(&transaction, project_id, holder, now).await?;
            quota.is_allowed = owner.has_feature(HISTORICAL_MIGRATIONS);
            let decision = quota.settle(now, lease_report, DEFAULT_QUOTA_PER_MINUTE);
            write_quota(&transaction, project_id, &quota).await?;
            write_lease(&transaction, project_id, holder, now, &quota).await?;
            Ok(Some((decision, quota.used_up(now))))
        };
        let renewed = renewed.await;
        let Some((decision, used_up)) = self.0.finish(transaction, renewed).await? else {
            return Ok(None);
        };
        for id in used_up {
            self.finish_used_up(id).await?;
        }
        Ok(Some(decision))
    }

    /// Finishes a migration whose events are all leased and settled. Separate from the renewal, as
    /// the entry of the activity log needs the organization.
    async fn finish_used_up(self, id: Uuid) -> Result<(), ChangeError> {
        let transaction = self.0.begin_bounded().await?;
        let finished = async {
            let query = migrations::Entity::find_by_id(id)
                .filter(migrations::Column::State.eq(MigrationState::Approved));
            let Some(seen) = query.clone().one(&transaction).await? else {
                return Ok(());
            };
            let found = lock_organization(&transaction, seen.organization_id).await;
            let before = locked(&transaction, query).one(&transaction).await?;
            let (Ok(_), Some(before)) = (found, before) else {
                return Ok(());
            };
            // A node that was late may have renewed its lease since.
            let now = self.0.shared_now(&transaction).await?;
            let is_held = leases::Entity::find()
                .filter(leases::Column::TeamId.eq(before.team_id))
                .filter(leases::Column::GrantId.eq(id))
                .filter(leases::Column::EventsHeld.gt(0))
                .filter(leases::Column::ExpiresAt.gt(now))
                .one(&transaction)
                .await?
                .is_some();
            if !is_held && before.events_leased >= before.total_events {
                self.save_finished(&transaction, before).await?;
            }
            Ok::<(), Abort>(())
        };
        let finished = finished.await;
        self.0.finish(transaction, finished).await
    }

    /// Writes the state with its entry in the activity log, and notifies the ingestion path.
    async fn save_finished(
        self,
        within: &DatabaseTransaction,
        mut migration: migrations::Model,
    ) -> Result<(), DbErr> {
        let audit = AuditChange::new(
            Activity::Updated,
            ActivityScope::HistoricalMigration,
            migration.organization_id,
            &migration.id,
            &migration.source,
        );
        let finished = MigrationState::Finished;
        let audit = audit.field("state", migration.state.to_value(), finished.to_value());
        self.0.record(within, &Actor::System, audit).await?;
        self.0.keys_changed(within).await?;
        migration.state = finished;
        let row = migration.into_active_model().reset_all();
        row.update(within).await.map(drop)
    }
}

/// Locks the organization of a project, so that neither is deleted or changed until the end.
async fn lock_owner(
    within: &DatabaseTransaction,
    project_id: ProjectId,
) -> Result<Option<organizations::Model>, DbErr> {
    let project = projects::Entity::find_by_id(project_id.0);
    let Some(seen) = project.clone().one(within).await? else {
        return Ok(None);
    };
    let mut owner = organizations::Entity::find_by_id(seen.organization_id);
    if within.get_database_backend() == DbBackend::Postgres {
        owner = owner.lock(LockType::KeyShare);
    }
    let owner = owner.one(within).await?;
    // It may have been deleted while its organization was waited for.
    let is_there = project.one(within).await?.is_some();
    Ok(owner.filter(|_| is_there))
}
