//! Rows of a project's quota: read and locked, written.
//!
//! What was leased is taken out of a grant by an `UPDATE … RETURNING`, which finds no row where
//! that is more than is left.

use super::bucket::Bucket;
use super::project_quota::{DEFAULT_QUOTA, Grant, Lease, ProjectQuota};
use millrace_catalog::entities::historical_migrations::{self as migrations, MigrationState};
use millrace_catalog::entities::{import_leases as leases, import_quotas as quotas};
use millrace_catalog::transaction::locked;
use millrace_rows::ProjectId;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict};
use sea_orm::{
    ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter, QueryOrder,
};
use uuid::Uuid;

/// Events of the default quota of a project, in all.
const DEFAULT_QUOTA_EVENTS: i64 = 20_000_000;
/// Events of the default quota in a minute.
pub const DEFAULT_QUOTA_PER_MINUTE: i64 = 10_000;
/// Time after which the rows of expired leases are deleted, in microseconds.
const EXPIRED_KEPT_MICROS: i64 = 86_400_000_000;

/// Locks the row of a project's quota, which is created at its first import, and reads the quota.
pub async fn read_quota(
    within: &DatabaseTransaction,
    project_id: ProjectId,
    holder: Uuid,
    now: i64,
) -> Result<ProjectQuota, DbErr> {
    let new = quotas::ActiveModel {
        team_id: ActiveValue::Set(project_id.0),
        events_leased: ActiveValue::Set(0),
        events_imported: ActiveValue::Set(0),
        bucket_units: ActiveValue::Set(Bucket::FULL.units),
        bucket_per_minute: ActiveValue::Set(Bucket::FULL.per_minute),
        bucket_at: ActiveValue::Set(now),
    };
    let mut known = OnConflict::column(quotas::Column::TeamId);
    known.do_nothing();
    quotas::Entity::insert(new)
        .on_conflict(known)
        .exec_without_returning(within)
        .await?;
    let row = locked(within, quotas::Entity::find_by_id(project_id.0));
    let row = row.one(within).await?;
    let row = row.ok_or_else(|| DbErr::RecordNotFound("the import quota".to_owned()))?;
    let known = leases::Entity::find().filter(leases::Column::TeamId.eq(project_id.0));
    let leases = known.all(within).await?.into_iter().map(|lease| Lease {
        grant_id: lease.grant_id,
        counted: lease.events_counted,
        held: lease.events_held,
        is_own: lease.holder == holder,
        expires_at: lease.expires_at,
    });
    Ok(ProjectQuota {
        grants: grants(within, &row).await?,
        leases: leases.collect(),
        bucket: Bucket {
            units: row.bucket_units,
            per_minute: row.bucket_per_minute,
            at: row.bucket_at,
        },
        is_allowed: false,
    })
}

/// Reads the grants of a project in the order in which they are used up. The default quota is open
/// where nothing else was decided: a project with an approval has its numbers, and when that is
/// used up, nothing.
async fn grants(
    within: &DatabaseTransaction,
    default_quota: &quotas::Model,
) -> Result<Vec<Grant>, DbErr> {
    let decided = migrations::Entity::find()
        .filter(migrations::Column::TeamId.eq(default_quota.team_id))
        .filter(migrations::Column::State.ne(MigrationState::Requested))
        .order_by_asc(migrations::Column::CreatedAt)
        .order_by_asc(migrations::Column::Id)
        .all(within)
        .await?;
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
    Ok(std::iter::once(default_quota).chain(approvals).collect())
}

/// Writes the bucket, and what was leased and counted of each grant.
pub async fn write_quota(
    within: &DatabaseTransaction,
    project_id: ProjectId,
    quota: &ProjectQuota,
) -> Result<(), DbErr> {
    let bucket = quotas::ActiveModel {
        bucket_units: ActiveValue::Set(quota.bucket.units),
        bucket_per_minute: ActiveValue::Set(quota.bucket.per_minute),
        bucket_at: ActiveValue::Set(quota.bucket.at),
        ..Default::default()
    };
    quotas::Entity::update_many()
        .set(bucket)
        .filter(quotas::Column::TeamId.eq(project_id.0))
        .exec(within)
        .await?;
    for grant in &quota.grants {
        if (grant.newly_leased, grant.newly_counted) == (0, 0) {
            continue;
        }
        let is_within = if grant.id == DEFAULT_QUOTA {
            update_default_quota(within, project_id, grant).await?
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

/// Takes the lease out of the default quota; false if it is more than is left.
async fn update_default_quota(
    within: &DatabaseTransaction,
    project_id: ProjectId,
    grant: &Grant,
) -> Result<bool, DbErr> {
    let (leased, imported) = (quotas::Column::EventsLeased, quotas::Column::EventsImported);
    let new_leased = Expr::col(leased).add(grant.newly_leased);
    let mut update = quotas::Entity::update_many()
        .col_expr(leased, new_leased.clone())
        .col_expr(imported, Expr::col(imported).add(grant.newly_counted))
        .filter(quotas::Column::TeamId.eq(project_id.0));
    if grant.newly_leased > 0 {
        update = update.filter(new_leased.lte(DEFAULT_QUOTA_EVENTS));
    }
    let updated = update.exec_with_returning(within).await?;
    Ok(!updated.is_empty())
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
    let updated = update.exec_with_returning(within).await?;
    Ok(!updated.is_empty())
}

/// Writes the lease of the node, until it expires; a lease of nothing is deleted.
pub async fn write_lease(
    within: &DatabaseTransaction,
    project_id: ProjectId,
    holder: Uuid,
    now: i64,
    quota: &ProjectQuota,
) -> Result<(), DbErr> {
    let own = quota.leases.iter().filter(|lease| lease.is_own);
    let of_project = leases::Entity::delete_many().filter(leases::Column::TeamId.eq(project_id.0));
    if own.clone().all(|lease| lease.held == 0) {
        let is_of_holder = leases::Column::Holder.eq(holder);
        let is_old = leases::Column::ExpiresAt.lt(now - EXPIRED_KEPT_MICROS);
        of_project
            .filter(is_of_holder.or(is_old))
            .exec(within)
            .await?;
        return Ok(());
    }
    let rows = own.map(|lease| leases::ActiveModel {
        holder: ActiveValue::Set(holder),
        team_id: ActiveValue::Set(project_id.0),
        grant_id: ActiveValue::Set(lease.grant_id),
        events_counted: ActiveValue::Set(lease.counted),
        events_held: ActiveValue::Set(lease.held),
        expires_at: ActiveValue::Set(lease.expires_at),
    });
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
    leases::Entity::insert_many(rows)
        .on_conflict(again)
        .exec_without_returning(within)
        .await
        .map(drop)
}
