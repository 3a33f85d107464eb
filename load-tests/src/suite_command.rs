//! Command lines of `millrace-load suite` and `page`.

use anyhow::{Context, Result};
use clap::Args;
use millrace_load::clickhouse::ClickHouse;
use millrace_load::suite::results::{Files, publish_last};
use millrace_load::suite::{Options, suite};
use millrace_load::{Stop, command_line};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Folder of a full run's files, and of a short one's.
const FULL: &str = "benches";
const QUICK: &str = "target/bench-quick";

/// Places of what is written.
#[derive(Debug, Args)]
pub struct PlaceArgs {
    /// Folder for plots, JSON and the page for the web; `benches/report` by default.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// File of the results page; `benches/RESULTS.md` by default.
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// File that gets a line per run.
    #[arg(long, value_name = "FILE", default_value = "benches/history.jsonl")]
    history: PathBuf,
}

/// Options of `page`.
#[derive(Debug, Args)]
pub struct PageArgs {
    /// Places of what is read and written.
    #[command(flatten)]
    place: PlaceArgs,
}

/// Options of `suite`.
#[derive(Debug, Args)]
pub struct SuiteArgs {
    /// Path of the server's program.
    #[arg(long, value_name = "FILE", default_value = "target/release/millrace")]
    pub server: PathBuf,
    /// Places of what is written.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Run only these cases.
    #[arg(long, value_name = "CASE,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// A second or less per figure, to check that everything works; written to
    /// `target/bench-quick` by default, and not kept in the history.
    #[arg(long)]
    pub quick: bool,
    /// Length of the cases `soak` and `flood`; ten minutes by default.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub soak: Option<Duration>,
    /// Folder in memory for logs; some 8 GB are written there at a time.
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub memory_dir: PathBuf,
    /// Folder on the disk to be measured.
    #[arg(long, value_name = "DIR", default_value = "target")]
    pub disk_dir: PathBuf,
    /// criterion's folder, to show its results on the page as well.
    #[arg(long, value_name = "DIR")]
    pub criterion: Option<PathBuf>,
    /// URL of the ClickHouse that all servers ship to. By default they ship nowhere, or to the
    /// embedded engine in cases about shipping.
    #[arg(long, value_name = "URL")]
    pub clickhouse_url: Option<String>,
    /// ClickHouse user.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub clickhouse_user: String,
    /// Password of the ClickHouse user.
    #[arg(long, value_name = "PASSWORD", default_value = "")]
    pub clickhouse_password: String,
}

/// Runs the suite and writes its results page.
pub fn run(args: SuiteArgs, stop: &Stop) -> Result<ExitCode> {
    let clickhouse = args.clickhouse_url.map(|url| ClickHouse {
        url,
        user: args.clickhouse_user,
        password: args.clickhouse_password,
        table: ClickHouse::TABLE.to_owned(),
    });
    let (out, results) = args.place.paths(args.quick);
    let options = Options {
        server: args.server,
        load: std::env::current_exe().context("cannot find the program's own file")?,
        memory_dir: args.memory_dir,
        disk_dir: args.disk_dir,
        out,
        results,
        history: args.place.history,
        quick: args.quick,
        soak: args.soak,
        only: args.only,
        criterion: args.criterion,
        clickhouse,
        command: command_line::shown(std::env::args()),
    };
    suite(&options, stop, &mut |text| println!("{text}"))?;
    println!("written to {}", options.results.display());
    Ok(ExitCode::SUCCESS)
}

/// Writes the results page anew from the last results of the suite and of the peers.
pub fn page(args: &PageArgs) -> Result<ExitCode> {
    let (out, results) = args.place.paths(false);
    publish_last(Files {
        out: &out,
        results: &results,
        history: &args.place.history,
    })?;
    println!("written to {}", results.display());
    Ok(ExitCode::SUCCESS)
}

impl PlaceArgs {
    /// Folder and page: a short run's are apart, so that it takes no full run's place.
    fn paths(&self, quick: bool) -> (PathBuf, PathBuf) {
        let folder = Path::new(if quick { QUICK } else { FULL });
        let out = self.out.clone();
        let results = self.results.clone();
        (
            out.unwrap_or_else(|| folder.join("report")),
            results.unwrap_or_else(|| folder.join("RESULTS.md")),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_is_written_apart_unless_its_places_are_named() {
        let args = |out: Option<&str>| PlaceArgs {
            out: out.map(PathBuf::from),
            results: None,
            history: PathBuf::new(),
        };
        let table = [
            (None, false, "benches/report", "benches/RESULTS.md"),
            (
                None,
                true,
                "target/bench-quick/report",
                "target/bench-quick/RESULTS.md",
            ),
            (Some("x"), true, "x", "target/bench-quick/RESULTS.md"),
        ];
        for (named, quick, out, results) in table {
            let expected = (PathBuf::from(out), PathBuf::from(results));
            assert_eq!(args(named).paths(quick), expected, "{named:?}, {quick}");
        }
    }
}
