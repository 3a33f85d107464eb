//! Phases of a run in turn, and rounds beyond those asked for while a proof is missing.
//!
//! A machine with much other load gives an attack one or two requests in half a minute, and these
//! may be refused with 503. Nothing was shown then: neither that the server withstands the attack
//! nor that it does not. The attack is repeated, all of it and as often as
//! [`Options::extra_rounds_max`] says; what is missing after that fails the run.

use super::findings::Findings;
use super::good_tenant::GoodTenant;
use super::hostile::{AttackContext, AttackRound, MONTHS_TASKS};
use super::memory_kinds::MemoryKinds;
use super::options::{Options, is_selected};
use super::phase::{CurrentPhase, PhaseKind};
use super::report::{Memory, Report};
use super::subject::Subject;
use super::watch::Watch;
use crate::ledger::AckLedger;
use crate::runtime::current_thread_runtime;
use crate::stop::Stop;
use crate::verify::verify_and_tell;
use anyhow::{Result, anyhow};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait for the next row that is still being shipped.
const SHIP_TIMEOUT: Duration = Duration::from_secs(120);
/// Time after an attack within which memory must be released.
const MEMORY_BACK: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Context of the phases.
pub(super) struct Run<'a> {
    pub(super) options: &'a Options,
    pub(super) subject: &'a Subject,
    pub(super) good: &'a GoodTenant<'a>,
    pub(super) watch: &'a Watch<'a>,
    pub(super) context: &'a Arc<AttackContext>,
    pub(super) findings: &'a Findings,
    pub(super) current_phase: &'a CurrentPhase,
    pub(super) ledger: PathBuf,
    pub(super) stop: &'a Stop,
    pub(super) say: &'a (dyn Fn(&str) + Sync),
}

/// Resident bytes before the first attack.
#[derive(Clone, Copy)]
struct Calm {
    server_bytes: u64,
    engine_bytes: u64,
}

impl Run<'_> {
    /// Runs phases of calm and attack in turn, one beside events of many months, and a last one of
    /// calm.
    pub(super) fn phases(&self, report: &mut Report) -> Result<()> {
        let mut calm = None;
        for round in 0..self.options.rounds {
            self.phase(report, PhaseKind::Calm, round)?;
            let calm = *calm.get_or_insert(self.calm()?);
            if self.stop.is_asked() {
                break;
            }
            self.attack(report, calm, round)?;
        }
        if let Some(calm) = calm {
            self.extra_rounds(report, calm)?;
        }
        self.beside_months(report)?;
        self.phase(report, PhaseKind::Calm, self.options.rounds)
    }

    /// Runs the phase beside events of many months, if it is asked for.
    fn beside_months(&self, report: &mut Report) -> Result<()> {
        let is_selected = MONTHS_TASKS
            .iter()
            .any(|task| is_selected(task, &self.options.only));
        if is_selected && !self.options.months.is_zero() && !self.stop.is_asked() {
            self.phase(report, PhaseKind::Months, self.options.rounds)?;
            // As after an attack: the months that wait are no calm.
            self.current_phase.set(PhaseKind::Settling);
            std::thread::sleep(MEMORY_BACK);
        }
        Ok(())
    }

    /// Repeats the attack while a task or a service lacks its proof.
    fn extra_rounds(&self, report: &mut Report, calm: Calm) -> Result<()> {
        for extra in 0..self.options.extra_rounds_max {
            self.fill(report);
            let missing = report.missing();
            if missing.is_empty() || self.stop.is_asked() || self.subject.has_ended()? {
                break;
            }
            (self.say)(&format!("one more round, without: {}", missing.join("; ")));
            self.attack(report, calm, self.options.rounds + extra)?;
        }
        Ok(())
    }

    /// Adds the figures and findings so far to the report.
    pub(super) fn fill(&self, report: &mut Report) {
        report.persons = self.good.persons.seconds();
        report.exports = self.good.exports.seconds();
        report.answers = self.good.answers.seconds();
        report.watermark = self.watch.watermark.seconds();
        report.add(self.findings, self.options);
    }

    fn attack(&self, report: &mut Report, calm: Calm, round: u32) -> Result<()> {
        let kind = match round < self.options.rounds {
            true => PhaseKind::Attack,
            false => PhaseKind::ExtraAttack,
        };
        self.phase(report, kind, round)?;
        let back = self.memory_after(calm)?;
        let (round, rounds) = (round + 1, self.options.rounds);
        (self.say)(&format!("round {round} of {}: {back}", rounds.max(round)));
        report.memory.push(back);
        Ok(())
    }

    fn phase(&self, report: &mut Report, kind: PhaseKind, round: u32) -> Result<()> {
        self.current_phase.set(kind);
        let round = AttackRound {
            number: round,
            duration: match kind {
                PhaseKind::Attack => self.options.attack,
                // A request that takes longer than a phase is never answered in one.
                PhaseKind::ExtraAttack => self.options.attack * 2,
                PhaseKind::Months => self.options.months,
                PhaseKind::Calm | PhaseKind::Settling | PhaseKind::Over => self.options.calm,
            },
            is_extra: kind == PhaseKind::ExtraAttack,
            tasks: match kind {
                PhaseKind::Months => &MONTHS_TASKS,
                _ => &[],
            },
        };
        let load = || {
            let duration = round.duration;
            self.good.load(kind, duration, &self.ledger, self.stop)
        };
        let phase = if kind.has_attackers() {
            std::thread::scope(|scope| {
                let attack = scope.spawn(|| self.context.run_round(round));
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

    fn calm(&self) -> Result<Calm> {
        Ok(Calm {
            server_bytes: self.subject.memory_bytes("VmRSS")?,
            engine_bytes: self.subject.engine_memory_bytes("VmRSS")?,
        })
    }

    /// Memory after an attack, once it should be released.
    fn memory_after(&self, calm: Calm) -> Result<Memory> {
        self.current_phase.set(PhaseKind::Settling);
        let ended = Instant::now();
        let at_end_bytes = self.subject.memory_bytes("VmRSS")?;
        let mut now_bytes = at_end_bytes;
        while ended.elapsed() < MEMORY_BACK {
            std::thread::sleep(LOOK_AGAIN);
            now_bytes = now_bytes.min(self.subject.memory_bytes("VmRSS")?);
        }
        Ok(Memory {
            calm_bytes: calm.server_bytes,
            most_bytes: self.subject.memory_bytes("VmHWM")?,
            at_end_bytes,
            after_bytes: now_bytes,
            kinds: MemoryKinds::of(self.subject.pid()),
            engine_calm_bytes: calm.engine_bytes,
            engine_most_bytes: self.subject.engine_memory_bytes("VmHWM")?,
        })
    }

    /// Verifies that every acknowledged event is stored exactly once.
    pub(super) fn verification(&self) -> Result<crate::VerifyReport> {
        let ledger = AckLedger::read(&self.ledger)?;
        let clickhouse = self.subject.clickhouse();
        let verified = verify_and_tell(&ledger, &clickhouse, SHIP_TIMEOUT, self.say);
        current_thread_runtime()?.block_on(verified)
    }
}
