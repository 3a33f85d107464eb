//! Rows of projects' quotas: read and locked, written.
//!
//! What was leased is taken out of a grant by an `UPDATE`, which changes no row where that is more
//! than is left.

use super::bucket::Bucket;
use super::project_quota::{DEFAULT_QUOTA, Grant, Lease, ProjectQuota};
use millrace_catalog::entities::historical_migrations::{self as migrations, MigrationState};
use millrace_catalog::entities::{import_leases as leases, import_quotas as quotas};
use millrace_catalog::transaction::{locked, locked_if_free};
use millrace_rows::ProjectId;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict};
use sea_orm::{
    ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter, QueryOrder,
};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Events of the default quota of a project, in all.
const DEFAULT_QUOTA_EVENTS: i64 = 20_000_000;
/// Events of the default quota in a minute.
pub const DEFAULT_QUOTA_PER_MINUTE: i64 = 10_000;
/// Time after which the rows of expired leases are deleted, in microseconds.
const EXPIRED_KEPT_MICROS: i64 = 86_400_000_000;

/// Rows of one statement: a database limits the values in it.
const ROWS_MAX: usize = 1_000;

/// Reaction to a row that another transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfLocked {
    /// Wait for it.
    Wait,
    /// Leave its project out.
    LeaveOut,
}

/// Locks the rows of projects' quotas and reads the quotas. A row that does not exist is created if
/// locked rows are waited for: others may be creating it.
pub async fn read_quotas(
    within: &DatabaseTransaction,
    project_ids: &[ProjectId],
    holder: Uuid,
    now: i64,
    if_locked: IfLocked,
) -> Result<BTreeMap<ProjectId, ProjectQuota>, DbErr> {
    let rows = lock_rows(within, project_ids, now, if_locked).await?;
    let numbers = || rows.iter().map(|row| row.team_id);
    let found = leases::Entity::find()
        .filter(leases::Column::TeamId.is_in(numbers()))
        .all(within)
        .await?;
    let mut leases = BTreeMap::<i64, Vec<Lease>>::new();
    for lease in found {
        leases.entry(lease.team_id).or_default().push(Lease {
            grant_id: lease.grant_id,
            counted: lease.events_counted,
            held: lease.events_held,
            is_own: lease.holder == holder,
            expires_at: lease.expires_at,
        });
    }
    let found = migrations::Entity::find()
        .filter(migrations::Column::TeamId.is_in(numbers()))
        .filter(migrations::Column::State.ne(MigrationState::Requested))
        .order_by_asc(migrations::Column::CreatedAt)
        .order_by_asc(migrations::Column::Id)
        .all(within)
        .await?;
    let mut decided = BTreeMap::<i64, Vec<migrations::Model>>::new();
    for migration in found {
        decided
            .entry(migration.team_id)
            .or_default()
            .push(migration);
    }
    let quotas = rows.iter().map(|row| {
        let decided = decided.remove(&row.team_id).unwrap_or_default();
        let quota = ProjectQuota {
            grants: grants(&decided, row),
            leases: leases.remove(&row.team_id).unwrap_or_default(),
            bucket: Bucket {
                units: row.bucket_units,
                per_minute: row.bucket_per_minute,
                at: row.bucket_at,
            },
            is_allowed: false,
        };
        (ProjectId(row.team_id), quota)
    });
    Ok(quotas.collect())
}

/// Locks the rows of projects' quotas in the order of their numbers. They are read before any is
/// created, as they nearly always exist.
async fn lock_rows(
    within: &DatabaseTransaction,
    project_ids: &[ProjectId],
    now: i64,
    if_locked: IfLocked,
) -> Result<Vec<quotas::Model>, DbErr> {
    let query = quotas::Entity::find()
        .filter(quotas::Column::TeamId.is_in(project_ids.iter().map(|id| id.0)))
        .order_by_asc(quotas::Column::TeamId);
    if if_locked == IfLocked::LeaveOut {
        return locked_if_free(within, query).all(within).await;
    }
    let query = locked(within, query);
    let rows = query.clone().all(within).await?;
    if rows.len() == project_ids.len() {
        return Ok(rows);
    }
    let new = project_ids.iter().map(|id| quotas::ActiveModel {
        team_id: ActiveValue::Set(id.0),
        events_leased: ActiveValue::Set(0),
        events_imported: ActiveValue::Set(0),
        bucket_units: ActiveValue::Set(Bucket::FULL.units),
        bucket_per_minute: ActiveValue::Set(Bucket::FULL.per_minute),
        bucket_at: ActiveValue::Set(now),
    });
    let mut known = OnConflict::column(quotas::Column::TeamId);
    known.do_nothing();
    quotas::Entity::insert_many(new)
        .on_conflict(known)
        .exec_without_returning(within)
        .await?;
    query.all(within).await
}

