//! Runs of the exports of a full organization, and their times.

use super::lock::lock;
use super::phase::Spread;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Mutex;

/// Runs that have ended, by id.
#[derive(Debug, Default)]
pub(super) struct ExportRuns(Mutex<Ended>);

#[derive(Debug, Default)]
struct Ended {
    exports: usize,
    runs: BTreeMap<String, EndedRun>,
}

#[derive(Debug)]
struct EndedRun {
    status: String,
    seconds: f64,
    /// True if it was seen to have ended in a round beyond those asked for.
    is_extra: bool,
}

/// Exports of a full organization and their runs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FullExports {
    /// Highest number of exports.
    pub exports: usize,
    /// Number of runs that have ended, by their status.
    pub runs: BTreeMap<String, u64>,
    /// Seconds from a run's creation to its end, its wait for a turn included, in the rounds that
    /// were asked for.
    pub seconds: Spread,
    /// The same of extra rounds.
    pub extra_seconds: Spread,
}

impl ExportRuns {
    /// Records the runs on a page of exports that have ended; returns the statuses of new ones.
    pub(super) fn record(&self, page: &Value, is_extra: bool) -> Vec<String> {
        let exports = page.pointer("/results").and_then(Value::as_array);
        let exports: Vec<&Value> = exports.into_iter().flatten().collect();
        let mut ended = lock(&self.0);
        ended.exports = ended.exports.max(exports.len());
        let runs = exports
            .into_iter()
            .filter_map(|export| export.get("latest_runs")?.as_array());
        let mut statuses = Vec::new();
        for (id, run) in runs.flatten().filter_map(ended_run) {
            if let Entry::Vacant(new) = ended.runs.entry(id) {
                statuses.push(run.status.clone());
                new.insert(EndedRun { is_extra, ..run });
            }
        }
        statuses
    }

    /// Figures so far.
    pub(super) fn figures(&self) -> FullExports {
        let ended = lock(&self.0);
        let mut runs = BTreeMap::<String, u64>::new();
        for run in ended.runs.values() {
            *runs.entry(run.status.clone()).or_default() += 1;
        }
        let spread = |is_extra| {
            let of_rounds = ended.runs.values().filter(|run| run.is_extra == is_extra);
            let seconds: Vec<f64> = of_rounds.map(|run| run.seconds).collect();
            Spread::of(&seconds)
        };
        FullExports {
            exports: ended.exports,
            runs,
            seconds: spread(false),
            extra_seconds: spread(true),
        }
    }
}

/// Id of a run that has ended, with its status and time.
fn ended_run(run: &Value) -> Option<(String, EndedRun)> {
    let text = |field: &str| run.get(field)?.as_str();
    let at = |field: &str| text(field)?.parse::<Timestamp>().ok();
    let (created, finished) = (at("created_at")?, at("finished_at")?);
    let micros = finished.as_microsecond() - created.as_microsecond();
    let run = EndedRun {
        status: text("status")?.to_owned(),
        seconds: micros as f64 / 1e6,
        is_extra: false,
    };
    Some((text("id")?.to_owned(), run))
}

impl fmt::Display for FullExports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.runs.iter();
        let runs = runs.map(|(status, count)| format!("{count} × {status}"));
        let runs = runs.collect::<Vec<_>>().join(", ");
        let Spread { p50, p95, max, .. } = self.seconds;
        write!(
            f,
            "exports of a full organization: {}, their runs: {runs}; p50 {p50:.1}, p95 {p95:.1}, \
             max {max:.1} s",
            self.exports
        )?;
        let Spread { p95, max, .. } = self.extra_seconds;
        match self.extra_seconds.count {
            0 => Ok(()),
            _ => write!(f, "; in extra rounds p95 {p95:.1}, max {max:.1} s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(id: &str, status: &str, finished_at: &Value) -> Value {
        json!({"id": id, "status": status, "created_at": "2026-11-29T10:00:00.500000Z",
            "finished_at": finished_at})
    }

    #[test]
    fn each_run_that_has_ended_counts_once_with_its_time() {
        let runs = ExportRuns::default();
        let page = json!({"results": [
            {"latest_runs": [
                run("a", "Completed", &json!("2026-11-29T10:00:02.500000Z")),
                run("b", "Running", &Value::Null),
            ]},
            {"latest_runs": [run("c", "Failed", &json!("2026-11-29T10:00:04.500000Z"))]},
            {"latest_runs": []},
        ]});
        assert_eq!(runs.record(&page, false), ["Completed", "Failed"]);
        assert!(runs.record(&page, true).is_empty(), "they are known");
        assert!(
            runs.record(&Value::Null, false).is_empty(),
            "it was not read"
        );
        let figures = runs.figures();
        assert_eq!(figures.exports, 3);
        assert_eq!(figures.runs["Completed"], 1);
        assert_eq!(figures.runs["Failed"], 1);
        assert_eq!((figures.seconds.p50, figures.seconds.max), (2.0, 4.0));
        let expected = "exports of a full organization: 3, their runs: 1 × Completed, 1 × Failed; \
            p50 2.0, p95 4.0, max 4.0 s";
        assert_eq!(figures.to_string(), expected);
        let late = run("d", "Completed", &json!("2026-11-29T10:00:09.500000Z"));
        let page = json!({"results": [{"latest_runs": [late]}]});
        assert_eq!(runs.record(&page, true), ["Completed"]);
        let figures = runs.figures();
        assert_eq!((figures.seconds.count, figures.seconds.max), (2, 4.0));
        assert_eq!(
            (figures.extra_seconds.count, figures.extra_seconds.max),
            (1, 9.0)
        );
        assert!(
            figures
                .to_string()
                .ends_with("in extra rounds p95 9.0, max 9.0 s")
        );
    }
}
