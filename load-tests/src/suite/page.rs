//! Results page as Markdown: an opening, the peers, every case with a legend of its columns, and
//! the history.

use super::legend::legends;
use super::machine::{commit, commits_since};
use super::opening::Opening;
use super::outcome::{Outcome, Report};
use super::render;
use crate::digits::counted;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Name of the picture of the opening.
pub const OPENING: &str = "opening";
/// Name of the plot of the history.
pub const HISTORY: &str = "history";
/// Warning above short runs.
pub const SHORT: &str = "A short run, to see that all works: these figures mean nothing.";
/// How the figures are made.
pub const METHOD: &str = "Servers run on CPUs of their own, in turn, round by round; the ratio of \
    a round compares what ran within seconds of one another, so quote ratios. `events per CPU s` \
    is by the server's own CPU time.";

/// Content of the page, for Markdown and for the web.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Results of the suite.
    pub report: &'a Report,
    /// Opening, if peers were measured.
    pub opening: Option<&'a Opening>,
    /// Tables of what is measured beside the suite: peers, and properties as columns.
    pub beside: &'a [Outcome],
    /// Pictures as SVG, by their names.
    pub pictures: &'a BTreeMap<String, String>,
}

impl Page<'_> {
    /// Facts about the machine and the commit.
    #[must_use]
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let machine = &self.report.machine;
        let gibibytes = machine.memory_bytes as f64 / f64::from(1 << 30);
        vec![
            ("CPU", format!("{}, {} CPUs", machine.cpu, machine.cpus)),
            ("Memory", format!("{gibibytes:.1} GiB")),
            ("Kernel", machine.kernel.clone()),
            (
                "Commit",
                format!("`{}`, {}", machine.commit, age(&machine.commit)),
            ),
            ("Date", machine.date.clone()),
            ("Command", format!("`{}`", self.report.command)),
        ]
    }

    /// Tables in the order of the page.
    pub fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.beside.iter().chain(&self.report.outcomes)
    }

    /// Page as Markdown; pictures are in a folder beside it.
    #[must_use]
    pub fn markdown(&self, folder: &str) -> String {
        let mut text = String::from("# Results\n\n");
        if self.report.quick {
            let _ = writeln!(text, "**{SHORT}**\n");
        }
        if let Some(opening) = self.opening {
            let _ = writeln!(text, "{}\n", opening.sentences.join(" "));
            let _ = writeln!(text, "![{}]({folder}/{OPENING}.svg)\n", opening.title);
        }
        // Writing to a String does not fail.
        let _ = writeln!(text, "| | |\n| --- | --- |");
        for (name, value) in self.facts() {
            let _ = writeln!(text, "| {name} | {value} |");
        }
        let _ = writeln!(text, "\n{METHOD}");
        for outcome in self.outcomes() {
            self.section(&mut text, outcome, folder);
        }
        if self.pictures.contains_key(HISTORY) {
            let _ = write!(
                text,
                "\n## Run by run\n\n![Run by run]({folder}/{HISTORY}.svg)\n"
            );
        }
        text
    }

    fn section(&self, text: &mut String, outcome: &Outcome, folder: &str) {
        let table = render::markdown(outcome);
        let _ = write!(text, "\n## {}\n\n{table}", outcome.title);
        let legends = legends(&outcome.columns);
        if !legends.is_empty() {
            let _ = writeln!(text, "\n<details><summary>Columns</summary>\n");
            for (column, meaning) in legends {
                let _ = writeln!(text, "- *{column}*: {meaning}");
            }
            let _ = writeln!(text, "\n</details>");
        }
        if let Some(origin) = origin(outcome) {
            let _ = writeln!(text, "\n{origin}");
        }
        if self.pictures.contains_key(&outcome.name) {
            let (title, name) = (&outcome.title, &outcome.name);
            let _ = write!(text, "\n![{title}]({folder}/{name}.svg)\n");
        }
    }
}

/// Sentence about the run that a result comes from, if it is another than the page's.
#[must_use]
pub fn origin(outcome: &Outcome) -> Option<String> {
    let origin = outcome.origin.as_ref()?;
    let (commit, date) = (&origin.commit, &origin.date);
    Some(format!(
        "Measured at commit `{commit}`, {date}; {}.",
        age(commit)
    ))
}

/// Number of commits since a measured one, as text.
fn age(measured: &str) -> String {
    match commits_since(measured) {
        Some(0) => "the commit of this page".to_owned(),
        Some(commits) => format!("{} behind `{}`", counted(commits, "commit"), commit()),
        None => "a commit that this repository does not have".to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::figure::{FigureName, Unit};
    use super::super::findings::{Cell, Findings};
    use super::super::machine::Machine;
    use super::super::outcome::{Line, Plot};
    use super::super::peers::tests::results;
    use super::super::{peer_tables, results::pictures};
    use super::*;

    /// A report of one case with a plot.
    pub fn report() -> Report {
        let mut findings = Findings::with_columns(&["connections", "events/s"]);
        findings.row(["1".into(), Cell::Grouped(1_000.0)]);
        findings.figure(FigureName::new("rate", Unit::EventsPerSecond), 1_000.0);
        findings.plot = Some(Plot::logarithmic(
            "connections",
            "µs",
            vec![Line::new("ours", vec![(1.0, 2.0), (10.0, 2.5)])],
        ));
        let outcome = render::outcome("connections", "Cost by connections", findings);
        Report {
            machine: Machine {
                cpu: "EPYC".to_owned(),
                cpus: 2,
                ..Machine::default()
            },
            command: "make bench".to_owned(),
            quick: false,
            outcomes: vec![outcome],
        }
    }

    #[test]
    fn a_page_names_the_machine_and_shows_each_case_with_its_legend() {
        let report = report();
        let mut pictures = pictures(&report).unwrap();
        pictures.insert(HISTORY.to_owned(), "<svg/>".to_owned());
        let page = Page {
            report: &report,
            opening: None,
            beside: &[],
            pictures: &pictures,
        };
        let text = page.markdown("report");
        for part in [
            "| CPU | EPYC, 2 CPUs |",
            "`make bench`",
            "## Cost by connections",
            "| 1 | 1 000 |",
            "- *events/s*: acknowledged events per second",
            "![Cost by connections](report/connections.svg)",
            "(report/history.svg)",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains("mean nothing"));
    }

    #[test]
    fn a_page_with_peers_opens_with_them() {
        let (report, results) = (report(), results());
        let opening = Opening::of(&results).unwrap().unwrap();
        let peers = peer_tables::outcomes(&results);
        let page = Page {
            report: &report,
            opening: Some(&opening),
            beside: &peers,
            pictures: &BTreeMap::new(),
        };
        let text = page.markdown("report");
        let order = [
            "# Results\n\nOn one core",
            "(report/opening.svg)",
            "| CPU |",
            "## Beside peers",
            "## What an acknowledgement is worth",
            "## Cost by connections",
        ];
        let places: Vec<_> = order.iter().map(|part| text.find(part)).collect();
        assert!(places.iter().all(Option::is_some), "{places:?}\n{text}");
        assert!(places.is_sorted(), "{places:?}\n{text}");
        assert!(text.contains("Measured at commit `abc`"), "{text}");
    }
}
