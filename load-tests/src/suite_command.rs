//! `millrace-load suite`: what may be typed, and what it does.

use anyhow::{Context, Result};
use clap::Args;
use millrace_load::Stop;
use millrace_load::suite::{Options, suite};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `suite`.
#[derive(Debug, Args)]
pub struct SuiteArgs {
    /// The server's program.
    #[arg(long, value_name = "FILE", default_value = "target/release/millrace")]
    pub server: PathBuf,
    /// Where plots and JSON go.
    #[arg(long, value_name = "DIR", default_value = "benches/report")]
    pub out: PathBuf,
    /// The page of results.
    #[arg(long, value_name = "FILE", default_value = "benches/RESULTS.md")]
    pub results: PathBuf,
    /// The file that gets a line per run.
    #[arg(long, value_name = "FILE", default_value = "benches/history.jsonl")]
    pub history: PathBuf,
    /// Only these cases.
    #[arg(long, value_name = "CASE,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// A second or less per figure, to see whether all works; not kept in the history.
    #[arg(long)]
    pub quick: bool,
    /// A folder in memory for logs; some 8 GB are written there at a time.
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub memory_dir: PathBuf,
    /// A folder on the disk that is to be measured.
    #[arg(long, value_name = "DIR", default_value = "target")]
    pub disk_dir: PathBuf,
    /// criterion's folder, to have its results on the page as well.
    #[arg(long, value_name = "DIR")]
    pub criterion: Option<PathBuf>,
    /// Where the server ships to; by default where nobody listens.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9")]
    pub clickhouse_url: String,
}

/// Measures and writes the page of results.
pub fn run(args: SuiteArgs, stop: &Stop) -> Result<ExitCode> {
    let typed: Vec<_> = std::env::args().skip(1).collect();
    let results = args.results.clone();
    let options = Options {
        server: args.server,
        load: std::env::current_exe().context("where is this program?")?,
        memory_dir: args.memory_dir,
        disk_dir: args.disk_dir,
        out: args.out,
        results: args.results,
        history: args.history,
        quick: args.quick,
        only: args.only,
        criterion: args.criterion,
        clickhouse_url: args.clickhouse_url,
        command: format!("millrace-load {}", typed.join(" ")),
    };
    suite(&options, stop, &mut |text| println!("{text}"))?;
    println!("written to {}", results.display());
    Ok(ExitCode::SUCCESS)
}
