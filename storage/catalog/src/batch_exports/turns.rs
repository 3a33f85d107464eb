//! Which organization's run is claimed next.
//!
//! One organization has at most half of the runs that are made at a time (one, if there is only one):
//! its runs may go on for hours, and nothing ends them for another's. Among those that wait and may
//! have one, whoever had none for the longest is next, whatever is due: an organization may have as many runs
//! due as it likes.

use super::claims::claimable;
use crate::entities::batch_export_runs::{self as runs, RunStatus};
use crate::entities::batch_exports as exports;
use crate::leases::clock;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait, Query, SelectStatement};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, QueryTrait};

/// Organizations that are remembered: those that had a turn before these count as never served.
const REMEMBERED_MAX: usize = 10_000;

/// Turns of organizations, kept by whoever claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportTurns {
    /// The most runs of one organization at a time.
    pub(super) runs_each_max: u64,
    /// Who had a turn, the latest last.
    served: Vec<Uuid>,
}

impl ExportTurns {
    /// Turns where so many runs are made at a time.
    #[must_use]
    pub fn new(runs_max: usize) -> Self {
        Self {
            runs_each_max: u64::try_from((runs_max / 2).clamp(1, runs_max.max(1))).unwrap_or(1),
            served: Vec::new(),
        }
    }

    /// Remembers that an organization has had its turn.
    pub fn had(&mut self, organization_id: Uuid) {
        self.served.retain(|served| *served != organization_id);
        if self.served.len() >= REMEMBERED_MAX {
            self.served.remove(0);
        }
        self.served.push(organization_id);
    }

    /// Chooses among those that wait; the first of those that had none.
    pub(super) fn next(&self, waiting: &[Uuid]) -> Option<Uuid> {
        let last_turn = |id: &&Uuid| self.served.iter().position(|served| served == *id);
        waiting.iter().min_by_key(last_turn).copied()
    }
}

/// The ids of an organization's exports.
pub(super) fn exports_of(organization_id: Uuid) -> SelectStatement {
    let mut ids = Query::select();
    ids.column(exports::Column::Id)
        .from(exports::Entity)
        .and_where(exports::Column::OrganizationId.eq(organization_id));
    ids
}

/// Organizations with a run that may be claimed, and less than their share claimed, in the order of
/// their ids.
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
    // Of an export one run is claimed at a time: so many exports, so many runs.
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
