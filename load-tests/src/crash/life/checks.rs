//! The comparisons of a life.

use super::Life;
use crate::clickhouse::ClickHouse;
use crate::crash::check::{self, compare};
use crate::crash::kill::Kill;
use crate::ledger::Ledger;
use anyhow::Result;

impl Life<'_> {
    /// Compares what was acknowledged around these kills.
    pub(super) fn check(&mut self, kills: &[Kill]) -> Result<()> {
        self.subject.up(None)?;
        let ledger = self.ledger(kills)?;
        let clickhouse = self.clickhouse()?;
        let verdict = self.runtime.block_on(compare(&ledger, &clickhouse))?;
        self.report.checks += 1;
        self.check_promises(&clickhouse)?;
        let projects = check::projects(&self.subject, &self.projects)?;
        self.report.wrongs.extend(projects);
        if !verdict.is_clean() {
            self.report
                .wrongs
                .push(explained(&verdict.to_string(), kills));
        }
        Ok(())
    }

    /// Compares all that was acknowledged once more, as a later kill may cost earlier rows; and looks
    /// at what else there is.
    pub(super) fn finish(&mut self, kills: &[Kill]) -> Result<()> {
        self.subject.up(None)?;
        let clickhouse = self.clickhouse()?;
        let ledger = self.ledger(kills)?;
        let verdict = self.runtime.block_on(compare(&ledger, &clickhouse))?;
        if !verdict.is_clean() {
            self.report
                .wrongs
                .push(explained(&verdict.to_string(), kills));
        }
        self.report.acknowledged_events += verdict.acknowledged_events;
        let rejected = self
            .runtime
            .block_on(check::rejected(&self.subject, &clickhouse))?;
        self.report.rejected_events += rejected.events;
        self.report.wrongs.extend(rejected.wrong);
        self.report
            .wrongs
            .extend(check::leftovers(&self.subject.ingest_dir())?);
        self.report.resent_blocks += check::resent_blocks(&self.subject.said()?);
        self.report.starts.append(&mut self.subject.starts);
        self.report.folders += 1;
        Ok(())
    }

    /// Holds what was promised since the last time against what is there now that all is shipped.
    fn check_promises(&mut self, clickhouse: &ClickHouse) -> Result<()> {
        for promise in std::mem::take(&mut self.promises) {
            let broken = self.runtime.block_on(check::broken(&promise, clickhouse))?;
            self.report.wrongs.extend(broken);
            self.report.watermarks += 1;
        }
        Ok(())
    }

    /// What was acknowledged in the runs of these kills.
    fn ledger(&self, kills: &[Kill]) -> Result<Ledger> {
        let mut ledger = Ledger::read(&self.ledger_path())?;
        ledger
            .runs
            .retain(|run, _| kills.iter().any(|kill| kill.number == *run));
        Ok(ledger)
    }

    fn clickhouse(&self) -> Result<ClickHouse> {
        let answers = self.subject.engine_answers();
        let mut clickhouse = self.runtime.block_on(answers)?;
        ClickHouse::ACCEPTED_AND_REJECTED.clone_into(&mut clickhouse.table);
        Ok(clickhouse)
    }
}

/// A verdict with the kills that it may be owed to. The runs in it are their numbers.
fn explained(verdict: &str, kills: &[Kill]) -> String {
    let kills: Vec<String> = kills
        .iter()
        .map(|kill| format!("run {:08x} ended with {kill}", kill.number))
        .collect();
    format!("{verdict}\nafter\n{}", kills.join("\n"))
}
