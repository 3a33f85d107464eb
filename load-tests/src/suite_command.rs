//! Command line of `millrace-load suite`.

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
    /// Path of the server's program.
    #[arg(long, value_name = "FILE", default_value = "target/release/millrace")]
    pub server: PathBuf,
    /// Folder for plots and JSON.
    #[arg(long, value_name = "DIR", default_value = "benches/report")]
    pub out: PathBuf,
    /// File of the results page.
    #[arg(long, value_name = "FILE", default_value = "benches/RESULTS.md")]
    pub results: PathBuf,
    /// File that gets a line per run.
    #[arg(long, value_name = "FILE", default_value = "benches/history.jsonl")]
    pub history: PathBuf,
    /// Run only these cases.
    #[arg(long, value_name = "CASE,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// A second or less per figure, to check that everything works; not kept in the history.
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
    let results = args.results.clone();
    let options = Options {
        server: args.server,
        load: std::env::current_exe().context("cannot find the program's own file")?,
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
