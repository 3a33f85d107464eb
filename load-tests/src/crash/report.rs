//! What came of all the kills.

use super::kill::Kind;
use super::subject::Started;
use crate::report::grouped;
use comfy_table::{CellAlignment, Table, presets};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// What came of the kills of one or all folders.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What they were drawn from.
    pub seed: u64,
    /// How often each kind was there.
    pub kinds: BTreeMap<Kind, Count>,
    /// Kills under historical load alone.
    pub historical_kills: u64,
    /// Kills after which disks lost their power, too.
    pub power_cuts: u64,
    /// How long each start took.
    pub starts: Vec<(Started, Duration)>,
    /// Events of acknowledged requests, rejected ones among them.
    pub acknowledged_events: u64,
    /// Rejected events that are stored.
    pub rejected_events: u64,
    /// Blocks that were sent again though their token was spent: tokens alone had lost them.
    pub resent_blocks: u64,
    /// Data folders.
    pub folders: u64,
    /// Comparisons with ClickHouse, those at the end of a folder not counted.
    pub checks: u64,
    /// Watermarks that were looked at under load, and held against what there was in the end.
    pub watermarks: u64,
    /// What is lost, doubled or otherwise wrong, in words.
    pub wrongs: Vec<String>,
    /// What kept folders from going on, in words.
    pub failures: Vec<String>,
    /// What has to be said besides.
    pub notes: BTreeSet<String>,
}

/// Kills of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Kills.
    pub kills: u64,
    /// Those that came at the place they were meant for.
    pub met: u64,
}

impl Report {
    /// A report of nothing yet.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// A report of what kept a folder from being begun.
    #[must_use]
    pub fn of_failure(error: &anyhow::Error) -> Self {
        let mut report = Self::default();
        report.failed(error);
        report
    }

    /// Notes what kept a folder from going on.
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

    /// Kills of all kinds.
    #[must_use]
    pub fn kills(&self) -> u64 {
        self.kinds.values().map(|count| count.kills).sum()
    }

    /// Kinds that were tried, and never came at their place: what is claimed of them was not tested.
    pub fn unmet(&self) -> impl Iterator<Item = Kind> {
        let never = self.kinds.iter().filter(|(_, count)| count.met == 0);
        never.map(|(kind, _)| *kind)
    }

    /// Whether nothing is wrong, every kind was there, and there was something to lose.
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
            "seed {}: {} kills in {} folders, {} of them under historical load alone, {} with a power cut;\n\
             {} events acknowledged, {} of them rejected,\n\
             compared {} times and at each folder's end, {} watermarks among it; \
             {} blocks had to be sent again under a new token",
            self.seed,
            of(self.kills()),
            self.folders,
            self.historical_kills,
            of(self.power_cuts),
            of(self.acknowledged_events),
            of(self.rejected_events),
            self.checks,
            self.watermarks,
            self.resent_blocks
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
    fn a_kind_that_never_came_at_its_place_is_not_clean() {
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
    fn what_was_found_before_a_failure_is_told_with_it() {
        let mut report = Report::new(1);
        report.killed(Kind::Random(Victim::Both), true);
        report.acknowledged_events = 7;
        report.add(Report::of_failure(
            &anyhow::anyhow!("no disk").context("kill 3"),
        ));
        assert!(!report.is_clean());
        let text = report.to_string();
        for part in [
            "1 kills",
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
