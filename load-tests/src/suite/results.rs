//! Results page with its plots, and the results as JSON.

use super::history::{self, Entry};
use super::options::Options;
use super::outcome::Outcome;
use super::outcome::Report;
use super::plot;
use super::render;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::path::Path;

/// Lowest number of runs for a plot of the history.
const HISTORY_RUNS_MIN: usize = 2;

/// Writes all files.
///
/// # Errors
/// A file cannot be written.
pub fn write(options: &Options, report: &Report) -> Result<()> {
    std::fs::create_dir_all(&options.out)
        .with_context(|| format!("cannot make {}", options.out.display()))?;
    save(&options.out.join("suite.json"), &render::json(report)?)?;
    for outcome in &report.outcomes {
        if let Some(plot) = &outcome.plot {
            let svg = plot::svg(&outcome.title, plot)?;
            save(
                &options.out.join(format!("{}.svg", outcome.name)),
                svg.as_bytes(),
            )?;
        }
    }
    Entry::of(report).append(options)?;
    let history = history::read(&options.history)?;
    let runs = history::plot(&history);
    // Runs of some cases only may lack the figures of the history.
    let has_history = history.len() >= HISTORY_RUNS_MIN && !runs.lines.is_empty();
    if has_history {
        let svg = plot::svg("Run by run", &runs)?;
        save(&options.out.join("history.svg"), svg.as_bytes())?;
    }
    let page = page(report, &plots_from(options), has_history);
    save(&options.results, page.as_bytes())
}

/// Path of the plots' folder on the page: relative if it lies beside or below the page.
fn plots_from(options: &Options) -> String {
    let beside = options.results.parent().unwrap_or(Path::new(""));
    let out = options.out.strip_prefix(beside).unwrap_or(&options.out);
    out.display().to_string()
}

fn save(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Results page as Markdown.
#[must_use]
pub fn page(report: &Report, plots: &str, has_history: bool) -> String {
    let machine = &report.machine;
    let mut page = String::from("# Results\n\n");
    if report.quick {
        page.push_str("**A short run, to see that all works: these figures mean nothing.**\n\n");
    }
    // Writing to a String does not fail.
    let _ = writeln!(
        page,
        "| | |\n| --- | --- |\n| CPU | {}, {} CPUs |\n| Memory | {:.1} GiB |\n\
         | Kernel | {} |\n| Commit | `{}` |\n| Date | {} |\n| Command | `{}` |\n",
        machine.cpu,
        machine.cpus,
        machine.memory_bytes as f64 / f64::from(1 << 30),
        machine.kernel,
        machine.commit,
        machine.date,
        report.command
    );
    page.push_str(
        "Servers run on CPUs of their own, in turn, round by round; the ratio of a round compares \
         what ran within seconds of one another, so quote ratios. `events per CPU s` is by the \
         server's own CPU time.\n",
    );
    for outcome in &report.outcomes {
        section(&mut page, outcome, plots);
    }
    if has_history {
        let _ = write!(
            page,
            "\n## Run by run\n\n![Run by run]({plots}/history.svg)\n"
        );
    }
    page
}

fn section(page: &mut String, outcome: &Outcome, plots: &str) {
    let _ = write!(
        page,
        "\n## {}\n\n{}",
        outcome.title,
        render::markdown(outcome)
    );
    if let Some(origin) = &outcome.origin {
        let _ = write!(
            page,
            "\nMeasured at commit `{}`, {}.\n",
            origin.commit, origin.date
        );
    }
    if outcome.plot.is_some() {
        let (title, name) = (&outcome.title, &outcome.name);
        let _ = write!(page, "\n![{title}]({plots}/{name}.svg)\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::findings::{Cell, Findings};
    use crate::suite::machine::Machine;
    use crate::suite::outcome::{Line, Plot};
    use std::path::PathBuf;

    fn report() -> Report {
        let mut findings = Findings::with_columns(&["connections", "events/s"]);
        findings.row(["1".into(), Cell::Grouped(1_000.0)]);
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
    fn a_page_names_the_machine_and_shows_each_case() {
        let page = page(&report(), "report", true);
        for part in [
            "| CPU | EPYC, 2 CPUs |",
            "`make bench`",
            "## Cost by connections",
            "| 1 | 1 000 |",
            "![Cost by connections](report/connections.svg)",
            "(report/history.svg)",
        ] {
            assert!(page.contains(part), "{part} is not in\n{page}");
        }
        assert!(!page.contains("mean nothing"));
    }

    #[test]
    fn a_page_has_a_history_only_with_rates_of_the_server() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            server: PathBuf::new(),
            load: PathBuf::new(),
            memory_dir: PathBuf::new(),
            disk_dir: PathBuf::new(),
            out: dir.path().join("report"),
            results: dir.path().join("RESULTS.md"),
            history: dir.path().join("history.jsonl"),
            quick: false,
            soak: None,
            only: Vec::new(),
            criterion: None,
            clickhouse: None,
            command: String::new(),
        };
        let mut report = report();
        for (figure, has_history) in [
            ("disk: shipping_cpu_us", false),
            ("disk: shipping_cpu_us", false),
            ("Millrace: events_per_second", true),
        ] {
            let figures = &mut report.outcomes[0].figures;
            figures.insert(figure.to_owned(), 1.0);
            write(&options, &report).unwrap();
            let page = std::fs::read_to_string(&options.results).unwrap();
            assert_eq!(page.contains("Run by run"), has_history, "{figure}");
        }
        assert_eq!(history::read(&options.history).unwrap().len(), 3);
    }
}
