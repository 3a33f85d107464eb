//! The books of some projects: read and locked, settled, written.

use super::super::account::{Account, Grant, Slice, SliceDecision, SliceStand, UNASKED};
use super::super::bucket::Bucket;
use super::LIVES_MICROS;
use crate::entities::historical_migrations::{self as migrations, MigrationState};
use crate::entities::{
    historical_allowances as allowances, historical_nodes as nodes, historical_slices as slices,
    organizations, projects,
};
use crate::features::HISTORICAL_MIGRATIONS;
use crate::transaction::{Abort, locked};
use millrace_rows::TeamId;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait, LockType, OnConflict};
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, EntityTrait,
    QueryFilter, QueryOrder, QuerySelect,
};
use std::collections::{BTreeMap, BTreeSet};

/// Events that a project may import without an approval, in all.
pub const UNASKED_EVENTS_MAX: i64 = 20_000_000;
/// The same in a minute.
pub const UNASKED_PER_MINUTE: i64 = 10_000;
/// Rows that one statement is about; its parameters are bounded.
const ROWS_MAX: usize = 1_000;

/// The accounts of the projects that a node speaks of.
pub struct Books {
    now: i64,
    accounts: BTreeMap<TeamId, Account>,
}

impl Books {
    /// Reads what there is of these projects, and locks it.
    pub async fn open(
        within: &DatabaseTransaction,
        now: i64,
        teams: impl Iterator<Item = TeamId>,
    ) -> Result<Self, Abort> {
        let teams: Vec<i64> = teams.map(|team| team.0).collect();
        let mut accounts = BTreeMap::new();
        // All organizations before any project: changes of organizations lock in that order.
        let organizations = lock_organizations(within, &teams).await?;
        for part in teams.chunks(ROWS_MAX) {
            let owners = owners(within, part).await?;
            let living: Vec<i64> = owners.keys().copied().collect();
            open_allowances(within, &living, now).await?;
            // What is read of a project is read behind its lock.
            let rows = lock_allowances(within, &living).await?;
            let mut grants = grants(within, &living).await?;
            let mut of_nodes = of_nodes(within, &living, now).await?;
            for row in rows {
                let organization = owners.get(&row.team_id);
                let organization = organization.and_then(|id| organizations.get(id));
                let known = grants.remove(&row.team_id).unwrap_or_default();
                let account = Account {
                    grants: with_unasked(known, row.events_unasked),
                    slices: of_nodes.remove(&row.team_id).unwrap_or_default(),
                    bucket: Bucket {
                        units: row.bucket_units,
                        per_minute: row.bucket_per_minute,
                        at: row.bucket_at,
                    },
                    wish: row.wanted_by.map(|by| (by, row.wanted_at)),
                    is_allowed: organization
                        .is_some_and(|it| it.has_feature(HISTORICAL_MIGRATIONS)),
                };
                accounts.insert(TeamId(row.team_id), account);
            }
        }
        Ok(Self { now, accounts })
    }

    /// What a node says of a project, and what it is told; `None` if there is no such project.
    pub fn settle(
        &mut self,
        team_id: TeamId,
        node: &str,
        stand: SliceStand,
    ) -> Option<SliceDecision> {
        let account = self.accounts.get_mut(&team_id)?;
        Some(account.settle(node, self.now, stand, UNASKED_PER_MINUTE))
    }

    /// Migrations that may run still and have no event left.
    pub fn used_up(&self) -> Vec<Uuid> {
        let grants = self.accounts.values().flat_map(|it| &it.grants);
        let used_up = grants.filter(|it| it.is_open && it.left <= 0 && it.id != UNASKED);
        used_up.map(|grant| grant.id).collect()
    }

    /// Writes what changed.
    pub async fn write(&self, within: &DatabaseTransaction) -> Result<(), DbErr> {
        self.write_counts(within).await?;
        self.write_slices(within).await?;
        self.write_allowances(within).await
    }

