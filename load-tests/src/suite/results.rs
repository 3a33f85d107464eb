//! Files of the results: pages with their plots, and the results as JSON.

use super::carry_over::previous;
use super::history::{self, Entry};
use super::opening::Opening;
use super::options::Options;
use super::outcome::{Outcome, Report};
use super::page::{HISTORY, OPENING, Page};
use super::peers::PeerResults;
use super::{peer_tables, plot, render, web_page};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

/// Lowest number of runs for a plot of the history.
const HISTORY_RUNS_MIN: usize = 2;

/// Paths of what is written.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// Folder of plots, JSON and the page for the web.
    pub out: &'a Path,
    /// Page as Markdown.
    pub results: &'a Path,
    /// History, a line per run.
    pub history: &'a Path,
}

impl Options {
    /// Paths of what a run writes.
    #[must_use]
    pub fn files(&self) -> Files<'_> {
        Files {
            out: &self.out,
            results: &self.results,
            history: &self.history,
        }
    }
}

/// Checks that a short run takes no full run's place.
///
/// # Errors
/// It would, or the results that are there cannot be read.
pub fn check_place(options: &Options) -> Result<()> {
    if !options.quick {
        return Ok(());
    }
    let before = previous(&options.out)?;
    ensure!(
        before.is_none_or(|report| report.quick),
        "{} has the results of a full run, and this one is quick; choose another folder by --out \
         and --results",
        options.out.display()
    );
    Ok(())
}

/// Writes all files of a run.
///
/// # Errors
/// A file cannot be written.
pub fn write(options: &Options, report: &Report) -> Result<()> {
    std::fs::create_dir_all(&options.out)
        .with_context(|| format!("cannot make {}", options.out.display()))?;
    save(&options.out.join("suite.json"), &render::json(report)?)?;
    Entry::of(report).append(options)?;
    publish(report, options.files())
}

/// Writes the pages and their pictures anew, from the last results.
///
/// # Errors
/// There are no results, or a file cannot be written.
pub fn publish_last(files: Files<'_>) -> Result<()> {
    let report = previous(files.out)?.with_context(|| {
        let out = files.out.display();
        format!("there is no {out}/suite.json; `millrace-load suite` makes it")
    })?;
    publish(&report, files)
}

fn publish(report: &Report, files: Files<'_>) -> Result<()> {
    let results = PeerResults::read(files.out)?;
    let opening = match &results {
        Some(results) => Opening::of(results)?,
        None => None,
    };
    let mut beside = results
        .as_ref()
        .map(peer_tables::outcomes)
        .unwrap_or_default();
    beside.extend(columns(files.out)?);
    let mut pictures = pictures(report)?;
    if let Some(opening) = &opening {
        pictures.insert(OPENING.to_owned(), opening.picture.clone());
    }
    let history = history::read(files.history)?;
    let runs = history::plot(&history);
    // Runs of some cases only may lack the figures of the history.
    if history.len() >= HISTORY_RUNS_MIN && !runs.lines.is_empty() {
        pictures.insert(HISTORY.to_owned(), plot::svg("Run by run", &runs)?);
    }
    for (name, svg) in &pictures {
        save(&files.out.join(format!("{name}.svg")), svg.as_bytes())?;
    }
    let page = Page {
        report,
        opening: opening.as_ref(),
        beside: &beside,
        pictures: &pictures,
    };
    let html = web_page::render(page)?;
    save(&files.out.join("index.html"), html.as_bytes())?;
    let markdown = page.markdown(&plots_from(files));
    save(files.results, markdown.as_bytes())
}

/// Tables of properties as columns, which `benches/columns` writes; none if it was not run.
fn columns(out: &Path) -> Result<Vec<Outcome>> {
    let path = out.join("columns.json");
    let text = match std::fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.with_context(|| format!("cannot read {}", path.display()))?,
    };
    serde_json::from_slice(&text).with_context(|| {
        format!(
            "{} has no tables of benches/columns; remove it",
            path.display()
        )
    })
}

/// Plots of all cases that have one, as SVG by the names of the cases.
///
/// # Errors
/// A plot cannot be drawn.
pub fn pictures(report: &Report) -> Result<BTreeMap<String, String>> {
    let plotted = report.outcomes.iter();
    let plotted = plotted.filter_map(|it| Some((&it.name, &it.title, it.plot.as_ref()?)));
    plotted
        .map(|(name, title, plot)| Ok((name.clone(), plot::svg(title, plot)?)))
        .collect()
}

/// Path of the plots' folder on the page: relative if it lies beside or below the page.
fn plots_from(files: Files<'_>) -> String {
    let beside = files.results.parent().unwrap_or(Path::new(""));
    let out = files.out.strip_prefix(beside).unwrap_or(files.out);
    out.display().to_string()
}

fn save(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::super::page::tests::report;
    use super::*;
    use std::path::PathBuf;

    fn options(dir: &Path, quick: bool) -> Options {
        Options {
            server: PathBuf::new(),
            load: PathBuf::new(),
            memory_dir: PathBuf::new(),
            disk_dir: PathBuf::new(),
            out: dir.join("report"),
            results: dir.join("RESULTS.md"),
            history: dir.join("history.jsonl"),
            quick,
            soak: None,
            only: Vec::new(),
            criterion: None,
            clickhouse: None,
            command: String::new(),
        }
    }

    #[test]
    fn a_page_has_a_history_only_with_rates_of_the_server() {
        let dir = tempfile::tempdir().unwrap();
        let options = options(dir.path(), false);
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
        let html = std::fs::read_to_string(options.out.join("index.html")).unwrap();
        assert!(html.contains("Run by run"), "{html}");
    }

    #[test]
    fn pages_are_made_anew_from_the_last_results() {
        let dir = tempfile::tempdir().unwrap();
        let options = options(dir.path(), false);
        let error = publish_last(options.files()).unwrap_err().to_string();
        assert!(error.contains("suite.json"), "{error}");
        std::fs::create_dir_all(&options.out).unwrap();
        let columns = serde_json::json!([{
            "name": "columns-cost", "title": "Properties as columns", "columns": ["Table"],
            "rows": [["Property columns"]], "notes": [], "figures": {}, "plot": null,
        }]);
        std::fs::write(options.out.join("columns.json"), columns.to_string()).unwrap();
        write(&options, &report()).unwrap();
        let written = std::fs::read_to_string(&options.results).unwrap();
        std::fs::remove_file(&options.results).unwrap();
        publish_last(options.files()).unwrap();
        assert_eq!(std::fs::read_to_string(&options.results).unwrap(), written);
        assert!(written.contains("## Properties as columns"), "{written}");
    }

    #[test]
    fn a_short_run_takes_no_full_runs_place() {
        let dir = tempfile::tempdir().unwrap();
        let short = options(dir.path(), true);
        check_place(&short).unwrap();
        for (quick, is_free) in [(true, true), (false, false)] {
            let report = Report { quick, ..report() };
            write(&options(dir.path(), quick), &report).unwrap();
            assert_eq!(check_place(&short).is_ok(), is_free, "quick: {quick}");
        }
        check_place(&options(dir.path(), false)).unwrap();
    }
}
