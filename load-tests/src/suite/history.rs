//! History of the suite: a line per run.

use super::figure::{FigureName, Unit};
use super::options::Options;
use super::outcome::{Line, Plot, Report};
use super::server::Contestant;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Length of a commit's id in labels.
const COMMIT_CHARACTERS: usize = 9;

/// Short record of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Date of the run.
    pub date: String,
    /// Commit that was measured.
    pub commit: String,
    /// Processor of the machine: runs on different ones do not compare.
    pub cpu: String,
    /// All figures, by `case/name`.
    pub figures: BTreeMap<String, f64>,
}

impl Entry {
    /// Record of a report.
    #[must_use]
    pub fn of(report: &Report) -> Self {
        let run = report.outcomes.iter().filter(|it| it.origin.is_none());
        let figures = run.flat_map(|outcome| {
            let of_case = outcome.figures.iter();
            of_case.map(|(name, value)| (format!("{}/{name}", outcome.name), *value))
        });
        Self {
            date: report.machine.date.clone(),
            commit: report.machine.commit.clone(),
            cpu: report.machine.cpu.clone(),
            figures: figures.collect(),
        }
    }

    /// Date and commit, as a label of an axis.
    fn label(&self) -> String {
        let day = self.date.split('T').next().unwrap_or_default();
        let commit: String = self.commit.chars().take(COMMIT_CHARACTERS).collect();
        format!("{day} {commit}")
    }

    /// Appends the record to the history file, unless the run was too short to mean something.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn append(&self, options: &Options) -> Result<()> {
        if options.quick {
            return Ok(());
        }
        let path = &options.history;
        let mut line = serde_json::to_string(self).context("history")?;
        line.push('\n');
        std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(line.as_bytes()))
            .with_context(|| format!("cannot append to {}", path.display()))
    }
}

/// Reads all records so far; empty if there is no file yet.
///
/// # Errors
/// A line is not a record.
pub fn read(path: &Path) -> Result<Vec<Entry>> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let parse = |line: &str| serde_json::from_str(line);
    let entries: Result<_, _> = text.lines().map(parse).collect();
    entries.with_context(|| format!("{} is not a history", path.display()))
}

/// Plot of our rates, run by run: each run at its date and commit.
#[must_use]
pub fn plot(entries: &[Entry]) -> Plot {
    let rate = FigureName::new(Contestant::OURS.name(), Unit::EventsPerSecond);
    let rate = format!("/{rate}");
    let mut lines: BTreeMap<&str, Line> = BTreeMap::new();
    for (run, entry) in (1_u32..).zip(entries) {
        for (name, value) in &entry.figures {
            let Some(case) = name.strip_suffix(rate.as_str()) else {
                continue;
            };
            let line = lines.entry(case).or_default();
            case.clone_into(&mut line.name);
            line.points.push((f64::from(run), *value));
        }
    }
    Plot {
        x_labels: entries.iter().map(Entry::label).collect(),
        ..Plot::linear(
            "date and commit",
            "events/s of Millrace",
            lines.into_values().collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_a_line_from_its_first_run_on() {
        let entry = |figures: &[(&str, f64)]| Entry {
            figures: figures.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect(),
            ..Entry::default()
        };
        let plot = plot(&[
            entry(&[
                ("batches/Millrace: events_per_second", 1.0),
                ("batches/other", 9.0),
            ]),
            entry(&[
                ("batches/Millrace: events_per_second", 2.0),
                ("gzip/Millrace: events_per_second", 3.0),
            ]),
        ]);
        let points: Vec<_> = plot.lines.iter().map(|line| line.points.clone()).collect();
        assert_eq!(points, [vec![(1.0, 1.0), (2.0, 2.0)], vec![(2.0, 3.0)]]);
        assert_eq!(plot.lines[0].name, "batches");
    }

    #[test]
    fn a_run_is_labelled_by_its_date_and_commit() {
        let entry = Entry {
            date: "2026-11-22T22:14:43Z".to_owned(),
            commit: "898a00d2dd3f+".to_owned(),
            ..Entry::default()
        };
        assert_eq!(plot(&[entry]).x_labels, ["2026-11-22 898a00d2d"]);
    }

    #[test]
    fn a_missing_file_is_an_empty_history() {
        assert!(read(Path::new("/nonexistent/history")).unwrap().is_empty());
    }
}
