//! Command line of `millrace-load proxy`.

use anyhow::{Result, ensure};
use clap::Args;
use millrace_load::Stop;
use millrace_load::digits::counted;
use millrace_load::proxy::{Proxy, Step};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// Interval at which the request to stop is noticed.
const TICK: Duration = Duration::from_millis(50);

const FAULTS: &str = "\
Steps:
  A step is `TIME FAULT [inserts[=TEXT]|questions] [1/N]`. For TIME the fault is done to requests of
  that kind (or all), of inserts to those with TEXT in their URL (or all), to the first of every N
  (or each). `TIME ok` lets everything through.

Faults:
  down                  connections are refused, and existing ones cut
  slow=TIME             the response is delayed by TIME
  answer=STATUS[:CODE]  answered with STATUS, ClickHouse never sees it; CODE is ClickHouse's, such as
                        252 too many parts, 164 read-only, 241 memory, 60 no table, 516 password
  after=STATUS[:CODE]   carried out, but answered with STATUS
  stale-answer          answered as the last request of the same kind was since the step began (all
                        inserts, or queries with the same columns of the same table), ClickHouse
                        never sees it; the first is carried out
  lost                  carried out, and cut instead of answered
  silent                carried out, never answered; cut when the step ends
  deaf                  neither carried out nor answered; cut when the step ends
  cut-answer=BYTES      carried out, and cut after BYTES bytes of the response
  cut-request           half of the request arrives, then both connections are cut
  with=SETTING=VALUE    carried out with one more setting, as in with=readonly=1

Example:
  millrace-load proxy --upstream http://127.0.0.1:8123 --listen 127.0.0.1:8124 \\
      --step '1m ok' --step '5m down' --step '1m lost inserts 1/2' --repeat &
  millrace ingest --clickhouse-url http://127.0.0.1:8124 …";

/// Options of `proxy`.
#[derive(Debug, Args)]
#[command(after_long_help = FAULTS)]
pub struct ProxyArgs {
    /// URL of ClickHouse's HTTP interface.
    #[arg(long, value_name = "URL")]
    pub upstream: String,
    /// Address to listen on in place of ClickHouse.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8124")]
    pub listen: SocketAddr,
    /// Steps to perform in turn; without any, everything passes.
    #[arg(long = "step", value_name = "STEP", value_parser = step)]
    pub steps: Vec<Step>,
    /// Begin again after the last step.
    #[arg(long, requires = "steps")]
    pub repeat: bool,
}

/// Parses a step. The error has all causes in one line, as clap shows only the first.
fn step(text: &str) -> Result<Step, String> {
    text.parse().map_err(|error| format!("{error:#}"))
}

/// Runs the proxy with its steps until interrupted.
pub fn run(args: &ProxyArgs, stop: &Stop) -> Result<ExitCode> {
    let steps_take: Duration = args.steps.iter().map(|step| step.length).sum();
    ensure!(
        !args.repeat || !steps_take.is_zero(),
        "--repeat needs steps that take time"
    );
    let proxy = Proxy::start(args.listen, &args.upstream)?;
    println!("listening on {}", proxy.url());
    let mut tell = |step: &Step| println!("{step}");
    proxy.perform(&args.steps, stop, &mut tell);
    while args.repeat && !stop.is_asked() {
        proxy.perform(&args.steps, stop, &mut tell);
    }
    while !stop.is_asked() {
        std::thread::sleep(TICK);
    }
    let counts = proxy.counts();
    println!(
        "{}, {}, {} of them inserts; harm was done to {}",
        counted(counts.connections, "connection"),
        counted(counts.requests, "request"),
        counts.inserts,
        counts.faults
    );
    Ok(ExitCode::SUCCESS)
}
