//! `millrace-load proxy`: what may be typed, and what it does.

use anyhow::{Result, ensure};
use clap::Args;
use millrace_load::Stop;
use millrace_load::proxy::{Proxy, Step};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

/// How often it is looked whether the end was asked for.
const TICK: Duration = Duration::from_millis(50);

const FAULTS: &str = "\
Steps:
  A step is `TIME FAULT [inserts|questions] [1/N]`: for so long, to requests of that kind (or all),
  the first of every N (or each). `TIME ok` lets everything through.

Faults:
  down                  nobody listens, and connections are cut
  slow=TIME             the answer comes so much later
  answer=STATUS[:CODE]  answered with this, ClickHouse never sees it; CODE is ClickHouse's, such as
                        252 too many parts, 164 read-only, 241 memory, 60 no table, 516 password
  after=STATUS[:CODE]   carried out, and answered with this all the same
  lost                  carried out, and cut instead of answered
  silent                carried out, never answered; cut when the step ends
  deaf                  neither carried out nor answered; cut when the step ends
  cut-answer=BYTES      carried out, and cut after so many bytes of the answer
  cut-request           half of the request arrives, then both sides are cut
  with=SETTING=VALUE    carried out with a setting more, as in with=readonly=1

Example:
  millrace-load proxy --upstream http://127.0.0.1:8123 --listen 127.0.0.1:8124 \\
      --step '1m ok' --step '5m down' --step '1m lost inserts 1/2' --repeat &
  millrace ingest --clickhouse-url http://127.0.0.1:8124 …";

/// Options of `proxy`.
#[derive(Debug, Args)]
#[command(after_long_help = FAULTS)]
pub struct ProxyArgs {
    /// ClickHouse's HTTP interface.
    #[arg(long, value_name = "URL")]
    pub upstream: String,
    /// Where to listen in its place.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8124")]
    pub listen: SocketAddr,
    /// What to do, one after the other; without any, everything is let through.
    #[arg(long = "step", value_name = "STEP", value_parser = step)]
    pub steps: Vec<Step>,
    /// Begin again after the last step.
    #[arg(long, requires = "steps")]
    pub repeat: bool,
}

/// The error's causes in one line, as clap shows but the first.
fn step(text: &str) -> Result<Step, String> {
    text.parse().map_err(|error| format!("{error:#}"))
}

/// Passes requests through, and does harm as it was told, until interrupted.
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
        "{} connections, {} requests, {} of them inserts; harm was done to {}",
        counts.connections, counts.requests, counts.inserts, counts.faults
    );
    Ok(ExitCode::SUCCESS)
}