    async fn write_counts(&self, within: &DatabaseTransaction) -> Result<(), DbErr> {
        let grants = self.accounts.values().flat_map(|it| &it.grants);
        let counted = grants.filter(|it| it.newly_counted > 0 && it.id != UNASKED);
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

    async fn write_slices(&self, within: &DatabaseTransaction) -> Result<(), DbErr> {
        let mut rows = Vec::new();
        for (team_id, account) in &self.accounts {
            let changed = account.slices.iter().filter(|slice| slice.has_changed);
            rows.extend(changed.map(|slice| slices::ActiveModel {
                node: ActiveValue::Set(slice.node.clone()),
                team_id: ActiveValue::Set(team_id.0),
                grant_id: ActiveValue::Set(slice.grant_id),
                events_counted: ActiveValue::Set(slice.counted),
                events_held: ActiveValue::Set(slice.held),
            }));
        }
        for part in rows.chunks(ROWS_MAX) {
            let mut again = OnConflict::columns([
                slices::Column::Node,
                slices::Column::TeamId,
                slices::Column::GrantId,
            ]);
            again.update_columns([slices::Column::EventsCounted, slices::Column::EventsHeld]);
            slices::Entity::insert_many(part.to_vec())
                .on_conflict(again)
                .exec_without_returning(within)
                .await?;
        }
        Ok(())
    }

    async fn write_allowances(&self, within: &DatabaseTransaction) -> Result<(), DbErr> {
        for (team_id, account) in &self.accounts {
            let unasked = account.grants.iter().find(|grant| grant.id == UNASKED);
            let counted = unasked.map_or(0, |grant| grant.newly_counted);
            let (by, since) = account.wish.clone().unzip();
            let events = allowances::Column::EventsUnasked;
            allowances::Entity::update_many()
                .set(allowances::ActiveModel {
                    bucket_units: ActiveValue::Set(account.bucket.units),
                    bucket_per_minute: ActiveValue::Set(account.bucket.per_minute),
                    bucket_at: ActiveValue::Set(account.bucket.at),
                    wanted_by: ActiveValue::Set(by),
                    wanted_at: ActiveValue::Set(since.unwrap_or_default()),
                    ..Default::default()
                })
                .col_expr(events, Expr::col(events).add(counted))
                .filter(allowances::Column::TeamId.eq(team_id.0))
                .exec(within)
                .await?;
        }
        Ok(())
    }
}

/// The organizations of these projects, none of which is deleted or changed until the end.
async fn lock_organizations(
    within: &DatabaseTransaction,
    teams: &[i64],
) -> Result<BTreeMap<Uuid, organizations::Model>, DbErr> {
    let mut ids = BTreeSet::new();
    for part in teams.chunks(ROWS_MAX) {
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

/// Whose each of these projects is; those that are no more are missing.
async fn owners(within: &DatabaseTransaction, teams: &[i64]) -> Result<BTreeMap<i64, Uuid>, DbErr> {
    let found: Vec<(i64, Uuid)> = projects::Entity::find()
        .select_only()
        .column(projects::Column::Id)
        .column(projects::Column::OrganizationId)
        .filter(projects::Column::Id.is_in(teams.iter().copied()))
        .into_tuple()
        .all(within)
        .await?;
    Ok(found.into_iter().collect())
}

/// Makes the rows of projects that import for the first time.
async fn open_allowances(
    within: &DatabaseTransaction,
    teams: &[i64],
    now: i64,
) -> Result<(), DbErr> {
    if teams.is_empty() {
        return Ok(());
    }
    let rows = teams.iter().map(|team_id| allowances::ActiveModel {
        team_id: ActiveValue::Set(*team_id),
        events_unasked: ActiveValue::Set(0),
        bucket_units: ActiveValue::Set(Bucket::FULL.units),
        bucket_per_minute: ActiveValue::Set(Bucket::FULL.per_minute),
        bucket_at: ActiveValue::Set(now),
        wanted_by: ActiveValue::Set(None),
        wanted_at: ActiveValue::Set(0),
    });
    let mut known = OnConflict::column(allowances::Column::TeamId);
    known.do_nothing();
    allowances::Entity::insert_many(rows)
        .on_conflict(known)
        .exec_without_returning(within)
        .await?;
    Ok(())
}

async fn lock_allowances(
    within: &DatabaseTransaction,
    teams: &[i64],
) -> Result<Vec<allowances::Model>, DbErr> {
    let query = allowances::Entity::find()
        .filter(allowances::Column::TeamId.is_in(teams.iter().copied()))
        .order_by_asc(allowances::Column::TeamId);
    locked(within, query).all(within).await
}

/// What was approved, by project, oldest first, and what was and has come to its end.
async fn grants(
    within: &DatabaseTransaction,
    teams: &[i64],
) -> Result<BTreeMap<i64, Vec<(migrations::Model, Grant)>>, DbErr> {
    let found = migrations::Entity::find()
        .filter(migrations::Column::TeamId.is_in(teams.iter().copied()))
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
        let of_team = grants.entry(migration.team_id).or_default();
        of_team.push((migration, grant));
    }
    Ok(grants)
}

/// What anyone may import unasked, for whom nothing else was decided: a project with an approval has
/// what that says, and when that is used up, nothing.
fn with_unasked(known: Vec<(migrations::Model, Grant)>, counted: i64) -> Vec<Grant> {
    let is_decided = known.iter().any(|(migration, grant)| {
        let is_used_up = migration.state == MigrationState::Finished && grant.left <= 0;
        grant.is_open || is_used_up
    });
    let unasked = Grant {
        id: UNASKED,
        per_minute: UNASKED_PER_MINUTE,
        left: UNASKED_EVENTS_MAX.saturating_sub(counted),
        is_open: !is_decided,
        newly_counted: 0,
    };
    let approved = known.into_iter().map(|(_, grant)| grant);
    std::iter::once(unasked).chain(approved).collect()
}

/// What nodes counted and hold, by project.
async fn of_nodes(
    within: &DatabaseTransaction,
    teams: &[i64],
    now: i64,
) -> Result<BTreeMap<i64, Vec<Slice>>, DbErr> {
    let seen = nodes::Entity::find().all(within).await?;
    let live = seen.iter().filter(|it| now - it.seen_at < LIVES_MICROS);
    let live: BTreeSet<&str> = live.map(|node| &*node.node).collect();
    let found = slices::Entity::find()
        .filter(slices::Column::TeamId.is_in(teams.iter().copied()))
        .all(within)
        .await?;
    let mut of_nodes: BTreeMap<i64, Vec<Slice>> = BTreeMap::new();
    for row in found {
        of_nodes.entry(row.team_id).or_default().push(Slice {
            is_live: live.contains(&*row.node),
            node: row.node,
            grant_id: row.grant_id,
            counted: row.events_counted,
            held: row.events_held,
            has_changed: false,
        });
    }
    Ok(of_nodes)
}
