//! Check for windows to plan and runs to claim: one statement, as it is asked again and again and
//! the answer is mostly no. The planner of backfills asks for those by itself.

use super::ExportPlanner;
use super::plan::due;
use super::run_round_robin::claimable;
use millrace_catalog::CatalogError;
use millrace_catalog::entities::ingest_nodes as nodes;
use sea_orm::sea_query::{Expr, Query};
use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, QuerySelect, QueryTrait};

impl ExportPlanner<'_> {
    /// Tells whether windows may be due, or a run can be claimed. Never `false` when there is work.
    /// It may be `true` as long as a window waits for the slowest node, as the fastest one decides.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn has_work(self) -> Result<bool, CatalogError> {
        let fastest = nodes::Entity::find()
            .select_only()
            .expr(nodes::Column::Watermark.max())
            .into_query();
        let until = Expr::from(fastest);
        let work = Condition::any()
            .add(Expr::exists(due(until).into_query()))
            .add(Expr::exists(claimable(self.0.reader()).into_query()));
        let mut query = Query::select();
        query.expr(Expr::value(1)).cond_where(work);
        let found = self.0.reader().query_one(&query).await;
        let found = found.map_err(|error| self.0.error(&error))?;
        Ok(found.is_some())
    }
}
