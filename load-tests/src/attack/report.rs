//! Results of an attack.

use super::cost_search::DearBody;
use super::findings::{Findings, OperationTimes, Outcomes};
use super::good_tenant::load::PhaseReport;
use super::hostile::unproved;
use super::phase::{PhaseKind, Seconds};
use crate::digits::grouped;
use crate::report::mebibytes;
use crate::verify::VerifyReport;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::fmt;

/// Slowest operations that a report shows.
const DEAREST_MAX: usize = 12;

/// Highest memory of a server: bodies (1 GiB and half as much for parsers), responses (256 MiB),
/// and the process itself.
pub(super) const MEMORY_BYTES_MAX: u64 = 2 << 30;

/// Memory around one attack.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Memory {
    /// Resident bytes before the first attack.
    pub calm_bytes: u64,
    /// Highest resident bytes so far.
    pub most_bytes: u64,
    /// Resident bytes at the end of the attack.
    pub at_end_bytes: u64,
    /// Lowest resident bytes within five seconds after the attack.
    pub after_bytes: u64,
    /// Resident bytes of the engine's process before the first attack.
    pub engine_calm_bytes: u64,
    /// Highest resident bytes of the engine's process so far.
    pub engine_most_bytes: u64,
}

/// Results of an attack, with its bounds.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Seed of the run.
    pub seed: u64,
    /// Command line of the run; empty if there was none.
    pub command: String,
    /// Responses to the good tenant, by phase.
    pub phases: Vec<PhaseReport>,
    /// Seconds until a user's identity can be queried.
    pub persons: Seconds,
    /// Seconds until an export is complete.
    pub exports: Seconds,
    /// Seconds until the API responds.
    pub answers: Seconds,
    /// Age of the watermark in seconds: the lag of shipping.
    pub watermark: Seconds,
    /// Memory around each attack.
    pub memory: Vec<Memory>,
    /// Result of comparing the ledger with ClickHouse. JSON reports call it `verdict`.
    #[serde(rename = "verdict")]
    pub verification: Option<VerifyReport>,
    /// Outcomes of all attempts.
    pub outcomes: Outcomes,
    /// Selected tasks without a processed request.
    pub unproved: Vec<String>,
    /// Operations of the API with their response times, slowest first.
    pub dearest: Vec<(String, OperationTimes)>,
    /// Bodies that took longest for their bytes, dearest first, without a key and with one.
    pub dearest_bodies: Vec<DearBody>,
    /// Number of violations.
    pub wrong: u64,
    /// The first violations, in words.
    pub wrongs: Vec<String>,
}

impl Report {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            command: String::new(),
            phases: Vec::new(),
            persons: Seconds::default(),
            exports: Seconds::default(),
            answers: Seconds::default(),
            watermark: Seconds::default(),
            memory: Vec::new(),
            verification: None,
            outcomes: Outcomes::new(),
            unproved: Vec::new(),
            dearest: Vec::new(),
            dearest_bodies: Vec::new(),
            wrong: 0,
            wrongs: Vec::new(),
        }
    }

    /// Adds the findings of the selected tasks.
    pub(super) fn add(&mut self, findings: &Findings, only: &[String]) {
        self.outcomes = findings.outcomes();
        self.unproved = unproved(&self.outcomes, only);
        self.dearest = findings.dearest();
        self.dearest.truncate(DEAREST_MAX);
        let wrongs = findings.wrongs();
        (self.wrong, self.wrongs) = (wrongs.count, wrongs.examples);
    }

    /// Tasks that were not processed, and services that were not given, so far.
    pub(super) fn missing(&self) -> Vec<String> {
        let unserved = self.unserved().into_iter().map(str::to_owned);
        self.unproved.iter().cloned().chain(unserved).collect()
    }

    /// Highest resident bytes of the server.
    #[must_use]
    pub fn memory_most_bytes(&self) -> u64 {
        let most = self.memory.iter().map(|it| it.most_bytes);
        most.max().unwrap_or_default()
    }

    /// Returns true if nothing is wrong, at whatever speed: no violation, every event stored once,
    /// memory below its limit, the good tenant served under attack, and every attack carried out.
    #[must_use]
    pub fn is_right(&self) -> bool {
        let is_stored = self
            .verification
            .as_ref()
            .is_some_and(VerifyReport::is_clean);
        let is_small = self.memory_most_bytes() <= MEMORY_BYTES_MAX;
        let is_tried = self.unproved.is_empty() && self.unserved().is_empty();
        self.wrong == 0 && is_stored && is_small && is_tried
    }
}

