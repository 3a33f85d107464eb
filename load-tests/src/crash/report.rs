//! Results of the kills.

use super::kill::Kind;
use super::subject::Started;
use crate::digits::{counted, grouped};
use comfy_table::{CellAlignment, Table, presets};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// Results of the kills of one or all folders.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Seed of the kills.
    pub seed: u64,
    /// Number of kills by kind.
    pub kinds: BTreeMap<Kind, Count>,
    /// Number of kills under purely historical load.
    pub historical_kills: u64,
    /// Number of kills with a power cut.
    pub power_cuts: u64,
    /// Duration of each start.
    pub starts: Vec<(Started, Duration)>,
    /// Number of events in acknowledged requests, rejected ones included.
    pub acknowledged_events: u64,
    /// Number of stored rejected events.
    pub rejected_events: u64,
    /// Number of blocks that were sent again though their token was used up; tokens alone would
    /// have lost them.
    pub resent_blocks: u64,
    /// Number of data folders.
    pub folders: u64,
    /// Number of comparisons with ClickHouse, without those at the end of a folder.
    pub checks: u64,
    /// Number of watermarks read under load and checked against the rows at the end.
    pub watermarks: u64,
    /// Lost, doubled or otherwise wrong events, in words.
    pub wrongs: Vec<String>,
    /// Errors that kept folders from going on, in words.
    pub failures: Vec<String>,
    /// Further notes.
    pub notes: BTreeSet<String>,
}

/// Number of kills of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All kills of the kind.
    pub kills: u64,
    /// Kills that came at the place they were meant for.
    pub met: u64,
}

impl Report {
    /// An empty report.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// Report of a folder that could not be started.
    #[must_use]
    pub fn of_failure(error: &anyhow::Error) -> Self {
        let mut report = Self::default();
        report.failed(error);
        report
    }

    /// Records an error that kept a folder from going on.
    pub fn failed(&mut self, error: &anyhow::Error) {
        self.failures.push(format!("COULD NOT GO ON: {error:#}"));
    }

    /// Counts a kill.
    pub fn killed(&mut self, kind: Kind, is_met: bool) {
        let count = self.kinds.entry(kind).or_default();
        count.kills += 1;
        count.met += u64::from(is_met);
    }

    /// Adds the report of a folder.
    pub fn add(&mut self, other: Self) {
        for (kind, count) in other.kinds {
            let sum = self.kinds.entry(kind).or_default();
            sum.kills += count.kills;
            sum.met += count.met;
        }
        self.historical_kills += other.historical_kills;
        self.power_cuts += other.power_cuts;
        self.starts.extend(other.starts);
        self.acknowledged_events += other.acknowledged_events;
        self.rejected_events += other.rejected_events;
        self.resent_blocks += other.resent_blocks;
        self.folders += other.folders;
        self.checks += other.checks;
        self.watermarks += other.watermarks;
        self.wrongs.extend(other.wrongs);
        self.failures.extend(other.failures);
        self.notes.extend(other.notes);
    }

    /// Number of kills of all kinds.
    #[must_use]
    pub fn kills(&self) -> u64 {
        self.kinds.values().map(|count| count.kills).sum()
    }

    /// Kinds that never came at their place: claims about them were not tested.
    pub fn unmet(&self) -> impl Iterator<Item = Kind> {
        let never = self.kinds.iter().filter(|(_, count)| count.met == 0);
        never.map(|(kind, _)| *kind)
    }

    /// Returns true if nothing is wrong, every kind occurred, and events were acknowledged.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.wrongs.is_empty()
            && self.failures.is_empty()
            && self.unmet().next().is_none()
            && self.acknowledged_events > 0
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds = table(["killed", "kills", "at the place"]);
        for (kind, count) in &self.kinds {
            kinds.add_row([
                kind.to_string(),
                count.kills.to_string(),
                count.met.to_string(),
            ]);
        }
        writeln!(f, "{kinds}\n")?;
        let mut starts = table(["started", "times", "median s", "longest s"]);
        for row in start_rows(&self.starts) {
            starts.add_row(row);
        }
        writeln!(f, "{starts}\n")?;
        let of = |count: u64| grouped(count as f64);
        writeln!(
            f,
            "seed {}: {} in {}, {} of them under historical load alone, {} with a power cut;\n\
             {} acknowledged, {} of them rejected,\n\
             compared {} and at each folder's end, {} among it; \
             {} had to be sent again under a new token",
            self.seed,
            counted(self.kills(), "kill"),
            counted(self.folders, "folder"),
            self.historical_kills,
            of(self.power_cuts),
            counted(self.acknowledged_events, "event"),
            of(self.rejected_events),
            counted(self.checks, "time"),
            counted(self.watermarks, "watermark"),
            counted(self.resent_blocks, "block")
        )?;
        for kind in self.unmet() {
            writeln!(f, "NEVER MET: {kind}")?;
        }
        if self.acknowledged_events == 0 {
            writeln!(f, "NOTHING WAS ACKNOWLEDGED, so nothing could be lost")?;
        }
        let texts = self.notes.iter().chain(&self.wrongs);
        for text in texts.chain(&self.failures) {
            writeln!(f, "{text}\n")?;
        }
        f.write_str(if self.is_clean() {
            "OK: 0 lost, 0 duplicated"
        } else {
            "WRONG: see above"
        })
    }
}

fn start_rows(starts: &[(Started, Duration)]) -> Vec<[String; 4]> {
    let mut by_who = BTreeMap::<Started, Vec<Duration>>::new();
    for (who, took) in starts {
        by_who.entry(*who).or_default().push(*took);
    }
    let seconds =
        |took: Option<&Duration>| format!("{:.2}", took.map_or(0.0, Duration::as_secs_f64));
    let row = |(who, mut took): (Started, Vec<Duration>)| {
        took.sort_unstable();
        [
            who.to_string(),
            took.len().to_string(),
            seconds(took.get(took.len() / 2)),
            seconds(took.last()),
        ]
    };
    by_who.into_iter().map(row).collect()
}

fn table<const N: usize>(columns: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(columns);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::kill::Victim;

    #[test]
    fn a_kind_that_never_met_its_place_makes_the_report_unclean() {
        let mut report = Report::new(1);
        report.killed(Kind::Random(Victim::Both), true);
        assert!(!report.is_clean(), "nothing was acknowledged");
        report.acknowledged_events = 1;
        assert!(report.is_clean());
        report.killed(Kind::PartRename, false);
        assert!(!report.is_clean());
        assert!(report.to_string().contains("NEVER MET: part-rename"));
        let mut folder = Report::new(1);
        folder.killed(Kind::PartRename, true);
        report.add(folder);
        assert!(report.is_clean(), "{report}");
        assert_eq!(report.kills(), 3);
        report.wrongs.push("lost".to_owned());
        assert!(!report.is_clean());
    }

    #[test]
    fn findings_before_a_failure_are_reported_with_it() {
        let mut report = Report::new(1);
        report.killed(Kind::Random(Victim::Both), true);
        report.acknowledged_events = 7;
        report.add(Report::of_failure(
            &anyhow::anyhow!("no disk").context("kill 3"),
        ));
        assert!(!report.is_clean());
        let text = report.to_string();
        for part in [
            "1 kill in",
            "7 events",
            "COULD NOT GO ON: kill 3: no disk",
            "WRONG",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn starts_are_shown_with_median_and_maximum() {
        let starts = [30, 10, 20].map(|ms| (Started::Ingest, Duration::from_millis(ms)));
        let expected = ["ingest", "3", "0.02", "0.03"].map(str::to_owned);
        assert_eq!(start_rows(&starts), [expected]);
    }
}
