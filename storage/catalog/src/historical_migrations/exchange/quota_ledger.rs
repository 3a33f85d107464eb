//! Quota ledger of some projects: read and locked, settled, written.

use super::super::bucket::Bucket;
use super::super::project_quota::{
    DEFAULT_QUOTA, Grant, Lease, LeaseDecision, LeaseReport, ProjectQuota,
};
use crate::entities::historical_migrations::{self as migrations, MigrationState};
use crate::entities::{
    historical_allowances as quota_rows, historical_nodes as nodes,
    historical_slices as lease_rows, organizations, projects,
};
use crate::features::HISTORICAL_MIGRATIONS;
use crate::transaction::{Abort, locked};
use millrace_rows::ProjectId;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait, LockType, OnConflict};
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, EntityTrait,
    QueryFilter, QueryOrder, QuerySelect,
};
use std::collections::{BTreeMap, BTreeSet};

/// Time since a node's last report, in microseconds, within which it may be about to use its
/// leases. A node stops using them well before.
const LIVES_MICROS: i64 = 20_000_000;

/// Events of the default quota of a project, in all.
pub const DEFAULT_QUOTA_EVENTS: i64 = 20_000_000;
/// Events of the default quota in a minute.
pub const DEFAULT_QUOTA_PER_MINUTE: i64 = 10_000;
/// Rows of one statement, whose parameters are bounded.
const ROWS_MAX: usize = 1_000;

/// Quotas of the projects that a node reports on.
pub struct QuotaLedger {
    now: i64,
    quotas: BTreeMap<ProjectId, ProjectQuota>,
}

impl QuotaLedger {
    /// Reads the quotas of these projects, and locks them.
    pub async fn open(
        within: &DatabaseTransaction,
        now: i64,
        project_ids: impl Iterator<Item = ProjectId>,
    ) -> Result<Self, Abort> {
        let project_ids: Vec<i64> = project_ids.map(|project| project.0).collect();
        let mut quotas = BTreeMap::new();
        // All organizations before any project: changes of organizations lock in that order.
        let organizations = lock_organizations(within, &project_ids).await?;
        for part in project_ids.chunks(ROWS_MAX) {
            let owners = owners(within, part).await?;
            let living: Vec<i64> = owners.keys().copied().collect();
            create_quotas(within, &living, now).await?;
            // Rows of a project are read behind its lock.
            let rows = lock_quotas(within, &living).await?;
            let mut grants = grants(within, &living).await?;
            let mut leases_of_nodes = leases_of_nodes(within, &living, now).await?;
            for row in rows {
                let organization = owners.get(&row.team_id);
                let organization = organization.and_then(|id| organizations.get(id));
                let known = grants.remove(&row.team_id).unwrap_or_default();
                let quota = ProjectQuota {
                    grants: with_default_quota(known, row.events_unasked),
                    leases: leases_of_nodes.remove(&row.team_id).unwrap_or_default(),
                    bucket: Bucket {
                        units: row.bucket_units,
                        per_minute: row.bucket_per_minute,
                        at: row.bucket_at,
                    },
                    revoke_request: row.wanted_by.map(|by| (by, row.wanted_at)),
                    is_allowed: organization
                        .is_some_and(|it| it.has_feature(HISTORICAL_MIGRATIONS)),
                };
                quotas.insert(ProjectId(row.team_id), quota);
            }
        }
        Ok(Self { now, quotas })
    }

    /// Settles a node's report about a project; `None` if there is no such project.
    pub fn settle(
        &mut self,
        project_id: ProjectId,
        node: &str,
        lease_report: LeaseReport,
    ) -> Option<LeaseDecision> {
        let quota = self.quotas.get_mut(&project_id)?;
        Some(quota.settle(node, self.now, lease_report, DEFAULT_QUOTA_PER_MINUTE))
    }

    /// Approved migrations with no event left.
    pub fn used_up(&self) -> Vec<Uuid> {
        let grants = self.quotas.values().flat_map(|it| &it.grants);
        let used_up = grants.filter(|it| it.is_open && it.left <= 0 && it.id != DEFAULT_QUOTA);
        used_up.map(|grant| grant.id).collect()
    }

    /// Writes the changes.
    pub async fn write(&self, within: &DatabaseTransaction) -> Result<(), DbErr> {
        self.write_counts(within).await?;
        self.write_leases(within).await?;
        self.write_quotas(within).await
    }

