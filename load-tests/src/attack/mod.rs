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
//! - [`bombs`], [`mutate`]: bodies that cost more than their size suggests.
//! - [`subject`], [`watch`]: the processes; [`tenants`]: the organizations that use them.
//! - [`outputs`]: the operator's view at the end.
//! - [`report`]: the results; [`bounds`]: their limits.
//!
//! Violations count on any machine: a wrong response, an event lost or doubled, a process that
//! ended, a missing refusal, memory above its bound. [`report::Report::slow`] judges times.

mod bombs;
mod bounds;
mod findings;
mod good_tenant;
mod hostile;
mod http;
mod mutate;
pub mod options;
mod outputs;
pub mod phase;
pub mod report;
mod subject;
mod tenants;
mod watch;

pub use bounds::Bound;
pub use findings::OperationTimes;
pub use good_tenant::load::{Latency, PhaseReport};
pub use hostile::task_names;
pub use options::Options;

use crate::ledger::AckLedger;
use crate::runtime::current_thread_runtime;
use crate::stop::Stop;
use crate::verify::verify;
use anyhow::{Context, Result, anyhow, ensure};
use findings::Findings;
use good_tenant::GoodTenant;
use hostile::AttackContext;
use phase::{CurrentPhase, PhaseKind};
use report::{Memory, Report};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use subject::Subject;
use tempfile::TempDir;
use tenants::Tenants;
use watch::Watch;

/// Longest wait for the next row that is still being shipped.
const SHIP_PATIENCE: Duration = Duration::from_secs(120);
/// Time after an attack within which memory must be released.
const MEMORY_BACK: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

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
    let subject = Subject::start(options, dir)?;
    let tenants = Arc::new(Tenants::make(&subject)?);
    // Merges fold rows of one event and would hide duplicates.
    let clickhouse = subject.clickhouse();
    current_thread_runtime()?.block_on(clickhouse.execute("SYSTEM STOP MERGES millrace.events"))?;
    say("making bombs");
    let context = Arc::new(AttackContext::new(options, &subject, &tenants, &findings)?);
    let good = GoodTenant::new(&subject, &tenants, &findings, &current_phase)?;
    let watch = Watch::new(&subject, &findings, &current_phase);
    let mut report = Report::new(options.seed);
    let run = Run {
        options,
        subject: &subject,
        good: &good,
        context: &context,
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
        ];
        let ran = run.phases(&mut report);
        current_phase.set(PhaseKind::Over);
        for task in tasks {
            task.join().map_err(|_| anyhow!("a task panicked"))??;
        }
        ran
    })?;
    watch.close();
    outputs::check(&subject, &findings)?;
    report.verification = Some(run.verification()?);
    report.persons = good.persons.seconds();
    report.exports = good.exports.seconds();
    report.answers = good.answers.seconds();
    report.watermark = watch.watermark.seconds();
    report.add(&findings, &options.only);
    Ok(report)
}

/// Context of the phases.
struct Run<'a> {
    options: &'a Options,
    subject: &'a Subject,
    good: &'a GoodTenant<'a>,
    context: &'a Arc<AttackContext>,
    current_phase: &'a CurrentPhase,
    ledger: PathBuf,
    stop: &'a Stop,
    say: &'a (dyn Fn(&str) + Sync),
}

impl Run<'_> {
    /// Runs phases of calm and attack in turn, and a last one of calm.
    fn phases(&self, report: &mut Report) -> Result<()> {
        let mut calm_bytes = None;
        for round in 0..self.options.rounds {
            self.phase(report, PhaseKind::Calm, round)?;
            let calm = *calm_bytes.get_or_insert(self.subject.memory_bytes("VmRSS")?);
            if self.stop.is_asked() {
                break;
            }
            self.phase(report, PhaseKind::Attack, round)?;
            let back = self.memory_after(calm)?;
            (self.say)(&format!(
                "round {} of {}: {back}",
                round + 1,
                self.options.rounds
            ));
            report.memory.push(back);
        }
        self.phase(report, PhaseKind::Calm, self.options.rounds)
    }

    fn phase(&self, report: &mut Report, kind: PhaseKind, round: u32) -> Result<()> {
        self.current_phase.set(kind);
        let duration = match kind {
            PhaseKind::Attack => self.options.attack,
            _ => self.options.calm,
        };
        let load = || self.good.load(kind, duration, &self.ledger, self.stop);
        let phase = if kind == PhaseKind::Attack {
            std::thread::scope(|scope| {
                let attack = scope.spawn(|| self.context.run_round(round, duration));
                let phase = load();
                let attack = attack.join().map_err(|_| anyhow!("an attack panicked"))?;
                attack.and(phase)
            })?
        } else {
            load()?
        };
        (self.say)(&phase.to_string());
        report.phases.push(phase);
        Ok(())
    }

    /// Memory after an attack, once it should be released.
    fn memory_after(&self, calm_bytes: u64) -> Result<Memory> {
        self.current_phase.set(PhaseKind::Settling);
        let ended = Instant::now();
        let at_end_bytes = self.subject.memory_bytes("VmRSS")?;
        let mut now_bytes = at_end_bytes;
        while ended.elapsed() < MEMORY_BACK {
            std::thread::sleep(LOOK_AGAIN);
            now_bytes = now_bytes.min(self.subject.memory_bytes("VmRSS")?);
        }
        Ok(Memory {
            calm_bytes,
            most_bytes: self.subject.memory_bytes("VmHWM")?,
            engine_most_bytes: self.subject.engine_most_bytes()?,
            at_end_bytes,
            after_bytes: now_bytes,
        })
    }

    /// Verifies that every acknowledged event is stored exactly once.
    fn verification(&self) -> Result<crate::VerifyReport> {
        let ledger = AckLedger::read(&self.ledger)?;
        let clickhouse = self.subject.clickhouse();
        current_thread_runtime()?.block_on(verify(&ledger, &clickhouse, SHIP_PATIENCE))
    }
}

/// Folder of the corpora in a checkout of the sources.
#[must_use]
pub fn corpus_in(root: &Path) -> PathBuf {
    root.join("ingest/fuzz/corpus")
}
