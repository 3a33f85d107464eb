//! Implementation of the commands.

use crate::attack_command::{self, AttackArgs};
use crate::cli::{CompareArgs, DrainServerArgs, MaxRateArgs, OutputArgs, RunArgs, VerifyArgs};
use crate::crash_command::{self, CrashArgs};
use crate::proxy_command::{self, ProxyArgs};
use crate::suite_command::{self, SuiteArgs};
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use millrace_load::baseline::{RequestCounts, Work, serve, serve_tls};
use millrace_load::digits::grouped;
use millrace_load::ledger::AckLedger;
use millrace_load::max_rate::{Search, Step};
use millrace_load::runtime::current_thread_runtime;
use millrace_load::{
    Plan, Progress, Stop, Summary, command_line, html, process, run_observed, tls,
};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Longest time for a run to end after SIGTERM.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(5);
/// Exit code of a process ended by SIGTERM, as shells give it.
const SIGNALLED: i32 = 143;

/// Sends load and reports. Failed requests are part of the report, not of the exit code.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let plan = args.plan()?;
    let stop = stop_on_interrupt()?;
    let line = ProgressLine::new(&plan, args.output.quiet);
    let mut summary = run_observed(&plan, &stop, &mut |progress| line.show(progress))?;
    line.bar.finish_and_clear();
    print!("{summary}");
    write(&mut summary, &args.output)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the requested files.
fn write(summary: &mut Summary, output: &OutputArgs) -> Result<()> {
    summary.command = command_line::shown(std::env::args());
    if let Some(file) = &output.json {
        summary.write(file)?;
    }
    if let Some(file) = &output.hdr_log {
        summary.write_hdr_log(file)?;
    }
    if let Some(file) = &output.html {
        html::write(file, &html::run_page(summary)?)?;
    }
    Ok(())
}

