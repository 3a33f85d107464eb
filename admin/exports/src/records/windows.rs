//! Windows by the clock: those that are due, and those that a pause skips.
//!
//! Windows follow one another without a gap: each begins where the last one ended, also when the
//! interval has changed since. Windows that end while an export is paused are skipped; a backfill
//! makes up for them. An export that begins later (`start_at`) leaves the time until then out, once
//! its first window is planned; before that its start may be moved. Each other instant from the
//! first window on is in one window by the clock or in one skipped range, and so an export and the
//! backfills of its pauses have each row once.

use super::ExportInterval;
use millrace_catalog::entities::batch_exports as exports;
use millrace_catalog::{CatalogError, UtcTime};
use serde::{Deserialize, Serialize};

/// Most windows of one export that are planned at a time.
const WINDOWS_MAX: usize = 100;

/// Takes the windows out of an export that ended by then and are within its start and end.
///
/// # Errors
///
/// [`CatalogError::WrongInterval`].
pub(super) fn due_windows(
    export: &mut exports::Model,
    until: UtcTime,
) -> Result<Vec<(UtcTime, UtcTime)>, CatalogError> {
    let interval = ExportInterval::of(export)?;
    let first = next_start(export, interval);
    let until = match export.paused_since {
        Some(paused_at) if export.paused => until.min(paused_at),
        _ => until,
    };
    let mut skipped = SkippedRange::of(export);
    let mut start = first;
    let mut windows = Vec::new();
    while windows.len() < WINDOWS_MAX {
        if let Some(range) = skipped.iter().find(|range| range.has(start)) {
            start = UtcTime(range.until);
            continue;
        }
        let end = end_of(start, interval, &skipped);
        if end > until {
            break;
        }
        if export.end_at.is_none_or(|last| end <= last) {
            windows.push((start, end));
        }
        start = end;
    }
    // An export that begins later may still be changed to begin earlier.
    if start > first {
        export.windows_until = Some(start);
    }
    let settled_until = settled_until(export, interval);
    skipped.retain(|range| range.until > settled_until.0);
    export.next_window_end = Some(end_of(start, interval, &skipped));
    SkippedRange::keep(skipped, export);
    Ok(windows)
}

/// Start of the next window.
fn next_start(export: &mut exports::Model, interval: ExportInterval) -> UtcTime {
    let start = settled_until(export, interval);
    // An export that begins later leaves the time until then out.
    let begins = export.start_at.map(|at| interval.window_start(at));
    begins.map_or(start, |begins| begins.max(start))
}

/// End of the time whose windows are planned, skipped or left out, whatever `start_at` will be. The
/// first window by the clock is the one in which the export is created.
fn settled_until(export: &mut exports::Model, interval: ExportInterval) -> UtcTime {
    let first = interval.window_start(export.created_at);
    let live_since = *export.live_since.get_or_insert(first);
    export.windows_until.unwrap_or(live_since)
}

/// End of the window that starts then: no later than the next skipped range, which may begin within
/// the window if the interval has changed since.
fn end_of(start: UtcTime, interval: ExportInterval, skipped: &[SkippedRange]) -> UtcTime {
    let later = skipped.iter().filter(|range| range.from > start.0);
    let next = later.map(|range| range.from).min();
    let end = interval.window_end(start);
    next.map_or(end, |from| end.min(UtcTime(from)))
}

/// Resumes a paused export: windows that ended meanwhile are skipped. Windows that ended before the
/// pause and are not planned yet, as their rows are not all stored, stay due. Returns the start of
/// the first skipped window, which is none by the clock if the interval has changed; they end where
/// the present window starts. Windows before `start_at` are skipped as well: the backfill has them,
/// and the start may be moved earlier.
///
/// # Errors
///
/// [`CatalogError::WrongInterval`].
pub(super) fn skip_paused_windows(
    export: &mut exports::Model,
    now: UtcTime,
) -> Result<Option<UtcTime>, CatalogError> {
    let interval = ExportInterval::of(export)?;
    export.next_window_end = None;
    let Some(paused_since) = export.paused_since else {
        return Ok(None);
    };
    let settled_until = settled_until(export, interval);
    let mut skipped = SkippedRange::of(export);
    let earlier = skipped.iter().map(|range| range.until).max();
    let from = interval.window_start(paused_since).max(settled_until).0;
    let pause = SkippedRange {
        from: earlier.map_or(from, |until| from.max(until)),
        until: interval.window_start(now).0,
    };
    if pause.from >= pause.until {
        return Ok(None);
    }
    skipped.push(pause);
    SkippedRange::keep(skipped, export);
    Ok(Some(UtcTime(pause.from)))
}

/// Range in which no windows are made by the clock, as the export was paused; in microseconds since
/// 1970.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct SkippedRange {
    /// Start of the first window that ended in the pause.
    from: i64,
    /// Start of the window in which the export was resumed.
    until: i64,
}

impl SkippedRange {
    fn of(export: &exports::Model) -> Vec<Self> {
        let kept = export.passed_over.clone();
        // Only this module writes it.
        kept.and_then(|kept| serde_json::from_value(kept).ok())
            .unwrap_or_default()
    }

    fn keep(skipped: Vec<Self>, export: &mut exports::Model) {
        let kept = (!skipped.is_empty()).then(|| serde_json::to_value(skipped).ok());
        export.passed_over = kept.flatten();
    }

