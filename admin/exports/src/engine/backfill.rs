//! Plans the next runs of one backfill.

use super::planner::PlanError;
use super::source::RunSource;
use super::state::Inner;
use crate::error::ExportError;
use crate::records::{BACKFILL_RUNS_AHEAD, Backfills, ExportInterval, ExportRuns, OpenBackfill};
use crate::window::{RunScope, Window, WindowBy};
use millrace_catalog::{BatchExport, ProjectId, UtcTime};
use std::time::Duration;
use uuid::Uuid;

/// Creates the next runs of a backfill: of windows that have rows, in order. Returns true if
/// anything could be done.
pub(super) async fn plan(
    inner: &Inner,
    open: OpenBackfill,
    watermark: UtcTime,
) -> Result<bool, PlanError> {
    if let Some(reason) = &open.unknown_settings {
        return Err(ExportError::permanent(reason.clone()).into());
    }
    let interval = ExportInterval::of(&open.export)?;
    let Some(ranges) = remaining_ranges(&open, interval, watermark) else {
        return Ok(false);
    };
    let planner = BackfillPlanner {
        inner,
        open,
        interval,
        ranges,
    };
    if planner.open.backfill.total_runs.is_none() {
        match planner.count_runs().await? {
            // The backfill has ended, or another process has counted its runs.
            None => return Ok(false),
            Some(0) => return Ok(true),
            Some(_) => {}
        }
    }
    let created = planner.create_runs().await?;
    if created.count == 0 && planner.open.open_runs == 0 && !created.is_taken_over {
        planner.end_early().await?;
    }
    Ok(created.count > 0)
}

/// Ranges of a backfill that have no runs yet; `None` while it cannot be planned.
fn remaining_ranges(
    open: &OpenBackfill,
    interval: ExportInterval,
    watermark: UtcTime,
) -> Option<Vec<Window>> {
    // The planner of windows sets it first.
    let live_since = open.export.live_since?;
    // Windows are whole, so that files are the same again. A window that had not ended when the
    // backfill was requested is exported by the clock.
    let requested_in = interval.window_start(open.backfill.created_at);
    let end = open.backfill.end_at.map_or(requested_in, |end| {
        interval.window_end(end.plus_micros(-1)).min(requested_in)
    });
    if end > watermark {
        return None;
    }
    let start = open.backfill.start_at.map(|at| interval.window_start(at));
    let first = open.windows_until.or(open.windows_from).or(start);
    Some(split(first, end, live_since))
}

/// Planner of one backfill.
struct BackfillPlanner<'a> {
    inner: &'a Inner,
    open: OpenBackfill,
    interval: ExportInterval,
    /// Ranges that have no runs yet.
    ranges: Vec<Window>,
}

/// Runs that a planner created.
struct CreatedRuns {
    count: u64,
    /// True if the backfill was ended meanwhile, or another process plans it.
    is_taken_over: bool,
}

impl BackfillPlanner<'_> {
    /// Counts the windows that have rows, and records how many runs the backfill will have; ends
    /// it if there are none. `None`: it has ended, or another process has counted them.
    async fn count_runs(&self) -> Result<Option<u64>, PlanError> {
        let mut total = 0;
        for range in &self.ranges {
            let scope = scope(&self.open.export, range);
            let source = RunSource::of(self.inner, &self.open.export, &scope)?;
            let query = source.window_query();
            total += query.count_windows(self.interval, self.work_max()).await?;
        }
        let (catalog, id) = (&self.inner.catalog, self.open.backfill.id);
        let is_recorded = if total == 0 {
            let why = nothing_found(&self.ranges);
            Backfills::new(catalog).end_empty(id, &why).await?
        } else {
            let total = i64::try_from(total).unwrap_or(i64::MAX);
            Backfills::new(catalog).plan(id, total).await?
        };
        Ok(is_recorded.then_some(total))
    }

    /// Longest work of a statement that finds windows.
    fn work_max(&self) -> Duration {
        self.inner.options.window_search_max
    }

    /// Creates runs of the next windows that have rows, as many as may be open at a time.
    async fn create_runs(&self) -> Result<CreatedRuns, PlanError> {
        let (catalog, id) = (&self.inner.catalog, self.open.backfill.id);
        let most = BACKFILL_RUNS_AHEAD.saturating_sub(self.open.open_runs);
        let mut created = CreatedRuns {
            count: 0,
            is_taken_over: false,
        };
        for range in &self.ranges {
            let scope = scope(&self.open.export, range);
            let source = RunSource::of(self.inner, &self.open.export, &scope)?;
            let query = source.window_query();
            let count_max = most - created.count;
            let next = query.first_windows(self.interval, count_max, self.work_max());
            for window in next.await? {
                if ExportRuns::new(catalog)
                    .begin_of_backfill(id, window)
                    .await?
                    .is_none()
                {
                    created.is_taken_over = true;
                    return Ok(created);
                }
                created.count += 1;
            }
            if created.count == most {
                break;
            }
        }
        Ok(created)
    }

    /// Ends a backfill with fewer windows of rows than were counted: rows were deleted meanwhile.
    async fn end_early(&self) -> Result<(), PlanError> {
        let (catalog, id) = (&self.inner.catalog, self.open.backfill.id);
        let why = "The rows of the range were deleted before there was a run.";
        Backfills::new(catalog).end_early(id, why).await?;
        Ok(())
    }
}

/// Reason that a backfill of these ranges has no runs, for customers.
fn nothing_found(ranges: &[Window]) -> String {
    let of_range = |range: &Window| {
        let end = range.end;
        match (range.by, range.start) {
            (WindowBy::Timestamp { arrived_before }, _) => format!(
                "of the rows with a timestamp before {end}, none that the export selects had \
                 arrived by {arrived_before}, where the export's own windows begin"
            ),
            (WindowBy::Arrival, Some(start)) => {
                format!("no rows that the export selects arrived from {start} to {end}")
            }
            (WindowBy::Arrival, None) => {
                format!("no rows that the export selects arrived before {end}")
            }
        }
    };
    let found: Vec<String> = ranges.iter().map(of_range).collect();
    format!(
        "There are no rows in the range: {}. Scheduled windows export rows that arrive later.",
        found.join("; ")
    )
}

/// Scope of a range's rows.
fn scope(export: &BatchExport, range: &Window) -> RunScope {
    RunScope {
        run_id: Uuid::nil(),
        export_id: export.id,
        project_id: ProjectId(export.team_id),
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
