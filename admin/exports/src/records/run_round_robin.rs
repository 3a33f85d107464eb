//! Round robin among organizations: decides whose run is claimed next.
//!
//! One organization has at most half of the runs that are made at a time (one, if there is only
//! one): its runs may take hours, and nothing ends them for another's. Among the organizations that
//! wait and are below that share, the least recently served is next, however many runs are due and
//! since when: an organization may have as many runs due as it likes.

use super::plan::deleted_exports;
use super::unknown_values::has_readable_export;
use millrace_catalog::database_clock::clock;
use millrace_catalog::entities::batch_export_runs::{self as runs, RunStatus};
use millrace_catalog::entities::batch_exports as exports;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait, Query, SelectStatement};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, QueryTrait, Select};

/// Organizations that are remembered. One that was served before all of these counts as never
/// served.
const REMEMBERED_MAX: usize = 10_000;

/// Round robin of the organizations, kept by the process that claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRoundRobin {
    /// Most runs of one organization at a time.
    pub(super) runs_each_max: u64,
    /// Organizations that were served, the latest last.
    served: Vec<Uuid>,
}

impl RunRoundRobin {
    /// Starts a round robin for a process that makes up to `runs_max` runs at a time.
    #[must_use]
    pub fn new(runs_max: usize) -> Self {
        Self {
            runs_each_max: u64::try_from((runs_max / 2).clamp(1, runs_max.max(1))).unwrap_or(1),
            served: Vec::new(),
        }
    }

    /// Records that an organization was served.
    pub(super) fn mark_served(&mut self, organization_id: Uuid) {
        self.served.retain(|served| *served != organization_id);
        if self.served.len() >= REMEMBERED_MAX {
            self.served.remove(0);
        }
        self.served.push(organization_id);
    }

    /// Chooses the least recently served of those that wait; the first of those never served.
    pub(super) fn next(&self, waiting: &[Uuid]) -> Option<Uuid> {
        let last_turn = |id: &&Uuid| self.served.iter().position(|served| served == *id);
        waiting.iter().min_by_key(last_turn).copied()
    }
}

/// Runs that may be claimed.
pub(super) fn claimable<C: ConnectionTrait>(db: &C) -> Select<runs::Entity> {
    let mut busy = Query::select();
    busy.column(runs::Column::BatchExportId)
        .from("batch_export_runs")
        .and_where(runs::Column::Status.is_in(RunStatus::OPEN))
        .and_where(Expr::col(runs::Column::ClaimLapsesAt).gt(clock(db)));
    runs::Entity::find()
        .filter(runs::Column::Status.is_in(RunStatus::OPEN))
        .filter(Expr::col(runs::Column::NextTryAt).lte(clock(db)))
        .filter(runs::Column::BatchExportId.not_in_subquery(deleted_exports()))
        .filter(runs::Column::BatchExportId.not_in_subquery(busy))
        .filter(Expr::exists(hold(db)).not())
        .filter(has_readable_export((
            runs::Entity,
            runs::Column::BatchExportId,
        )))
}

/// Hold of a run's export, whose cancelled run may still be taken back.
fn hold<C: ConnectionTrait>(db: &C) -> SelectStatement {
    let of_run = (runs::Entity, runs::Column::BatchExportId);
    let mut held = Query::select();
    held.expr(Expr::value(1))
        .from(exports::Entity)
        .and_where(Expr::col((exports::Entity, exports::Column::Id)).equals(of_run))
        .and_where(Expr::col((exports::Entity, exports::Column::BusyUntil)).gt(clock(db)));
    held
}

/// Ids of an organization's exports.
pub(super) fn exports_of(organization_id: Uuid) -> SelectStatement {
    let mut ids = Query::select();
    ids.column(exports::Column::Id)
        .from(exports::Entity)
        .and_where(exports::Column::OrganizationId.eq(organization_id));
    ids
}

/// Finds organizations with a run that may be claimed and less than their share claimed, in the
/// order of their ids.
pub(super) async fn waiting<C: ConnectionTrait>(
    db: &C,
    runs_each_max: u64,
) -> Result<Vec<Uuid>, DbErr> {
    let of_exports = |ids: SelectStatement| {
        let mut organizations = Query::select();
        organizations
            .column(exports::Column::OrganizationId)
            .from(exports::Entity)
            .and_where(exports::Column::Id.in_subquery(ids));
        organizations
    };
    let mut due = claimable(db).into_query();
    due.clear_selects().column(runs::Column::BatchExportId);
    let mut busy = Query::select();
    busy.column(runs::Column::BatchExportId)
        .from(runs::Entity)
        .and_where(runs::Column::Status.is_in(RunStatus::OPEN))
        .and_where(Expr::col(runs::Column::ClaimLapsesAt).gt(clock(db)));
    // One run of an export is claimed at a time: so many exports, so many runs.
    let mut full = of_exports(busy);
    full.add_group_by([Expr::col(exports::Column::OrganizationId)])
        .and_having(Expr::col(exports::Column::Id).count().gte(runs_each_max));
    let mut waiting = of_exports(due);
    waiting
        .distinct()
        .and_where(exports::Column::OrganizationId.not_in_subquery(full))
        .order_by(exports::Column::OrganizationId, sea_orm::Order::Asc);
    let rows = db.query_all(&waiting).await?;
    rows.iter()
        .map(|row| row.try_get("", "organization_id"))
        .collect()
}
