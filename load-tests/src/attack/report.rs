//! What came of it, and the bounds.

use super::bounds::{self, Bound, MEMORY_BYTES_MAX};
use super::good::load::Phase;
use super::hostile::unproved;
use super::tally::{Outcomes, Tally, Took};
use super::weather::{Seconds, Weather};
use crate::report::{grouped, mebibytes};
use crate::verify::Verdict;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::fmt;

/// Operations that are shown.
const DEAREST_MAX: usize = 12;

/// Memory around one attack.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Memory {
    /// Resident before the first.
    pub calm_bytes: u64,
    /// The most so far.
    pub most_bytes: u64,
    /// Resident when it ended.
    pub at_end_bytes: u64,
    /// The least within five seconds after.
    pub after_bytes: u64,
    /// The most that the engine's process had so far.
    pub engine_most_bytes: u64,
}

/// What came of an attack.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What it was drawn from.
    pub seed: u64,
    /// The command line; empty when none made it.
    pub command: String,
    /// What the good tenant was answered, phase by phase.
    pub phases: Vec<Phase>,
    /// Seconds until who a user is can be read.
    pub persons: Seconds,
    /// Seconds until an export is there.
    pub exports: Seconds,
    /// Seconds until the API answers.
    pub answers: Seconds,
    /// Seconds that shipping is behind.
    pub watermark: Seconds,
    /// Memory around each attack.
    pub memory: Vec<Memory>,
    /// Whether everything is stored once.
    pub verdict: Option<Verdict>,
    /// What was tried, and what came of it.
    pub outcomes: Outcomes,
    /// Tasks of which no outcome was judged.
    pub unproved: Vec<String>,
    /// Operations of the API by what the longest answer took, the dearest first.
    pub dearest: Vec<(String, Took)>,
    /// What was wrong: how often.
    pub wrong: u64,
    /// And the first of it in words.
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
            verdict: None,
            outcomes: Outcomes::new(),
            unproved: Vec::new(),
            dearest: Vec::new(),
            wrong: 0,
            wrongs: Vec::new(),
        }
    }

    /// Adds what was counted, of the tasks that were wanted.
    pub(super) fn add(&mut self, tally: &Tally, only: &[String]) {
        self.outcomes = tally.outcomes();
        self.unproved = unproved(&self.outcomes, only);
        self.dearest = tally.dearest();
        self.dearest.truncate(DEAREST_MAX);
        let wrongs = tally.wrongs();
        (self.wrong, self.wrongs) = (wrongs.count, wrongs.told);
    }

    /// Bytes that the server had at its highest.
    #[must_use]
    pub fn memory_most_bytes(&self) -> u64 {
        let most = self.memory.iter().map(|it| it.most_bytes);
        most.max().unwrap_or_default()
    }

    /// Whether nothing is wrong, whatever the time it took: answers, refusals, processes, what is stored, memory at its
    /// highest, that the good tenant was served at all, and that each attack was one.
    #[must_use]
    pub fn is_right(&self) -> bool {
        let is_stored = self.verdict.as_ref().is_some_and(Verdict::is_clean);
        let is_small = self.memory_most_bytes() <= MEMORY_BYTES_MAX;
        let is_tried = self.unproved.is_empty() && self.unserved().is_empty();
        self.wrong == 0 && is_stored && is_small && is_tried
    }

    /// Kinds of service that the good tenant had none of under attack.
    #[must_use]
    pub fn unserved(&self) -> Vec<&'static str> {
        let served = bounds::served(self).into_iter();
        let none = served.filter(|(_, times)| *times == 0);
        none.map(|(name, _)| name).collect()
    }

    /// Bounds that were not kept; only worth something where nobody else uses the machine.
    #[must_use]
    pub fn slow(&self) -> Vec<Bound> {
        let bounds = self.bounds().into_iter();
        bounds.filter(|bound| !bound.is_kept()).collect()
    }

    /// All bounds on time, refusals and memory that is left.
    #[must_use]
    pub fn bounds(&self) -> Vec<Bound> {
        bounds::all(self)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.weather {
            Weather::Calm => "calm",
            Weather::Attack => "attack",
            Weather::Settling => "settling",
            Weather::Over => "over",
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
            "memory {:.0} MiB in calm, {:.0} at the most, {:.0} at the end, {:.0} within 5 s after; the engine's {:.0} at the most",
            mebibytes(self.calm_bytes),
            mebibytes(self.most_bytes),
            mebibytes(self.at_end_bytes),
            mebibytes(self.after_bytes),
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
            let verdict = match (bound.is_kept(), bound.measured) {
                (true, _) => "kept",
                (false, 0) => "NOT MEASURED",
                (false, _) => "NOT KEPT",
            };
            bounds.add_row([
                bound.name.to_owned(),
                format!("{:.2}", bound.calm),
                format!("{:.2}", bound.attack),
                format!("{:.2}", bound.max),
                verdict.to_owned(),
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
        if let Some(verdict) = &self.verdict {
            writeln!(f, "\n{verdict}\n")?;
        }
        let engine = self.memory.iter().map(|it| it.engine_most_bytes).max();
        let engine = mebibytes(engine.unwrap_or_default());
        writeln!(f, "the engine's memory: {engine:.0} MiB at the most")?;
        for (operation, took) in &self.dearest {
            writeln!(f, "{operation}: {took}")?;
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
    use crate::attack::good::load::Latency;
    use crate::attack::weather::{Answers, Spread};

    const SERVED: Answers = Answers {
        taken: 200,
        refused: 0,
    };

    /// A tenant who is served in calm and under attack.
    fn report(calm_ms: f64, attack_ms: f64) -> Report {
        let mut report = Report::new(1);
        for (weather, p99_ms) in [(Weather::Calm, calm_ms), (Weather::Attack, attack_ms)] {
            let latency = Latency {
                answers: SERVED,
                p99_ms,
                ..Latency::default()
            };
            report.phases.push(Phase {
                weather,
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
            engine_most_bytes: 0,
        }];
        report.verdict = Some(Verdict::default());
        report
    }

    #[test]
    fn latency_may_double_and_a_few_milliseconds_are_no_attack() {
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
    fn one_of_a_hundred_may_be_told_to_come_again_and_no_more() {
        let beyond = |refused| {
            let mut report = report(1.0, 1.0);
            let answers = Answers {
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
    fn who_is_not_served_at_all_was_not_served_in_time() {
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
            assert!(!report.is_right(), "{name}");
            let slow = report.slow();
            assert!(
                slow.iter().any(|bound| bound.name.starts_with(name)),
                "{name}"
            );
        }
    }

    #[test]
    fn what_is_wrong_lost_or_too_large_or_was_not_tried_is_not_right() {
        let is_right = |change: fn(&mut Report)| {
            let mut report = report(1.0, 1.0);
            change(&mut report);
            report.is_right()
        };
        assert!(is_right(|_| {}));
        assert!(!is_right(|report| report.wrong = 1));
        assert!(!is_right(|report| report.verdict = None));
        assert!(!is_right(|report| {
            let verdict = report.verdict.get_or_insert_default();
            verdict.missing.batches = 1;
        }));
        assert!(!is_right(|report| {
            report.memory[0].most_bytes = MEMORY_BYTES_MAX + 1;
        }));
        assert!(!is_right(|report| report.unproved.push("bombs".to_owned())));
    }
}
