//! Renewal of quota leases: a node reports what it imported of some projects, and is leased more.
//!
//! A transaction locks the organizations of its projects first, so that these exist until the end,
//! then the rows of their quotas, where nodes queue up, and writes leases and migrations under
//! these locks. Each step locks in ascending order.
//!
//! - **One project** waits for a row as long as a node waits for the answer: given up by the node
//!   alone, it would keep its connection.
//! - **Several projects** wait for none of these rows: a project is left out whose rows somebody
//!   has locked, or whose renewal needs more than its own rows. The node renews those one by one.
//!   So a row that somebody holds holds up one project, and no two such transactions wait for each
//!   other.

use super::ImportQuotas;
use super::bucket::Bucket;
use super::project_quota::{LeaseDecision, LeaseReport, ProjectQuota};
use super::rows::{DEFAULT_QUOTA_PER_MINUTE, IfLocked, read_quotas, write_leases, write_quota};
use millrace_catalog::entities::historical_migrations::{self as migrations, MigrationState};
use millrace_catalog::entities::ingest_nodes::{self, NodeState};
use millrace_catalog::entities::{
    import_leases as leases, import_quotas as quotas, organizations, projects,
};
use millrace_catalog::features::HISTORICAL_MIGRATIONS;
use millrace_catalog::transaction::{Abort, lock_organization, locked};
use millrace_catalog::{Activity, ActivityScope, Actor, AuditChange, CatalogError, ChangeError};
use millrace_rows::ProjectId;
use sea_orm::sea_query::{Expr, LockBehavior, LockType};
use sea_orm::{
    ActiveEnum, ActiveModelTrait, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend,
    DbErr, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder, QuerySelect,
};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Time since a node last published its watermark, in microseconds, within which it counts as
/// running.
const RUNS_MICROS: i64 = 30_000_000;

/// Outcome of a transaction that renewed leases.
#[derive(Default)]
struct Renewed {
    /// Answers to the reports; `None`: there is no such project any more.
    decisions: BTreeMap<ProjectId, Option<LeaseDecision>>,
    /// Migrations whose events are all leased and settled.
    used_up: Vec<Uuid>,
}

/// Projects whose organizations are locked, so that neither are deleted or changed until the end.
struct LockedProjects {
    /// Projects, each with true if its organization may import.
    may_import: BTreeMap<ProjectId, bool>,
    /// Projects that do not exist any more.
    deleted: Vec<ProjectId>,
}

