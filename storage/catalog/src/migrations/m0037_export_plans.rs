//! Times of pauses for the planner alone, as `last_paused_at` is the customer's to write; and
//! snapshots of exports in their backfills, which later changes of the export do not reach.

use super::columns::{big_integer_null, json_null};
use super::runner::{Migrate, Schema};
use async_trait::async_trait;
use sea_orm::DbErr;
use sea_orm::sea_query::{Expr, ExprTrait, Query, Table};

pub(super) struct Migration;

#[async_trait]
impl Migrate for Migration {
    fn name(&self) -> &'static str {
        "m0037_export_plans"
    }

    async fn up(&self, schema: &Schema<'_>) -> Result<(), DbErr> {
        // One at a time: SQLite adds one column with a statement.
        for column in [
            big_integer_null("paused_since"),
            big_integer_null("resumed_at"),
            json_null("passed_over"),
        ] {
            let mut table = Table::alter();
            table.table("batch_exports").add_column(column);
            schema.execute(&table).await?;
        }
        let mut backfills = Table::alter();
        backfills
            .table("batch_export_backfills")
            .add_column(json_null("asked_for"));
        schema.execute(&backfills).await?;
        // A time after the last change was made up by a client.
        let paused_at = Expr::col("last_paused_at");
        let changed_at = Expr::col("last_updated_at");
        let mut pauses = Query::update();
        pauses
            .table("batch_exports")
            .value(
                "paused_since",
                Expr::case(paused_at.clone().lte(changed_at.clone()), paused_at)
                    .finally(changed_at),
            )
            .and_where(Expr::col("paused").eq(true));
        schema.execute(&pauses).await?;
        // No window of these was planned, as they begin later: the planner computes it anew.
        let mut begins = Query::update();
        begins
            .table("batch_exports")
            .value("live_since", Option::<i64>::None)
            .value("windows_until", Option::<i64>::None)
            .value("next_window_end", Option::<i64>::None)
            .and_where(Expr::col("windows_until").eq(Expr::col("live_since")))
            .and_where(Expr::col("start_at").gt(Expr::col("created_at")));
        schema.execute(&begins).await
    }
}