    async fn write_counts(&self, within: &DatabaseTransaction) -> Result<(), DbErr> {
        let grants = self.quotas.values().flat_map(|it| &it.grants);
        let counted = grants.filter(|it| it.newly_counted > 0 && it.id != DEFAULT_QUOTA);
        let mut counted: Vec<_> = counted.map(|it| (it.id, it.newly_counted)).collect();
        counted.sort_unstable();
        for (id, events) in counted {
            let imported = migrations::Column::EventsImported;
            migrations::Entity::update_many()
                .col_expr(imported, Expr::col(imported).add(events))
                .filter(migrations::Column::Id.eq(id))
                .exec(within)
                .await?;
        }
        Ok(())
    }

    async fn write_leases(&self, within: &DatabaseTransaction) -> Result<(), DbErr> {
        let mut rows = Vec::new();
        for (project_id, quota) in &self.quotas {
            let changed = quota.leases.iter().filter(|lease| lease.has_changed);
            rows.extend(changed.map(|lease| lease_rows::ActiveModel {
                node: ActiveValue::Set(lease.node.clone()),
                team_id: ActiveValue::Set(project_id.0),
                grant_id: ActiveValue::Set(lease.grant_id),
                events_counted: ActiveValue::Set(lease.counted),
                events_held: ActiveValue::Set(lease.held),
            }));
        }
        for part in rows.chunks(ROWS_MAX) {
            let mut again = OnConflict::columns([
                lease_rows::Column::Node,
                lease_rows::Column::TeamId,
                lease_rows::Column::GrantId,
            ]);
            again.update_columns([
                lease_rows::Column::EventsCounted,
                lease_rows::Column::EventsHeld,
            ]);
            lease_rows::Entity::insert_many(part.to_vec())
                .on_conflict(again)
                .exec_without_returning(within)
                .await?;
        }
        Ok(())
    }

    async fn write_quotas(&self, within: &DatabaseTransaction) -> Result<(), DbErr> {
        for (project_id, quota) in &self.quotas {
            let default_quota = quota.grants.iter().find(|grant| grant.id == DEFAULT_QUOTA);
            let counted = default_quota.map_or(0, |grant| grant.newly_counted);
            let (by, since) = quota.revoke_request.clone().unzip();
            let events = quota_rows::Column::EventsUnasked;
            quota_rows::Entity::update_many()
                .set(quota_rows::ActiveModel {
                    bucket_units: ActiveValue::Set(quota.bucket.units),
                    bucket_per_minute: ActiveValue::Set(quota.bucket.per_minute),
                    bucket_at: ActiveValue::Set(quota.bucket.at),
                    wanted_by: ActiveValue::Set(by),
                    wanted_at: ActiveValue::Set(since.unwrap_or_default()),
                    ..Default::default()
                })
                .col_expr(events, Expr::col(events).add(counted))
                .filter(quota_rows::Column::TeamId.eq(project_id.0))
                .exec(within)
                .await?;
        }
        Ok(())
    }
}

/// Locks the organizations of these projects, so that none is deleted or changed until the end.
async fn lock_organizations(
    within: &DatabaseTransaction,
    project_ids: &[i64],
) -> Result<BTreeMap<Uuid, organizations::Model>, DbErr> {
    let mut ids = BTreeSet::new();
    for part in project_ids.chunks(ROWS_MAX) {
        ids.extend(owners(within, part).await?.into_values());
    }
    let ids: Vec<Uuid> = ids.into_iter().collect();
    let mut found = BTreeMap::new();
    for part in ids.chunks(ROWS_MAX) {
        let mut query = organizations::Entity::find()
            .filter(organizations::Column::Id.is_in(part.iter().copied()))
            .order_by_asc(organizations::Column::Id);
        if within.get_database_backend() == DbBackend::Postgres {
            query = query.lock(LockType::KeyShare);
        }
        let rows = query.all(within).await?;
        found.extend(rows.into_iter().map(|row| (row.id, row)));
    }
    Ok(found)
}

/// Finds the organization of each project; projects that are gone are missing.
async fn owners(
    within: &DatabaseTransaction,
    project_ids: &[i64],
) -> Result<BTreeMap<i64, Uuid>, DbErr> {
    let found: Vec<(i64, Uuid)> = projects::Entity::find()
        .select_only()
        .column(projects::Column::Id)
        .column(projects::Column::OrganizationId)
        .filter(projects::Column::Id.is_in(project_ids.iter().copied()))
        .into_tuple()
        .all(within)
        .await?;
    Ok(found.into_iter().collect())
}