    fn has(self, start: UtcTime) -> bool {
        self.from <= start.0 && start.0 < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_catalog::entities::batch_exports::{DestinationType, ExportModel};
    use proptest::prelude::*;
    use sea_orm::prelude::{Json, Uuid};

    const MINUTE: i64 = 60_000_000;
    /// Thursday, 2026-01-01T00:00:00Z.
    const NOW: UtcTime = UtcTime(1_767_225_600_000_000);
    const INTERVALS: [&str; 5] = ["every 5 minutes", "every 59 minutes", "hour", "day", "week"];

    /// Step in the life of an export.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// Minutes pass.
        Pass(i64),
        /// Windows that ended so many minutes ago are planned.
        Plan(i64),
        Interval(&'static str),
        /// The export begins so many minutes from now, or ago if negative; `None`: at its creation.
        StartAt(Option<i64>),
        Pause,
        Resume,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (1_i64..3_000).prop_map(Step::Pass),
            (0_i64..5_000).prop_map(Step::Plan),
            prop::sample::select(INTERVALS.to_vec()).prop_map(Step::Interval),
            prop::option::of(-5_000_i64..5_000).prop_map(Step::StartAt),
            Just(Step::Pause),
            Just(Step::Resume),
        ];
        prop::collection::vec(step, 1..40)
    }

    fn export() -> exports::Model {
        exports::Model {
            id: Uuid::nil(),
            organization_id: Uuid::nil(),
            team_id: 1,
            name: String::new(),
            model: ExportModel::Events,
            destination_type: DestinationType::NoOp,
            destination_config: Json::Null,
            destination_secrets: Json::Null,
            files_at_root: false,
            interval: "hour".to_owned(),
            paused: false,
            last_paused_at: None,
            paused_since: None,
            resumed_at: None,
            passed_over: None,
            start_at: None,
            end_at: None,
            hogql_query: None,
            query_schema: None,
            live_since: None,
            windows_until: None,
            next_window_end: None,
            runs_count: 0,
            created_at: NOW,
            last_updated_at: NOW,
            waits_since: None,
            wait_told_at: None,
            busy_until: 0,
        }
    }

    /// Half-open range of time.
    type Range = (UtcTime, UtcTime);

    /// Life of an export: the ranges of time that were planned or skipped in it.
    struct Life {
        export: exports::Model,
        now: UtcTime,
        windows: Vec<Range>,
        skipped: Vec<Range>,
        /// Pauses that windows ended in, each until the last of these ends.
        pauses: Vec<Range>,
        /// Latest start that the export has begun at: earlier time may be left out.
        begun_at: UtcTime,
    }

    impl Life {
        fn new() -> Self {
            Self {
                export: export(),
                now: NOW,
                windows: Vec::new(),
                skipped: Vec::new(),
                pauses: Vec::new(),
                begun_at: UtcTime(i64::MIN),
            }
        }

        fn take(&mut self, step: Step) {
            match step {
                Step::Pass(minutes) => self.now = self.now.plus_micros(minutes * MINUTE),
                Step::Plan(minutes) => self.plan(self.now.plus_micros(-minutes * MINUTE)),
                Step::Interval(interval) => {
                    self.export.interval = interval.to_owned();
                    self.export.next_window_end = None;
                }
                Step::StartAt(minutes) => {
                    let start_at = minutes.map(|count| self.now.plus_micros(count * MINUTE));
                    self.export.start_at = start_at;
                    self.export.next_window_end = None;
                }
                Step::Pause if !self.export.paused => {
                    self.export.paused = true;
                    self.export.paused_since = Some(self.now);
                }
                Step::Resume if self.export.paused => self.resume(),
                Step::Pause | Step::Resume => {}
            }
        }

        fn resume(&mut self) {
            let paused_since = self.export.paused_since.unwrap();
            let skipped = skip_paused_windows(&mut self.export, self.now).unwrap();
            let interval = ExportInterval::of(&self.export).unwrap();
            let until = interval.window_start(self.now);
            self.skipped.extend(skipped.map(|from| (from, until)));
            if until > paused_since {
                self.pauses.push((paused_since, until));
            }
            self.export.paused = false;
            self.export.paused_since = None;
        }

        fn plan(&mut self, until: UtcTime) {
            let before = self.export.windows_until;
            let windows = due_windows(&mut self.export, until).unwrap();
            self.windows.extend(windows);
            let settled_until = before.or(self.export.live_since);
            let interval = ExportInterval::of(&self.export).unwrap();
            let begins = self.export.start_at.map(|at| interval.window_start(at));
            if self.export.windows_until != before && begins > settled_until {
                self.begun_at = self.begun_at.max(begins.unwrap());
            }
        }

        /// Plans all that has ended by now, from the creation on.
        fn end(&mut self) {
            self.take(Step::StartAt(None));
            self.take(Step::Resume);
            let is_due =
                |export: &exports::Model, now| export.next_window_end.is_none_or(|end| end <= now);
            while is_due(&self.export, self.now) {
                self.plan(self.now);
            }
        }
    }

    proptest! {
        #[test]
        fn windows_and_skipped_ranges_have_each_instant_once(steps in steps()) {
            let mut life = Life::new();
            for step in steps {
                life.take(step);
            }
            life.end();
            let mut ranges = [life.windows.as_slice(), life.skipped.as_slice()].concat();
            ranges.sort_unstable();
            let mut at = life.export.live_since.unwrap();
            for (start, end) in &ranges {
                prop_assert!(*start >= at, "twice: {:?}", ranges);
                let is_left_out = *start <= life.begun_at;
                prop_assert!(*start == at || is_left_out, "never: {:?}", ranges);
                prop_assert!(end > start, "{:?}", ranges);
                at = *end;
            }
            let interval = ExportInterval::of(&life.export).unwrap();
            prop_assert!(interval.window_end(at) > life.now, "up to now: {:?}", ranges);
            for (from, until) in &life.pauses {
                let is_apart = |(start, end): &Range| end <= from || start >= until;
                prop_assert!(life.windows.iter().all(is_apart), "{:?}", life.windows);
            }
        }
    }
}
