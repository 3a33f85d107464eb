//! What a run exports.

use millrace_catalog::{BatchExport, BatchExportRun, ExportModel, TeamId, UtcTime};
use uuid::Uuid;

/// Which time of a row decides whether it is in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowBy {
    /// When it arrived (`created_at`): windows by the clock, so that late events are in one of them.
    Arrival,
    /// When it happened (`timestamp`): backfills of times before the first window by the clock.
    /// What has arrived since is, or will be, in a window by its arrival, and so not in this one.
    Timestamp {
        /// The start of the first window by the clock.
        arrived_before: UtcTime,
    },
}

/// A half open range of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its start, within it; `None`: from the beginning.
    pub start: Option<UtcTime>,
    /// Its end, no more within it.
    pub end: UtcTime,
    /// Of which time.
    pub by: WindowBy,
}

/// One run, as those who carry it out know it.
#[derive(Clone, Debug)]
pub struct RunScope {
    /// The run.
    pub run_id: Uuid,
    /// Its export.
    pub export_id: Uuid,
    /// Whose rows.
    pub team_id: TeamId,
    /// Of what.
    pub model: ExportModel,
    /// Which of them.
    pub window: Window,
}

impl Window {
    /// The instant from which on its rows are known: none arrives any more that is in it.
    #[must_use]
    pub fn known_from(&self) -> UtcTime {
        match self.by {
            WindowBy::Arrival => self.end,
            WindowBy::Timestamp { arrived_before } => arrived_before,
        }
    }
}

impl RunScope {
    /// What a run of an export is to bring.
    #[must_use]
    pub fn of(export: &BatchExport, run: &BatchExportRun) -> Self {
        Self {
            run_id: run.id,
            export_id: export.id,
            team_id: TeamId(export.team_id),
            model: export.model,
            window: Window::of(export, run.data_interval_start, run.data_interval_end),
        }
    }
}

impl Window {
    /// A range of an export's time. From the first window by the clock on, rows are told apart by
    /// their arrival, whoever asks: so a backfill over what was exported by the clock brings the
    /// same rows again, and no row is in two windows.
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
