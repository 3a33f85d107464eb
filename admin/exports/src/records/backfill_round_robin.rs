//! Round robin of backfills whose next runs are to be planned.
//!
//! Organizations take turns, and the backfills of one take turns, from the oldest to the newest and
//! round again: however many backfills an organization asks for, and however long each takes to
//! count, another organization's is planned after one of them.

use super::Backfills;
use super::backfill_snapshot::{export_of, unknown_settings, windows_from};
use super::plan::open_backfills;
use super::unknown_values::has_readable_export;
use millrace_catalog::entities::batch_export_runs::{self as runs, RunStatus};
use millrace_catalog::entities::{batch_export_backfills as backfills, batch_exports as exports};
use millrace_catalog::{CatalogError, UtcTime};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DbErr, EntityTrait, Order, PaginatorTrait,
    QueryFilter, QueryOrder, QuerySelect, QueryTrait, Select,
};

/// Runs of a backfill that are made ahead.
pub const BACKFILL_RUNS_AHEAD: u64 = 10;
/// Open runs at which more are made. To find the next windows is a statement that reads all rows of
/// the range, so it is not asked for each window anew.
const LEFT_MAX: u64 = BACKFILL_RUNS_AHEAD / 2;
/// Organizations that are remembered. One that was served before all of these counts as never
/// served.
const REMEMBERED_MAX: usize = 10_000;

/// A backfill whose runs are not all made yet.
#[derive(Clone, Debug)]
pub struct OpenBackfill {
    /// Row of the backfill.
    pub backfill: backfills::Model,
    /// Export as it was when the backfill was asked for.
    pub export: exports::Model,
    /// Reason why this version cannot tell what was asked for; `None`: it can.
    pub unknown_settings: Option<String>,
    /// Number of its runs that have not ended.
    pub open_runs: u64,
    /// Start of its first window; `None`: the window by the clock in which the range starts.
    pub windows_from: Option<UtcTime>,
    /// End of the last window that it has a run of.
    pub windows_until: Option<UtcTime>,
}

/// Round robin of organizations and of their backfills, kept by the planner.
#[derive(Clone, Debug, Default)]
pub struct BackfillRoundRobin {
    /// Organizations that were served, the latest last, each with its backfill.
    served: Vec<Served>,
}

#[derive(Clone, Copy, Debug)]
struct Served {
    organization_id: Uuid,
    created_at: UtcTime,
    backfill_id: Uuid,
}

impl BackfillRoundRobin {
    /// Records that a backfill was served, and its organization with it.
    pub fn mark_served(&mut self, open: &OpenBackfill) {
        let organization_id = open.export.organization_id;
        self.served
            .retain(|served| served.organization_id != organization_id);
        if self.served.len() >= REMEMBERED_MAX {
            self.served.remove(0);
        }
        self.served.push(Served {
            organization_id,
            created_at: open.backfill.created_at,
            backfill_id: open.backfill.id,
        });
    }

    /// Least recently served of the organizations that wait; the first of those never served.
    fn next(&self, waiting: &[Uuid]) -> Option<Uuid> {
        let last_turn = |id: &&Uuid| {
            let mut served = self.served.iter();
            served.position(|served| served.organization_id == **id)
        };
        waiting.iter().min_by_key(last_turn).copied()
    }

    /// Last backfill of the organization that was served.
    fn last_of(&self, organization_id: Uuid) -> Option<Served> {
        let mut served = self.served.iter();
        served
            .find(|served| served.organization_id == organization_id)
            .copied()
    }
}

impl Backfills<'_> {
    /// Finds the backfill to plan next, of those that have few open runs and not all runs made.
    /// Organizations in `but` are left out.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn next_to_plan(
        self,
        round_robin: &BackfillRoundRobin,
        but: &[Uuid],
    ) -> Result<Option<OpenBackfill>, CatalogError> {
        let read = async {
            let waiting = waiting(self.0.reader(), but).await?;
            let Some(organization_id) = round_robin.next(&waiting) else {
                return Ok(None);
            };
            let own = to_plan().filter(
                backfills::Column::BatchExportId
                    .in_subquery(super::run_round_robin::exports_of(organization_id)),
            );
            let first = in_order(own.clone());
            let found = match round_robin.last_of(organization_id) {
                Some(last) => match in_order(own.filter(is_after(last)))
                    .one(self.0.reader())
                    .await?
                {
                    Some(found) => Some(found),
                    None => first.one(self.0.reader()).await?,
                },
                None => first.one(self.0.reader()).await?,
            };
            match found {
                Some(backfill) => opened(self.0.reader(), backfill).await,
                None => Ok(None),
            }
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }
}

