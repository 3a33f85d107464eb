//! The command line: commands and their options.

mod events;
mod load;
mod output;
mod target;
#[cfg(test)]
mod tests;

use crate::attack_command::AttackArgs;
use crate::crash_command::CrashArgs;
use crate::proxy_command::ProxyArgs;
use crate::suite_command::{PageArgs, SuiteArgs};
use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use events::EventArgs;
use humantime::Duration;
use load::LoadArgs;
use millrace_load::Plan;
use millrace_load::clickhouse::ClickHouse;
use millrace_load::credentials::Credentials;
use millrace_load::own_body::OwnBody;
pub use output::{FileArgs, OutputArgs};
use std::net::SocketAddr;
use std::path::PathBuf;
use target::TargetArgs;

const EXAMPLES: &str = "\
Examples:
  Capacity of a server, as text, as figures for `compare`, and as a page with plots:
    millrace-load --credentials millrace-data/credentials.json --json a.json --html a.html

  Latency at a rate below the capacity:
    millrace-load --credentials millrace-data/credentials.json --rate 100000 -d 1m

  Highest rate with p99 under 5 ms:
    millrace-load max-rate --p99-ms 5 --credentials millrace-data/credentials.json

  Check that ClickHouse has every acknowledged event once:
    millrace-load --credentials millrace-data/credentials.json --ledger acked.txt
    millrace-load verify --credentials millrace-data/credentials.json --ledger acked.txt

  A remote server with TLS and many projects:
    millrace-load --url https://events.example.com --keys-file keys.txt

  Compare with a server that does nothing:
    millrace-load drain-server --listen 127.0.0.1:9000 &
    millrace-load --url http://127.0.0.1:9000 --key any --json b.json
    millrace-load compare a.json b.json --html both.html

  A gate for CI, and a ramp of two minutes:
    millrace-load --url http://h:8000 --key k --rate 5000 --fail-if 'p99>20ms,failed>0'
    millrace-load --url http://h:8000 --key k --stage 2m:1000..50000 --csv ramp.csv

Exit codes: 0 success; 1 negative result (--fail-if, verify, max-rate, crash, attack); 2 error.
Without --fail-if, requests that fail during a run are part of its report alone.";

/// Load generator and verifier for analytics capture endpoints.
///
/// Sends batches of events to POST /batch/ as fast as they are acknowledged (closed loop), or at a
/// fixed rate (open loop, with --rate), and reports rates, latencies and CPU time. The uuid of
/// every event encodes its run, connection, batch and index. By these uuids `verify` checks whether
/// ClickHouse has each acknowledged event exactly once.
#[derive(Debug, Parser)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    after_long_help = EXAMPLES,
    after_help = "--help has details and examples."
)]
pub struct Cli {
    /// Command to run; `run` by default.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Options of `run`.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Commands of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send load and report (the default).
    Run(RunArgs),
    /// Check that ClickHouse has every acknowledged event exactly once.
    ///
    /// Exits with 1 if not. A batch without acknowledgement may be stored whole or not at all; one
    /// that is stored in part is an error, too. Merges fold duplicates: stop the table's merges
    /// before a run whose duplicates matter.
    Verify(VerifyArgs),
    /// Find the highest rate that keeps p99 below a bound.
    ///
    /// Open-loop runs: the rate doubles until the bound is broken, then the interval is halved.
    /// --duration applies to each run; --json and --html describe the best one.
    MaxRate(MaxRateArgs),
    /// Show two result files of --json side by side.
    Compare(CompareArgs),
    /// Add result files of --json of generators that ran at the same time.
    ///
    /// Counts, rates and histograms are added, so the percentiles are those of all requests. Start
    /// the generators with the same --start-at.
    Join(JoinArgs),
    /// Serve as a baseline: read every body, do next to nothing, answer 200.
    ///
    /// One thread. Run it beside the server under test: ratios survive a noisy machine.
    DrainServer(DrainServerArgs),
    /// Inject faults between a server and its ClickHouse: refuse, delay, lose and cut.
    ///
    /// Exits with 0 when interrupted. --help lists the faults.
    Proxy(ProxyArgs),
    /// Measure every claim about the server's speed and write a page of results.
    ///
    /// Starts servers and baselines itself, on CPUs of their own, and runs them in turn, round by
    /// round. Needs `taskset`.
    Suite(SuiteArgs),
    /// Write the page of results anew, from the last ones of `suite` and of `benches/peers/run.sh`.
    Page(PageArgs),
    /// Kill servers again and again and check that nothing acknowledged is lost or doubled.
    ///
    /// Starts servers itself, on folders of their own. Exits with 1 if anything is wrong, and keeps
    /// the folder. Needs a server built with `--features failpoints`, and `strace` for kills at a
    /// system call of the engine.
    Crash(CrashArgs),
    /// Attack a server with everything known against it, beside a tenant that works normally.
    ///
    /// Starts the server itself, on a folder of its own; everything stays on this machine. Exits
    /// with 1 if a process ended, a response was wrong, an event was lost or doubled, a hostile
    /// request was not refused, or a bound on time or memory was not kept.
    Attack(AttackArgs),
}