/// Reads the grants of a project in the order in which they are used up. The default quota is open
/// where nothing else was decided: a project with an approval has its numbers, and when that is
/// used up, nothing.
fn grants(decided: &[migrations::Model], default_quota: &quotas::Model) -> Vec<Grant> {
    let is_open = |migration: &migrations::Model| migration.state == MigrationState::Approved;
    let replaces_default = |migration: &migrations::Model| {
        let is_used_up = migration.state == MigrationState::Finished
            && migration.events_leased >= migration.total_events;
        is_open(migration) || is_used_up
    };
    let grant = |id, per_minute, total: i64, leased, is_open| Grant {
        id,
        per_minute,
        left: total.saturating_sub(leased),
        is_open,
        newly_leased: 0,
        newly_counted: 0,
    };
    let default_quota = grant(
        DEFAULT_QUOTA,
        DEFAULT_QUOTA_PER_MINUTE,
        DEFAULT_QUOTA_EVENTS,
        default_quota.events_leased,
        !decided.iter().any(replaces_default),
    );
    let approvals = decided.iter().map(|it| {
        let (total, leased) = (it.total_events, it.events_leased);
        grant(it.id, it.events_per_minute, total, leased, is_open(it))
    });
    std::iter::once(default_quota).chain(approvals).collect()
}

/// Writes the bucket, and what was leased and counted of each grant.
pub async fn write_quota(
    within: &DatabaseTransaction,
    project_id: ProjectId,
    quota: &ProjectQuota,
) -> Result<(), DbErr> {
    for grant in &quota.grants {
        let is_within = if grant.id == DEFAULT_QUOTA {
            update_default_quota(within, project_id, grant, &quota.bucket).await?
        } else if (grant.newly_leased, grant.newly_counted) == (0, 0) {
            true
        } else {
            update_approval(within, grant).await?
        };
        if !is_within {
            let reason = format!("the lease exceeds the grant {}", grant.id);
            return Err(DbErr::Custom(reason));
        }
    }
    Ok(())
}

/// Writes the bucket, and takes the lease out of the default quota; false if it is more than is
/// left.
async fn update_default_quota(
    within: &DatabaseTransaction,
    project_id: ProjectId,
    grant: &Grant,
    bucket: &Bucket,
) -> Result<bool, DbErr> {
    let (leased, imported) = (quotas::Column::EventsLeased, quotas::Column::EventsImported);
    let new_leased = Expr::col(leased).add(grant.newly_leased);
    let mut update = quotas::Entity::update_many()
        .col_expr(leased, new_leased.clone())
        .col_expr(imported, Expr::col(imported).add(grant.newly_counted))
        .col_expr(quotas::Column::BucketUnits, Expr::value(bucket.units))
        .col_expr(
            quotas::Column::BucketPerMinute,
            Expr::value(bucket.per_minute),
        )
        .col_expr(quotas::Column::BucketAt, Expr::value(bucket.at))
        .filter(quotas::Column::TeamId.eq(project_id.0));
    if grant.newly_leased > 0 {
        update = update.filter(new_leased.lte(DEFAULT_QUOTA_EVENTS));
    }
    Ok(update.exec(within).await?.rows_affected > 0)
}

/// Takes the lease out of an approval; false if it is more than is left.
async fn update_approval(within: &DatabaseTransaction, grant: &Grant) -> Result<bool, DbErr> {
    let (leased, imported) = (
        migrations::Column::EventsLeased,
        migrations::Column::EventsImported,
    );
    let new_leased = Expr::col(leased).add(grant.newly_leased);
    let mut update = migrations::Entity::update_many()
        .col_expr(leased, new_leased.clone())
        .col_expr(imported, Expr::col(imported).add(grant.newly_counted))
        .filter(migrations::Column::Id.eq(grant.id));
    if grant.newly_leased > 0 {
        update = update.filter(new_leased.lte(Expr::col(migrations::Column::TotalEvents)));
    }
    Ok(update.exec(within).await?.rows_affected > 0)
}

/// Writes the leases of the node, until they expire; those of nothing are deleted.
pub async fn write_leases(
    within: &DatabaseTransaction,
    holder: Uuid,
    now: i64,
    settled: &[(ProjectId, ProjectQuota)],
) -> Result<(), DbErr> {
    let mut ended = Vec::new();
    let mut rows: Vec<leases::ActiveModel> = Vec::new();
    for (project_id, quota) in settled {
        let own = quota.leases.iter().filter(|lease| lease.is_own);
        if own.clone().all(|lease| lease.held == 0) {
            ended.push(project_id.0);
            continue;
        }
        rows.extend(own.map(|lease| leases::ActiveModel {
            holder: ActiveValue::Set(holder),
            team_id: ActiveValue::Set(project_id.0),
            grant_id: ActiveValue::Set(lease.grant_id),
            events_counted: ActiveValue::Set(lease.counted),
            events_held: ActiveValue::Set(lease.held),
            expires_at: ActiveValue::Set(lease.expires_at),
        }));
    }
    if !ended.is_empty() {
        let is_of_holder = leases::Column::Holder.eq(holder);
        let is_old = leases::Column::ExpiresAt.lt(now - EXPIRED_KEPT_MICROS);
        leases::Entity::delete_many()
            .filter(leases::Column::TeamId.is_in(ended))
            .filter(is_of_holder.or(is_old))
            .exec(within)
            .await?;
    }
    let mut again = OnConflict::columns([
        leases::Column::Holder,
        leases::Column::TeamId,
        leases::Column::GrantId,
    ]);
    again.update_columns([
        leases::Column::EventsCounted,
        leases::Column::EventsHeld,
        leases::Column::ExpiresAt,
    ]);
    for rows in rows.chunks(ROWS_MAX) {
        leases::Entity::insert_many(rows.iter().cloned())
            .on_conflict(again.clone())
            .exec_without_returning(within)
            .await?;
    }
    Ok(())
}