/// Organizations with a backfill to plan, in the order of their ids.
async fn waiting<C: ConnectionTrait>(db: &C, but: &[Uuid]) -> Result<Vec<Uuid>, DbErr> {
    let mut due = to_plan().into_query();
    due.clear_selects().column(backfills::Column::BatchExportId);
    let mut waiting = Query::select();
    waiting
        .distinct()
        .column(exports::Column::OrganizationId)
        .from(exports::Entity)
        .and_where(exports::Column::Id.in_subquery(due))
        .order_by(exports::Column::OrganizationId, Order::Asc);
    let rows = db.query_all(&waiting).await?;
    let ids = rows
        .iter()
        .map(|row| row.try_get::<Uuid>("", "organization_id"));
    let ids: Vec<Uuid> = ids.collect::<Result<_, _>>()?;
    Ok(ids.into_iter().filter(|id| !but.contains(id)).collect())
}

/// Backfills that have few open runs and not all runs made, of exports that can be read. Runs
/// behind one that is tried again may have been pruned by now, and are not to be made once more: so
/// the number of ended runs counts.
fn to_plan() -> Select<backfills::Entity> {
    let open_runs = || {
        let count = runs::Entity::find()
            .select_only()
            .expr(runs::Column::Id.count())
            .filter(runs::Column::Status.is_in(RunStatus::OPEN))
            .filter(
                Expr::col((runs::Entity, runs::Column::BackfillId))
                    .equals((backfills::Entity, backfills::Column::Id)),
            );
        Expr::from(count.into_query())
    };
    let made = Expr::col((backfills::Entity, backfills::Column::FinishedRuns)).add(open_runs());
    let not_all = Condition::any()
        .add(backfills::Column::TotalRuns.is_null())
        .add(made.lt(Expr::col((backfills::Entity, backfills::Column::TotalRuns))));
    open_backfills()
        .filter(open_runs().lte(LEFT_MAX))
        .filter(not_all)
        .filter(has_readable_export((
            backfills::Entity,
            backfills::Column::BatchExportId,
        )))
}

fn in_order(query: Select<backfills::Entity>) -> Select<backfills::Entity> {
    query
        .order_by_asc(backfills::Column::CreatedAt)
        .order_by_asc(backfills::Column::Id)
}

fn is_after(last: Served) -> Condition {
    let (at, id) = (last.created_at, last.backfill_id);
    let same = Condition::all()
        .add(backfills::Column::CreatedAt.eq(at))
        .add(backfills::Column::Id.gt(id));
    Condition::any()
        .add(backfills::Column::CreatedAt.gt(at))
        .add(same)
}

/// Reads what the next runs of a backfill depend on; `None`: its export is gone.
async fn opened<C: ConnectionTrait>(
    db: &C,
    backfill: backfills::Model,
) -> Result<Option<OpenBackfill>, DbErr> {
    let export = exports::Entity::find_by_id(backfill.batch_export_id);
    let Some(export) = export.one(db).await? else {
        return Ok(None);
    };
    let own = runs::Entity::find().filter(runs::Column::BackfillId.eq(backfill.id));
    let open = own
        .clone()
        .filter(runs::Column::Status.is_in(RunStatus::OPEN));
    let last = own.order_by_desc(runs::Column::DataIntervalEnd);
    let last = last.one(db).await?;
    Ok(Some(OpenBackfill {
        export: export_of(&backfill, export),
        open_runs: open.count(db).await?,
        unknown_settings: unknown_settings(&backfill),
        windows_from: windows_from(&backfill),
        windows_until: last.map(|run| run.data_interval_end),
        backfill,
    }))
}
