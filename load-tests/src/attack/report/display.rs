//! Text of a report: attempts, bounds, services and findings.

use super::{Memory, Report};
use crate::attack::good_tenant::load::PhaseReport;
use crate::attack::phase::{PhaseKind, Spread};
use crate::digits::grouped;
use crate::report::mebibytes;
use comfy_table::{CellAlignment, Table, presets};
use std::fmt;

impl fmt::Display for PhaseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            PhaseKind::Calm => "calm",
            PhaseKind::Attack => "attack",
            PhaseKind::ExtraAttack => "extra",
            PhaseKind::Months => "months",
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
            "memory {:.0} MiB in calm, {:.0} at the most, {:.0} at the end, {:.0} within 5 s after ({}); the engine's {:.0} in calm, {:.0} at the most",
            mebibytes(self.calm_bytes),
            mebibytes(self.most_bytes),
            mebibytes(self.at_end_bytes),
            mebibytes(self.after_bytes),
            self.kinds,
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
        writeln!(f, "{}\n", bounds(self))?;
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
            extra(f, what, &seconds.extra)?;
        }
        extra(f, "watermark", &self.watermark.extra)?;
        if self.full_exports.exports > 0 {
            writeln!(f, "{}", self.full_exports)?;
        }
        if let Some(verification) = &self.verification {
            writeln!(f, "\n{verification}\n")?;
        }
        for (operation, took) in &self.slowest_operations {
            writeln!(f, "{operation}: {took}")?;
        }
        for (operation, took) in &self.slowest_extra_operations {
            writeln!(f, "in extra rounds, {operation}: {took}")?;
        }
        for operation in &self.costliest_operations {
            writeln!(f, "{operation}")?;
        }
        for body in &self.costliest_bodies {
            writeln!(f, "{body}")?;
        }
        for group in &self.coverage {
            writeln!(f, "{group}")?;
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

/// Writes the figures of extra rounds, if there were any; no bound judges them.
fn extra(f: &mut fmt::Formatter<'_>, what: &str, seconds: &Spread) -> fmt::Result {
    let Spread {
        count, p95, max, ..
    } = *seconds;
    match count {
        0 => Ok(()),
        _ => writeln!(
            f,
            "{what} in extra rounds: {}, p95 {p95:.1}, max {max:.1} s",
            grouped(count as f64)
        ),
    }
}

/// Table of the bounds with their figures.
fn bounds(report: &Report) -> Table {
    let mut bounds = table(["good tenant", "calm", "attack", "at most", ""]);
    for bound in report.bounds() {
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
    bounds
}

fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    table
}