impl fmt::Display for PhaseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            PhaseKind::Calm => "calm",
            PhaseKind::Attack => "attack",
            PhaseKind::ExtraAttack => "extra",
            PhaseKind::Settling => "settling",
            PhaseKind::Over => "over",
        };
        write!(f, "{name:<7}")?;
        for (what, of) in [("singles", &self.singles), ("batches", &self.batches)] {
            write!(
                f,
                " {what}: {} taken, {} told 503, p50 {:.1} p99 {:.1} max {:.1} ms;",
                of.answers.taken, of.answers.refused, of.p50_ms, of.p99_ms, of.max_ms
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "memory {:.0} MiB in calm, {:.0} at the most, {:.0} at the end, {:.0} within 5 s after; the engine's {:.0} in calm, {:.0} at the most",
            mebibytes(self.calm_bytes),
            mebibytes(self.most_bytes),
            mebibytes(self.at_end_bytes),
            mebibytes(self.after_bytes),
            mebibytes(self.engine_calm_bytes),
            mebibytes(self.engine_most_bytes)
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tried = table(["tried", "came of it"]);
        for (what, outcomes) in &self.outcomes {
            let told = outcomes
                .iter()
                .map(|(outcome, count)| format!("{count} × {outcome}"));
            tried.add_row([what.clone(), told.collect::<Vec<_>>().join(", ")]);
        }
        writeln!(f, "{tried}\n")?;
        let mut bounds = table(["good tenant", "calm", "attack", "at most", ""]);
        for bound in self.bounds() {
            let status = match (bound.is_kept(), bound.measured) {
                (true, _) => "kept",
                (false, 0) => "NOT MEASURED",
                (false, _) => "NOT KEPT",
            };
            bounds.add_row([
                bound.name.to_owned(),
                format!("{:.2}", bound.calm),
                format!("{:.2}", bound.attack),
                format!("{:.2}", bound.max),
                status.to_owned(),
            ]);
        }
        for column in bounds.column_iter_mut().skip(1).take(3) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{bounds}\n")?;
        for (what, seconds) in [
            ("persons", &self.persons),
            ("exports", &self.exports),
            ("API", &self.answers),
        ] {
            writeln!(
                f,
                "{what}: {} in calm, {} under attack, which took {:.1} s at the most",
                grouped(seconds.calm.count as f64),
                grouped(seconds.attack.count as f64),
                seconds.attack.max
            )?;
        }
        if let Some(verification) = &self.verification {
            writeln!(f, "\n{verification}\n")?;
        }
        for (operation, took) in &self.dearest {
            writeln!(f, "{operation}: {took}")?;
        }
        for body in &self.dearest_bodies {
            writeln!(f, "{body}")?;
        }
        for wrong in &self.wrongs {
            writeln!(f, "WRONG: {wrong}")?;
        }
        for task in &self.unproved {
            writeln!(f, "NOT TRIED: {task}")?;
        }
        for what in self.unserved() {
            writeln!(f, "NOT SERVED: {what}")?;
        }
        write!(f, "seed {}: {} wrong", self.seed, self.wrong)
    }
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::good_tenant::load::Latency;
    use crate::attack::phase::{ResponseCounts, Spread};
    use crate::attack::subject::ENGINE_MEMORY_BYTES;

    const SERVED: ResponseCounts = ResponseCounts {
        taken: 200,
        refused: 0,
    };

    /// Report of a tenant that is served in calm and under attack.
    fn report(calm_ms: f64, attack_ms: f64) -> Report {
        let mut report = Report::new(1);
        for (kind, p99_ms) in [(PhaseKind::Calm, calm_ms), (PhaseKind::Attack, attack_ms)] {
            let latency = Latency {
                answers: SERVED,
                p99_ms,
                ..Latency::default()
            };
            report.phases.push(PhaseReport {
                kind,
                singles: latency,
                batches: latency,
            });
        }
        let seconds = Seconds {
            attack: Spread::of(&[1.0]),
            served: 1,
            answers: SERVED,
            ..Seconds::default()
        };
        report.persons = seconds.clone();
        report.exports = seconds.clone();
        report.answers = seconds.clone();
        report.watermark = seconds;
        report.memory = vec![Memory {
            calm_bytes: 0,
            most_bytes: 1,
            at_end_bytes: 0,
            after_bytes: 0,
            engine_calm_bytes: 0,
            engine_most_bytes: 1,
        }];
        report.verification = Some(VerifyReport::default());
        report
    }

    #[test]
    fn latency_may_double_or_reach_50_milliseconds() {
        for (calm_ms, attack_ms, beyond) in [
            (1.0, 50.0, 0),
            (1.0, 51.0, 2),
            (100.0, 200.0, 0),
            (100.0, 201.0, 2),
        ] {
            let report = report(calm_ms, attack_ms);
            assert_eq!(report.slow().len(), beyond, "{calm_ms} {attack_ms}");
            assert!(report.is_right(), "time is not what is right");
        }
    }

    #[test]
    fn an_extra_round_shows_that_somebody_is_served_and_is_not_timed() {
        let extra = |taken, refused, p99_ms| {
            let answers = ResponseCounts { taken, refused };
            let latency = Latency {
                answers,
                p99_ms,
                ..Latency::default()
            };
            PhaseReport {
                kind: PhaseKind::ExtraAttack,
                singles: latency,
                batches: latency,
            }
        };
        // Of the extra round: accepted, refused, and its latency.
        for (taken, refused, p99_ms) in [(200, 0, 1.0), (1, 100, 60_000.0), (0, 0, 0.0)] {
            for (attack_ms, beyond) in [(50.0, 0), (51.0, 2)] {
                let mut report = report(1.0, attack_ms);
                report.phases.push(extra(taken, refused, p99_ms));
                assert_eq!(report.slow().len(), beyond, "{taken} {attack_ms}");
            }
            let mut report = report(1.0, 1.0);
            let phase = &mut report.phases[1];
            (phase.singles.answers, phase.batches.answers) = Default::default();
            report.phases.push(extra(taken, refused, p99_ms));
            assert_eq!(report.unserved().is_empty(), taken > 0, "{taken}");
            let latencies = report.slow().into_iter();
            let latencies = latencies.filter(|bound| bound.name.contains("p99"));
            assert_eq!(latencies.count(), 2, "nobody was served in time: {taken}");
        }
    }

    #[test]
    fn the_engine_may_take_its_limit_and_what_it_has_in_calm() {
        for (most_bytes, beyond) in [
            (ENGINE_MEMORY_BYTES + (300 << 20), 0),
            (ENGINE_MEMORY_BYTES + (301 << 20), 1),
        ] {
            let mut report = report(1.0, 1.0);
            report.memory[0].engine_calm_bytes = 300 << 20;
            report.memory[0].engine_most_bytes = most_bytes;
            assert_eq!(report.slow().len(), beyond, "{most_bytes}");
        }
    }

    #[test]
    fn at_most_one_percent_may_be_refused() {
        let beyond = |refused| {
            let mut report = report(1.0, 1.0);
            let answers = ResponseCounts {
                taken: 1000 - refused,
                refused,
            };
            for phase in &mut report.phases {
                (phase.singles.answers, phase.batches.answers) = (answers, answers);
            }
            for of in [
                &mut report.persons,
                &mut report.exports,
                &mut report.answers,
            ] {
                of.answers = answers;
            }
            assert!(report.is_right());
            report.slow().len()
        };
        assert_eq!((beyond(10), beyond(11)), (0, 5));
    }

    #[test]
    fn a_service_that_was_never_given_breaks_its_bounds() {
        type Change = fn(&mut Report);
        let changes: [(Change, &str); 6] = [
            (|it| it.phases[1].singles.answers.taken = 0, "single events"),
            (|it| it.phases[1].batches.answers.taken = 0, "batches"),
            (|it| it.persons = Seconds::default(), "persons"),
            (|it| it.exports = Seconds::default(), "exports"),
            (|it| it.watermark = Seconds::default(), "watermark"),
            (|it| it.answers = Seconds::default(), "API"),
        ];
        for (change, name) in changes {
            let mut report = report(1.0, 1.0);
            change(&mut report);
            assert_eq!(report.unserved(), [name]);
            assert_eq!(report.missing(), [name], "one more round is run for it");
            assert!(!report.is_right(), "{name}");
            let slow = report.slow();
            assert!(
                slow.iter().any(|bound| bound.name.starts_with(name)),
                "{name}"
            );
        }
    }

    #[test]
    fn violations_losses_excess_memory_and_missing_attacks_fail_the_report() {
        let is_right = |change: fn(&mut Report)| {
            let mut report = report(1.0, 1.0);
            change(&mut report);
            report.is_right()
        };
        assert!(is_right(|_| {}));
        assert!(!is_right(|report| report.wrong = 1));
        assert!(!is_right(|report| report.verification = None));
        assert!(!is_right(|report| {
            let verification = report.verification.get_or_insert_default();
            verification.missing.batches = 1;
        }));
        assert!(!is_right(|report| {
            report.memory[0].most_bytes = MEMORY_BYTES_MAX + 1;
        }));
        assert!(!is_right(|report| report.unproved.push("bombs".to_owned())));
        let mut report = report(1.0, 1.0);
        assert_eq!(report.missing(), <[String; 0]>::default());
        report.unproved.push("bombs".to_owned());
        assert_eq!(report.missing(), ["bombs"], "one more round is run for it");
    }
}
