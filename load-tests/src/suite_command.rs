//! `millrace-load suite`: what may be typed, and what it does.

use anyhow::{Context, Result};
use clap::Args;
use millrace_load::clickhouse::ClickHouse;
use millrace_load::suite::{Options, suite};
use millrace_load::{Stop, command_line};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

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
    /// How long the cases `soak` and `flood` take; ten minutes by default.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub soak: Option<Duration>,
    /// A folder in memory for logs; some 8 GB are written there at a time.
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    pub memory_dir: PathBuf,
    /// A folder on the disk that is to be measured.
    #[arg(long, value_name = "DIR", default_value = "target")]
    pub disk_dir: PathBuf,
    /// criterion's folder, to have its results on the page as well.
    #[arg(long, value_name = "DIR")]
    pub criterion: Option<PathBuf>,
    /// Where all servers ship to; by default nowhere, or into the embedded engine where a case is
    /// about shipping.
    #[arg(long, value_name = "URL")]
    pub clickhouse_url: Option<String>,
    /// Its user.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub clickhouse_user: String,
    /// The user's password.
    #[arg(long, value_name = "PASSWORD", default_value = "")]
    pub clickhouse_password: String,
}

/// Measures and writes the page of results.
pub fn run(args: SuiteArgs, stop: &Stop) -> Result<ExitCode> {
    let clickhouse = args.clickhouse_url.map(|url| ClickHouse {
        url,
        user: args.clickhouse_user,
        password: args.clickhouse_password,
        table: ClickHouse::TABLE.to_owned(),
    });
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
        soak: args.soak,
        only: args.only,
        criterion: args.criterion,
        clickhouse,
        command: command_line::shown(std::env::args()),
    };
    suite(&options, stop, &mut |text| println!("{text}"))?;
    println!("written to {}", results.display());
    Ok(ExitCode::SUCCESS)
}