/// Compares ClickHouse with a ledger; exit code 1 if they differ.
pub fn verify(args: &VerifyArgs) -> Result<ExitCode> {
    let ledger = AckLedger::read(&args.ledger)?;
    let clickhouse = args.clickhouse()?;
    let timeout: Duration = args.timeout.into();
    let verification =
        current_thread_runtime()?.block_on(millrace_load::verify(&ledger, &clickhouse, timeout))?;
    println!("{verification}");
    if let Some(file) = &args.json {
        let json = serde_json::to_vec_pretty(&verification).context("verification")?;
        std::fs::write(file, json).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(if verification.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Searches for the highest rate; exit code 1 if none keeps the bound.
pub fn max_rate(args: &MaxRateArgs) -> Result<ExitCode> {
    let plan = args.run.plan()?;
    let search = Search {
        p99_ms_max: args.p99_ms,
        first_events_per_second: args.first_rate,
        precision: args.precision,
    };
    let mut show = |step: &Step| {
        println!(
            "{:>12} events/s due, {:>12} acknowledged, p99 {:>9.3} ms, {} failed: {}",
            grouped(step.events_per_second),
            grouped(step.summary.events_per_second),
            step.summary.latency.p99_us / 1000.0,
            step.summary.window.failed_requests,
            if step.kept { "kept" } else { "not kept" }
        );
    };
    let stop = stop_on_interrupt()?;
    let best = millrace_load::max_rate::max_rate(&plan, search, &stop, &mut show)?;
    let Some(mut best) = best else {
        println!("\nno rate keeps p99 under {} ms", args.p99_ms);
        return Ok(ExitCode::FAILURE);
    };
    println!("\nhighest rate with p99 under {} ms:\n{best}", args.p99_ms);
    write(&mut best, &args.run.output)?;
    Ok(ExitCode::SUCCESS)
}

/// Compares two result files.
pub fn compare(args: &CompareArgs) -> Result<ExitCode> {
    let (a, b) = (Summary::read(&args.a)?, Summary::read(&args.b)?);
    println!("{}", millrace_load::compare::compare(&a, &b));
    if let Some(file) = &args.html {
        html::write(file, &html::compare_page(&a, &b)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves until interrupted.
pub fn drain_server(args: &DrainServerArgs) -> Result<ExitCode> {
    if let Some(cpu) = args.pin {
        process::pin_this_thread(cpu)?;
    }
    let work = if args.tape { Work::Tape } else { Work::Drain };
    let acceptor = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(tls::acceptor(certificate, key)?),
        _ => None,
    };
    current_thread_runtime()?.block_on(async {
        let listener = tokio::net::TcpListener::bind(args.listen)
            .await
            .with_context(|| format!("cannot listen on {}", args.listen))?;
        let scheme = if acceptor.is_some() { "https" } else { "http" };
        println!("listening on {scheme}://{}", listener.local_addr()?);
        let shutdown = async {
            // Without a handler the signal ends the process, which is good enough.
            let _ = tokio::signal::ctrl_c().await;
        };
        let counts = Arc::<RequestCounts>::default();
        match acceptor {
            None => serve(listener, work, counts, shutdown).await,
            Some(tls) => serve_tls(listener, tls, work, counts, shutdown).await,
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the proxy that injects faults.
pub fn proxy(args: &ProxyArgs) -> Result<ExitCode> {
    proxy_command::run(args, &stop_on_interrupt()?)
}

/// Runs the suite of measurements.
pub fn suite(args: SuiteArgs) -> Result<ExitCode> {
    suite_command::run(args, &stop_on_interrupt()?)
}

/// Kills servers; exit code 1 if anything was lost or doubled.
pub fn crash(args: &CrashArgs) -> Result<ExitCode> {
    crash_command::run(args, &stop_on_interrupt()?)
}

/// Attacks a server; exit code 1 if anything was wrong or above its bound.
pub fn attack(args: &AttackArgs) -> Result<ExitCode> {
    attack_command::run(args, &stop_on_interrupt()?)
}

/// Returns a [`Stop`] that Ctrl-C and SIGTERM trigger.
///
/// The run then still waits for requests in flight, reports, and ends the processes that it
/// started. A second signal ends the process at once, and so does a SIGTERM that was not followed
/// in time.
#[expect(
    clippy::disallowed_methods,
    reason = "main waits for something that does not come"
)]
fn stop_on_interrupt() -> Result<Stop> {
    let stop = Stop::default();
    let asked = stop.clone();
    let runtime = current_thread_runtime()?;
    // Registered here and not on the thread, so that no signal comes before its handler.
    let (mut interrupts, mut terminations) = {
        let _entered = runtime.enter();
        let interrupts = signal(SignalKind::interrupt()).context("SIGINT")?;
        let terminations = signal(SignalKind::terminate()).context("SIGTERM")?;
        (interrupts, terminations)
    };
    std::thread::Builder::new()
        .name("interrupt".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                let patience = tokio::select! {
                    _ = interrupts.recv() => Duration::MAX,
                    _ = terminations.recv() => TERMINATION_TIMEOUT,
                };
                asked.ask();
                tokio::select! {
                    _ = interrupts.recv() => {}
                    _ = terminations.recv() => {}
                    () = tokio::time::sleep(patience) => {}
                }
            });
            std::process::exit(SIGNALLED);
        })
        .context("cannot start a thread")?;
    Ok(stop)
}

/// Progress line of a run.
struct ProgressLine {
    bar: ProgressBar,
    whole: Duration,
    last: std::cell::Cell<(Duration, u64, f64)>,
}

/// Interval over which the displayed rate is averaged.
const RATE_OVER: Duration = Duration::from_secs(1);

impl ProgressLine {
    fn new(plan: &Plan, quiet: bool) -> Self {
        let whole = plan.warm_up + plan.duration;
        let (bar, template) = match plan.requests_max {
            _ if quiet => (ProgressBar::hidden(), "{msg}"),
            Some(_) => (ProgressBar::no_length(), "{spinner} {msg}"),
            None => (
                ProgressBar::new(u64::try_from(whole.as_millis()).unwrap_or(u64::MAX)),
                "[{bar:24}] {msg}",
            ),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self {
            bar,
            whole,
            last: std::cell::Cell::default(),
        }
    }

    fn show(&self, progress: &Progress) {
        let (at, events, mut rate) = self.last.get();
        let passed = progress.elapsed.saturating_sub(at);
        if passed >= RATE_OVER {
            rate = (progress.acknowledged_events - events) as f64 / passed.as_secs_f64();
            self.last
                .set((progress.elapsed, progress.acknowledged_events, rate));
        }
        let position = progress.elapsed.min(self.whole).as_millis();
        self.bar
            .set_position(u64::try_from(position).unwrap_or(u64::MAX));
        self.bar.set_message(format!(
            "{:>5.1} s{}  {:>11} events/s  p50 {:.2} ms  p99 {:.2} ms  {} failed",
            progress.elapsed.as_secs_f64(),
            if progress.warming_up {
                " (warm-up)"
            } else {
                ""
            },
            grouped(rate),
            progress.p50_us / 1000.0,
            progress.p99_us / 1000.0,
            progress.failed_requests
        ));
    }
}
