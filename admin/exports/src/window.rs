//! Windows of runs: the time range, project and model that a run exports.

use millrace_catalog::{BatchExport, BatchExportRun, ExportModel, ProjectId, UtcTime};
use uuid::Uuid;

/// Time of a row that decides whether it is in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowBy {
    /// Time of arrival (`created_at`): windows by the clock, so that late events are in one of
    /// them.
    Arrival,
    /// Time of the event (`timestamp`): backfills of times before the first window by the clock.
    /// Rows that have arrived since are, or will be, in a window by their arrival, and so not in
    /// this one.
    Timestamp {
        /// Start of the first window by the clock.
        arrived_before: UtcTime,
    },
}

/// Half-open range of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Inclusive start; `None`: from the beginning.
    pub start: Option<UtcTime>,
    /// Exclusive end.
    pub end: UtcTime,
    /// Time of a row that the range is about.
    pub by: WindowBy,
}

/// Scope of one run: whose rows it exports, of which model and window.
#[derive(Clone, Debug)]
pub struct RunScope {
    /// Id of the run.
    pub run_id: Uuid,
    /// Id of the run's export.
    pub export_id: Uuid,
    /// Project whose rows are exported.
    pub project_id: ProjectId,
    /// Model: events, persons or another.
    pub model: ExportModel,
    /// Window of the rows.
    pub window: Window,
}

impl Window {
    /// Instant from which on the window's rows are known: none that belongs to it arrives any more.
    #[must_use]
    pub fn known_from(&self) -> UtcTime {
        match self.by {
            WindowBy::Arrival => self.end,
            WindowBy::Timestamp { arrived_before } => arrived_before,
        }
    }
}

impl RunScope {
    /// Scope of a run of an export.
    #[must_use]
    pub fn of(export: &BatchExport, run: &BatchExportRun) -> Self {
        Self {
            run_id: run.id,
            export_id: export.id,
            project_id: ProjectId(export.team_id),
            model: export.model,
            window: Window::of(export, run.data_interval_start, run.data_interval_end),
        }
    }
}

impl Window {
    /// Creates a window of an export. From the first window by the clock on, rows belong to windows
    /// by their arrival, in backfills, too: so a backfill over a range that was exported by the
    /// clock has the same rows again, and no row is in two windows.
    #[must_use]
    pub fn of(export: &BatchExport, start: Option<UtcTime>, end: UtcTime) -> Self {
        let by = match export.live_since {
            Some(live_since) if start.is_none_or(|start| start < live_since) => {
                WindowBy::Timestamp {
                    arrived_before: live_since,
                }
            }
            _ => WindowBy::Arrival,
        };
        Self { start, end, by }
    }
}