/// Options of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Target of the load.
    #[command(flatten)]
    pub target: TargetArgs,
    /// Rate and length of the load.
    #[command(flatten)]
    pub load: LoadArgs,
    /// Events of the load.
    #[command(flatten)]
    pub events: EventArgs,
    /// Outputs of the run.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Options of `verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Ledger of acknowledged batches, as written by `run --ledger`.
    #[arg(long, value_name = "FILE")]
    pub ledger: PathBuf,
    /// Longest wait for the next event that is still being shipped.
    #[arg(long, default_value = "60s")]
    pub timeout: Duration,
    /// The server's credentials.json, which gives the options below.
    #[arg(long, value_name = "FILE")]
    pub credentials: Option<PathBuf>,
    /// URL of ClickHouse's HTTP interface.
    #[arg(long, value_name = "URL")]
    pub clickhouse_url: Option<String>,
    /// ClickHouse user.
    #[arg(long, value_name = "NAME")]
    pub clickhouse_user: Option<String>,
    /// Password of the ClickHouse user.
    #[arg(long, value_name = "PASSWORD")]
    pub clickhouse_password: Option<String>,
    /// Table of the events.
    #[arg(long, default_value = ClickHouse::TABLE)]
    pub table: String,
    /// Also write the result to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Options of `max-rate`.
#[derive(Debug, Args)]
pub struct MaxRateArgs {
    /// Bound on the 99th percentile in milliseconds.
    #[arg(long, value_name = "MS")]
    pub p99_ms: f64,
    /// Rate of the first run in events/s.
    #[arg(long, value_name = "EVENTS/S", default_value_t = 10_000.0)]
    pub first_rate: f64,
    /// Relative precision of the result.
    #[arg(long, value_name = "PART", default_value_t = 0.05)]
    pub precision: f64,
    /// Options of the runs. --rate is ignored, --duration applies to each run, files describe the
    /// best.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Options of `compare`. The files are those of `run --json`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Result file of the reference run.
    pub a: PathBuf,
    /// Result file of the run to compare with it.
    pub b: PathBuf,
    /// Write a page of both runs, with their lines in the same plots.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Options of `join`.
#[derive(Debug, Args)]
pub struct JoinArgs {
    /// Result files of `run --json`.
    #[arg(required = true, value_name = "FILE")]
    pub runs: Vec<PathBuf>,
    /// Files of the joined results.
    #[command(flatten)]
    pub files: FileArgs,
}

/// Options of `drain-server`.
#[derive(Debug, Args)]
pub struct DrainServerArgs {
    /// Address to listen on.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9000")]
    pub listen: SocketAddr,
    /// Also build a simd-json tape of every body (uncompressed ones only).
    #[arg(long)]
    pub tape: bool,
    /// Serve TLS: PEM file with the certificate and its chain.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// PEM file with the certificate's private key.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// CPU to pin the server to.
    #[arg(long, value_name = "CPU")]
    pub pin: Option<usize>,
}

impl RunArgs {
    /// Plan that the options describe.
    pub fn plan(&self) -> Result<Plan> {
        let bodies = self.events.bodies()?;
        let needs_key = bodies.is_empty() || bodies.iter().any(OwnBody::has_key);
        let mut plan = self.target.plan(needs_key)?;
        plan.bodies = bodies;
        self.events.apply(&mut plan);
        self.output.apply(&mut plan);
        Ok(self.load.apply(plan))
    }
}

impl VerifyArgs {
    /// ClickHouse that the options describe.
    pub fn clickhouse(&self) -> Result<ClickHouse> {
        let mut clickhouse = match &self.credentials {
            Some(file) => ClickHouse::of(&Credentials::read(file)?),
            None => ClickHouse {
                url: String::new(),
                user: "default".to_owned(),
                password: String::new(),
                table: String::new(),
            },
        };
        for (typed, field) in [
            (&self.clickhouse_url, &mut clickhouse.url),
            (&self.clickhouse_user, &mut clickhouse.user),
            (&self.clickhouse_password, &mut clickhouse.password),
            (&Some(self.table.clone()), &mut clickhouse.table),
        ] {
            if let Some(typed) = typed {
                field.clone_from(typed);
            }
        }
        anyhow::ensure!(
            !clickhouse.url.is_empty(),
            "--clickhouse-url or --credentials is missing"
        );
        Ok(clickhouse)
    }
}