/// Creates the rows of projects that import for the first time.
async fn create_quotas(
    within: &DatabaseTransaction,
    project_ids: &[i64],
    now: i64,
) -> Result<(), DbErr> {
    if project_ids.is_empty() {
        return Ok(());
    }
    let rows = project_ids
        .iter()
        .map(|project_id| quota_rows::ActiveModel {
            team_id: ActiveValue::Set(*project_id),
            events_unasked: ActiveValue::Set(0),
            bucket_units: ActiveValue::Set(Bucket::FULL.units),
            bucket_per_minute: ActiveValue::Set(Bucket::FULL.per_minute),
            bucket_at: ActiveValue::Set(now),
            wanted_by: ActiveValue::Set(None),
            wanted_at: ActiveValue::Set(0),
        });
    let mut known = OnConflict::column(quota_rows::Column::TeamId);
    known.do_nothing();
    quota_rows::Entity::insert_many(rows)
        .on_conflict(known)
        .exec_without_returning(within)
        .await?;
    Ok(())
}

async fn lock_quotas(
    within: &DatabaseTransaction,
    project_ids: &[i64],
) -> Result<Vec<quota_rows::Model>, DbErr> {
    let query = quota_rows::Entity::find()
        .filter(quota_rows::Column::TeamId.is_in(project_ids.iter().copied()))
        .order_by_asc(quota_rows::Column::TeamId);
    locked(within, query).all(within).await
}

/// Reads approved and ended grants, by project, oldest first.
async fn grants(
    within: &DatabaseTransaction,
    project_ids: &[i64],
) -> Result<BTreeMap<i64, Vec<(migrations::Model, Grant)>>, DbErr> {
    let found = migrations::Entity::find()
        .filter(migrations::Column::TeamId.is_in(project_ids.iter().copied()))
        .filter(migrations::Column::State.ne(MigrationState::Requested))
        .order_by_asc(migrations::Column::CreatedAt)
        .order_by_asc(migrations::Column::Id)
        .all(within)
        .await?;
    let mut grants: BTreeMap<i64, Vec<_>> = BTreeMap::new();
    for migration in found {
        let grant = Grant {
            id: migration.id,
            per_minute: migration.events_per_minute,
            left: migration
                .total_events
                .saturating_sub(migration.events_imported),
            is_open: migration.state == MigrationState::Approved,
            newly_counted: 0,
        };
        let of_project = grants.entry(migration.team_id).or_default();
        of_project.push((migration, grant));
    }
    Ok(grants)
}

/// Adds the default quota, which is open where nothing else was decided: a project with an approval
/// has its numbers, and when that is used up, nothing.
fn with_default_quota(known: Vec<(migrations::Model, Grant)>, counted: i64) -> Vec<Grant> {
    let is_decided = known.iter().any(|(migration, grant)| {
        let is_used_up = migration.state == MigrationState::Finished && grant.left <= 0;
        grant.is_open || is_used_up
    });
    let default_quota = Grant {
        id: DEFAULT_QUOTA,
        per_minute: DEFAULT_QUOTA_PER_MINUTE,
        left: DEFAULT_QUOTA_EVENTS.saturating_sub(counted),
        is_open: !is_decided,
        newly_counted: 0,
    };
    let approved = known.into_iter().map(|(_, grant)| grant);
    std::iter::once(default_quota).chain(approved).collect()
}

/// Reads the leases of all nodes, by project.
async fn leases_of_nodes(
    within: &DatabaseTransaction,
    project_ids: &[i64],
    now: i64,
) -> Result<BTreeMap<i64, Vec<Lease>>, DbErr> {
    let seen = nodes::Entity::find().all(within).await?;
    let live = seen.iter().filter(|it| now - it.seen_at < LIVES_MICROS);
    let live: BTreeSet<&str> = live.map(|node| &*node.node).collect();
    let found = lease_rows::Entity::find()
        .filter(lease_rows::Column::TeamId.is_in(project_ids.iter().copied()))
        .all(within)
        .await?;
    let mut leases_of_nodes: BTreeMap<i64, Vec<Lease>> = BTreeMap::new();
    for row in found {
        leases_of_nodes.entry(row.team_id).or_default().push(Lease {
            is_live: live.contains(&*row.node),
            node: row.node,
            grant_id: row.grant_id,
            counted: row.events_counted,
            held: row.events_held,
            has_changed: false,
        });
    }
    Ok(leases_of_nodes)
}
