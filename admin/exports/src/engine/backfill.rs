//! Plans the next runs of one backfill.

use super::planner::PlanError;
use super::source::RunSource;
use super::state::Inner;
use crate::window::{RunScope, Window, WindowBy};
use millrace_catalog::{
    BACKFILL_RUNS_AHEAD, BatchExport, ExportInterval, OpenBackfill, TeamId, UtcTime,
};
use uuid::Uuid;

/// Creates the next runs of a backfill: of windows that have rows, in order. Returns true if
/// anything could be done.
pub(super) async fn plan(
    inner: &Inner,
    open: OpenBackfill,
    watermark: UtcTime,
) -> Result<bool, PlanError> {
    let OpenBackfill {
        backfill,
        export,
        open_runs,
        windows_until,
    } = open;
    // The text was checked to be an interval when it was stored.
    let interval: ExportInterval = export.interval.parse().unwrap_or(ExportInterval::Hour);
    let Some(live_since) = export.live_since else {
        // The planner of windows sets it first.
        return Ok(false);
    };
    // Windows are whole, so that files are the same again. A window that had not ended when the
    // backfill was requested is exported by the clock.
    let asked_at = interval.window_start(backfill.created_at);
    let end = backfill.end_at.map_or(asked_at, |end| {
        interval.window_end(end.plus_micros(-1)).min(asked_at)
    });
    if end > watermark {
        return Ok(false);
    }
    let first = backfill.start_at.map(|start| interval.window_start(start));
    let start = windows_until.or(first);
    let ranges = split(start, end, live_since);
    if backfill.total_runs.is_none() {
        let total = count(inner, &export, &ranges, interval).await?;
        if total == 0 {
            let why = nothing_found(&ranges);
            inner
                .catalog
                .end_empty_export_backfill(backfill.id, &why)
                .await?;
            return Ok(true);
        }
        let total = i64::try_from(total).unwrap_or(i64::MAX);
        inner
            .catalog
            .plan_export_backfill(backfill.id, total)
            .await?;
    }
    let mut runs_left = BACKFILL_RUNS_AHEAD.saturating_sub(open_runs);
    let mut made = 0;
    for range in &ranges {
        let scope = scope(&export, range);
        let source = RunSource::of(&inner.clickhouse, &export, &scope)?;
        let next = source
            .window_query()
            .first_windows(interval, runs_left)
            .await?;
        for window in next {
            let begun = inner.catalog.begin_backfill_run(backfill.id, window);
            // The backfill was ended meanwhile, or another process plans it.
            if begun.await?.is_none() {
                return Ok(made > 0);
            }
            runs_left -= 1;
            made += 1;
        }
        if runs_left == 0 {
            break;
        }
    }
    if made == 0 && open_runs == 0 {
        end_early(inner, backfill.id).await?;
    }
    Ok(made > 0)
}

/// Counts the windows of these ranges that have rows.
async fn count(
    inner: &Inner,
    export: &BatchExport,
    ranges: &[Window],
    interval: ExportInterval,
) -> Result<u64, PlanError> {
    let mut total = 0;
    for range in ranges {
        let scope = scope(export, range);
        let source = RunSource::of(&inner.clickhouse, export, &scope)?;
        total += source.window_query().count_windows(interval).await?;
    }
    Ok(total)
}

/// Ends a backfill with fewer windows of rows than were counted: rows were deleted meanwhile.
async fn end_early(inner: &Inner, id: Uuid) -> Result<(), PlanError> {
    match inner.catalog.count_backfill_runs(id).await? {
        0 => {
            let why = "The rows of the range were deleted before there was a run.";
            inner.catalog.end_empty_export_backfill(id, why).await?
        }
        made => inner.catalog.plan_export_backfill(id, made).await?,
    };
    Ok(())
}

/// Reason that a backfill of these ranges has no runs, for customers.
fn nothing_found(ranges: &[Window]) -> String {
    let of_range = |range: &Window| {
        let end = range.end;
        match (range.by, range.start) {
            (WindowBy::Timestamp { arrived_before }, _) => format!(
                "of what happened before {end}, nothing that the export takes had arrived by \
                 {arrived_before}, where the export's own windows begin"
            ),
            (WindowBy::Arrival, Some(start)) => {
                format!("nothing that the export takes arrived from {start} to {end}")
            }
            (WindowBy::Arrival, None) => {
                format!("nothing that the export takes arrived before {end}")
            }
        }
    };
    let found: Vec<String> = ranges.iter().map(of_range).collect();
    format!(
        "There is nothing in the range: {}. What arrives later comes by the clock.",
        found.join("; ")
    )
}

/// Scope of a range's rows.
fn scope(export: &BatchExport, range: &Window) -> RunScope {
    RunScope {
        run_id: Uuid::nil(),
        export_id: export.id,
        team_id: TeamId(export.team_id),
        model: export.model,
        window: *range,
    }
}

/// Splits a range where windows by the clock begin: earlier rows belong to windows by their
/// timestamp, later ones by their arrival.
fn split(start: Option<UtcTime>, end: UtcTime, live_since: UtcTime) -> Vec<Window> {
    let mut ranges = Vec::new();
    if start.is_none_or(|start| start < live_since) {
        ranges.push(Window {
            start,
            end: end.min(live_since),
            by: WindowBy::Timestamp {
                arrived_before: live_since,
            },
        });
    }
    if end > live_since {
        ranges.push(Window {
            start: Some(start.map_or(live_since, |start| start.max(live_since))),
            end,
            by: WindowBy::Arrival,
        });
    }
    ranges
}
