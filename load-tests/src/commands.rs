//! Implementation of the commands.

use crate::attack_command::{self, AttackArgs};
use crate::cli::{CompareArgs, DrainServerArgs, JoinArgs, MaxRateArgs, RunArgs, VerifyArgs};
use crate::crash_command::{self, CrashArgs};
use crate::finish;
use crate::progress_line::ProgressLine;
use crate::proxy_command::{self, ProxyArgs};
use crate::suite_command::{self, PageArgs, SuiteArgs};
use anyhow::{Context, Result};
use millrace_load::baseline::{RequestCounts, Work, serve, serve_tls};
use millrace_load::digits::grouped;
use millrace_load::ledger::AckLedger;
use millrace_load::max_rate::{Search, Step};
use millrace_load::runtime::current_thread_runtime;
use millrace_load::{Stop, Summary, html, process, run_observed, tls, wall_clock};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Longest time for a run to end after SIGTERM.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(5);
/// Exit code of a process ended by SIGTERM, as shells give it.
const SIGNALLED: i32 = 143;

/// Sends load and reports; exit code 1 if a condition of `--fail-if` is met.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let plan = args.plan()?;
    let stop = stop_on_interrupt()?;
    if let Some(start) = args.load.start_at {
        wall_clock::wait_until(start, &stop);
    }
    let line = ProgressLine::new(&plan, args.output.quiet);
    let files = &args.output.files;
    let mut prometheus = finish::prometheus_file(files)?;
    let mut summary = run_observed(&plan, &stop, &mut |progress| {
        line.show(progress);
        if let Some(file) = &mut prometheus {
            // An error comes again at the end, when the file is written for the last time.
            let _ = file.progress(progress);
        }
    })?;
    line.clear();
    print!("{summary}");
    finish::end(&mut summary, files, prometheus.as_ref())
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

/// Searches for the highest rate; exit code 1 if none keeps the bound, or by `--fail-if`.
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
    let files = &args.run.output.files;
    let prometheus = finish::prometheus_file(files)?;
    finish::end(&mut best, files, prometheus.as_ref())
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

/// Adds result files; exit code 1 if a condition of `--fail-if` is met.
pub fn join(args: &JoinArgs) -> Result<ExitCode> {
    let runs = args.runs.iter().map(|file| Summary::read(file));
    let runs = runs.collect::<Result<Vec<_>>>()?;
    let mut joined = millrace_load::join::join(&runs)?;
    print!("{joined}");
    for note in millrace_load::join::notes(&runs) {
        println!("Note: {note}");
    }
    let prometheus = finish::prometheus_file(&args.files)?;
    finish::end(&mut joined, &args.files, prometheus.as_ref())
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

/// Writes the page of results anew.
pub fn page(args: &PageArgs) -> Result<ExitCode> {
    suite_command::page(args)
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