impl ImportQuotas<'_> {
    /// Most projects of one transaction: more would hold the locks of each for longer.
    pub const PROJECTS_MAX: usize = 50;

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
        let reports = BTreeMap::from([(project_id, lease_report)]);
        let renewed = self.renew(holder, &reports, IfLocked::Wait).await?;
        for id in renewed.used_up {
            self.finish_used_up(id).await?;
        }
        Ok(renewed.decisions.get(&project_id).copied().flatten())
    }

    /// Renews the leases of up to [`ImportQuotas::PROJECTS_MAX`] projects in one transaction, as
    /// [`ImportQuotas::renew_lease`] does each. A project without an answer was left alone: it is
    /// to be renewed by itself.
    ///
    /// # Errors
    ///
    /// As [`ImportQuotas::renew_lease`], of all projects.
    pub async fn renew_leases(
        self,
        holder: Uuid,
        reports: &BTreeMap<ProjectId, LeaseReport>,
    ) -> Result<BTreeMap<ProjectId, Option<LeaseDecision>>, ChangeError> {
        let renewed = self.renew(holder, reports, IfLocked::LeaveOut).await?;
        Ok(renewed.decisions)
    }

    async fn renew(
        self,
        holder: Uuid,
        reports: &BTreeMap<ProjectId, LeaseReport>,
        if_locked: IfLocked,
    ) -> Result<Renewed, ChangeError> {
        let transaction = self.0.begin_bounded().await?;
        let renewed = self.settle(&transaction, holder, reports, if_locked).await;
        self.0.finish(transaction, renewed).await
    }

    async fn settle(
        self,
        within: &DatabaseTransaction,
        holder: Uuid,
        reports: &BTreeMap<ProjectId, LeaseReport>,
        if_locked: IfLocked,
    ) -> Result<Renewed, Abort> {
        let ids: Vec<ProjectId> = reports.keys().copied().collect();
        let projects = lock_projects(within, &ids, if_locked).await?;
        let now = self.0.shared_now(within).await?;
        let kept: Vec<ProjectId> = projects.may_import.keys().copied().collect();
        let mut quotas = read_quotas(within, &kept, holder, now, if_locked).await?;
        let mut renewed = Renewed::default();
        let mut settled: Vec<(ProjectId, ProjectQuota)> = Vec::new();
        for (id, may_import) in projects.may_import {
            let (Some(mut quota), Some(report)) = (quotas.remove(&id), reports.get(&id)) else {
                continue;
            };
            quota.is_allowed = may_import;
            let decision = quota.settle(now, *report, DEFAULT_QUOTA_PER_MINUTE);
            let used_up = quota.used_up(now);
            // To finish them, organizations are waited for.
            if if_locked == IfLocked::LeaveOut && !used_up.is_empty() {
                continue;
            }
            write_quota(within, id, &quota).await?;
            renewed.used_up.extend(used_up);
            renewed.decisions.insert(id, Some(decision));
            settled.push((id, quota));
        }
        write_leases(within, holder, now, &settled).await?;
        let deleted = projects.deleted.into_iter().map(|id| (id, None));
        renewed.decisions.extend(deleted);
        Ok(renewed)
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
                .filter(leases::Column::EventsHeld.gt(0_i64))
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

/// Locks the organizations of projects. Those that somebody has locked are left out on demand, with
/// their projects.
async fn lock_projects(
    within: &DatabaseTransaction,
    ids: &[ProjectId],
    if_locked: IfLocked,
) -> Result<LockedProjects, DbErr> {
    let owners = owner_ids(within, ids).await?;
    let mut organizations = organizations::Entity::find()
        .filter(organizations::Column::Id.is_in(owners.values().copied()))
        .order_by_asc(organizations::Column::Id);
    if within.get_database_backend() == DbBackend::Postgres {
        organizations = match if_locked {
            IfLocked::Wait => organizations.lock(LockType::KeyShare),
            IfLocked::LeaveOut => {
                organizations.lock_with_behavior(LockType::KeyShare, LockBehavior::SkipLocked)
            }
        };
    }
    let organizations: BTreeMap<Uuid, bool> = organizations
        .all(within)
        .await?
        .into_iter()
        .map(|owner| (owner.id, owner.has_feature(HISTORICAL_MIGRATIONS)))
        .collect();
    // Some may have been deleted while their organizations were waited for.
    let owners = owner_ids(within, ids).await?;
    let is_deleted = |id: &&ProjectId| !owners.contains_key(*id);
    let may_import = owners
        .iter()
        .filter_map(|(id, owner)| Some((*id, *organizations.get(owner)?)));
    Ok(LockedProjects {
        may_import: may_import.collect(),
        deleted: ids.iter().filter(is_deleted).copied().collect(),
    })
}

/// Organization of each of these projects that exists.
async fn owner_ids(
    within: &DatabaseTransaction,
    ids: &[ProjectId],
) -> Result<BTreeMap<ProjectId, Uuid>, DbErr> {
    let owners: Vec<(i64, Uuid)> = projects::Entity::find()
        .select_only()
        .column(projects::Column::Id)
        .column(projects::Column::OrganizationId)
        .filter(projects::Column::Id.is_in(ids.iter().map(|id| id.0)))
        .into_tuple()
        .all(within)
        .await?;
    let owners = owners.into_iter().map(|(id, owner)| (ProjectId(id), owner));
    Ok(owners.collect())
}
