//! Attacks a server with everything known against it, beside a tenant that works normally.
//!
//! A server with its engine starts on an empty folder. The good tenant sends events, names users,
//! exports, and calls the API during the whole run. Phases of calm and of attack alternate. The
//! cost of the attack is thus a ratio within one run, which a slow or busy machine changes less
//! than absolute figures.
//!
//! - [`mod@options`]: options of an attack.
//! - [`good_tenant`]: the good tenant's work, with known responses.
//! - [`hostile`]: all attacking tasks.
//! - [`bombs`], [`mutate`], [`cost_search`]: bodies that cost more than their size suggests.
//! - [`run`]: the phases in turn, and further rounds for missing proofs.
//! - [`subject`], [`watch`]: the processes, and [`memory_kinds`], whose allocators hold memory.
//! - [`tenants`]: the organizations that use them.
//! - [`mail_sink`]: the server that takes their mails.
//! - [`coverage`]: attempts that the API's document asks for.
//! - [`export_runs`]: runs of a full organization's exports; [`yesterday`]: events to export.
//! - [`shipped`]: the wait for everything to be in ClickHouse; [`outputs`]: the operator's view at
//!   the end.
//! - [`report`]: the results; [`bounds`]: their limits.
//!
//! Violations count on any machine: a wrong response, an event lost or doubled, a process that
//! ended, a missing refusal, memory above its bound. [`report::Report::slow`] judges times.

mod bombs;
mod bounds;
mod cost_search;
mod coverage;
mod export_runs;
mod findings;
mod good_tenant;
mod hostile;
mod hostile_text;
mod http;
mod lock;
mod mail_sink;
mod memory_kinds;
mod mutate;
mod operation_times;
pub mod options;
mod outputs;
pub mod phase;
pub mod report;
mod run;
mod shipped;
mod subject;
mod tenants;
mod watch;
mod yesterday;

pub use bounds::Bound;
pub use cost_search::CostlyBody;
pub use coverage::CoveredGroup;
pub use export_runs::FullExports;
pub use good_tenant::load::{Latency, PhaseReport};
pub use hostile::{CostlyOperation, task_names};
pub use memory_kinds::MemoryKinds;
pub use operation_times::OperationTimes;
pub use options::Options;

use crate::runtime::current_thread_runtime;
use crate::stop::Stop;
use anyhow::{Context, Result, anyhow, ensure};
use findings::Findings;
use good_tenant::GoodTenant;
use hostile::AttackContext;
use mail_sink::MailSink;
use phase::{CurrentPhase, PhaseKind};
use report::Report;
use run::Run;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use subject::Subject;
use tempfile::TempDir;
use tenants::Tenants;
use watch::Watch;

/// Statements that stop merges, which fold rows of one event and would hide duplicates, and lift
/// the limits on parts that are not merged.
const KEEP_ALL: [&str; 2] = [
    "SYSTEM STOP MERGES millrace.events",
    "ALTER TABLE millrace.events MODIFY SETTING parts_to_delay_insert = 1000000, \
     parts_to_throw_insert = 1000000, max_parts_in_total = 100000000",
];

/// Runs the phases of an attack, unless stopped; `say` gets the progress.
///
/// # Errors
/// The server does not start, or no longer responds.
pub fn attack(options: &Options, stop: &Stop, say: &(dyn Fn(&str) + Sync)) -> Result<Report> {
    ensure!(options.rounds > 0, "at least one round is required");
    let dir = TempDir::with_prefix_in("millrace-attack-", &options.dir).context("a folder")?;
    let report = attack_in(dir.path(), options, stop, say);
    if !report.as_ref().is_ok_and(Report::is_right) {
        say(&format!("the folder is kept: {}", dir.keep().display()));
    }
    report
}

/// Runs an attack in this folder.
fn attack_in(
    dir: &Path,
    options: &Options,
    stop: &Stop,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Report> {
    let (current_phase, findings) = (CurrentPhase::default(), Arc::new(Findings::default()));
    let mails = MailSink::start(&findings)?;
    let subject = Subject::start(options, dir, &mails)?;
    let tenants = Arc::new(Tenants::make(&subject)?);
    let clickhouse = subject.clickhouse();
    for statement in KEEP_ALL {
        current_thread_runtime()?.block_on(clickhouse.execute(statement))?;
    }
    say("making bombs");
    let context = Arc::new(AttackContext::new(options, &subject, &tenants, &findings)?);
    let good = GoodTenant::new(&subject, &tenants, &findings, &current_phase)?;
    let watch = Watch::new(&subject, &findings, &current_phase);
    let mut report = Report::new(options.seed);
    let run = Run {
        options,
        subject: &subject,
        good: &good,
        watch: &watch,
        context: &context,
        findings: &findings,
        current_phase: &current_phase,
        ledger: dir.join("ledger"),
        stop,
        say,
    };
    std::thread::scope(|scope| {
        let tasks = [
            scope.spawn(|| watch.look()),
            scope.spawn(|| good.name_persons().map(drop)),
            scope.spawn(|| good.export()),
            scope.spawn(|| good.ask()),
            scope.spawn(|| good.query()),
        ];
        let ran = run.phases(&mut report);
        current_phase.set(PhaseKind::Over);
        for task in tasks {
            task.join().map_err(|_| anyhow!("a task panicked"))??;
        }
        ran
    })?;
    watch.close();
    shipped::wait(&subject, &findings, say)?;
    report.costliest_bodies = context.costliest_bodies()?;
    report.costliest_operations = context.costliest_operations();
    outputs::check(&subject, &tenants, &findings)?;
    report.verification = Some(run.verification()?);
    run.fill(&mut report);
    Ok(report)
}

/// Folder of the corpora in a checkout of the sources.
#[must_use]
pub fn corpus_in(root: &Path) -> PathBuf {
    root.join("ingest/fuzz/corpus")
}
