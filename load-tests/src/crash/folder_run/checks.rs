//! Checks of a folder's run.

use super::FolderRun;
use crate::clickhouse::ClickHouse;
use crate::crash::check::{self, compare};
use crate::crash::kill::Kill;
use crate::ledger::AckLedger;
use anyhow::Result;

impl FolderRun<'_> {
    /// Compares ClickHouse with the batches acknowledged around these kills.
    pub(super) fn check(&mut self, kills: &[Kill]) -> Result<()> {
        self.subject.up(None)?;
        let ledger = self.ledger(kills)?;
        let clickhouse = self.clickhouse()?;
        let verification = self.runtime.block_on(compare(&ledger, &clickhouse))?;
        self.report.checks += 1;
        self.check_promises(&clickhouse)?;
        let projects = check::projects(&self.subject, &self.projects)?;
        self.report.wrongs.extend(projects);
        if !verification.is_clean() {
            self.report
                .wrongs
                .push(explained(&verification.to_string(), kills));
        }
        Ok(())
    }

    /// Compares all acknowledged batches once more, as a later kill may lose earlier rows; then
    /// checks rejected events and leftovers.
    pub(super) fn finish(&mut self, kills: &[Kill]) -> Result<()> {
        self.subject.up(None)?;
        let clickhouse = self.clickhouse()?;
        let ledger = self.ledger(kills)?;
        let verification = self.runtime.block_on(compare(&ledger, &clickhouse))?;
        if !verification.is_clean() {
            self.report
                .wrongs
                .push(explained(&verification.to_string(), kills));
        }
        self.report.acknowledged_events += verification.acknowledged_events;
        let rejected = self
            .runtime
            .block_on(check::rejected(&self.subject, &clickhouse))?;
        self.report.rejected_events += rejected.events;
        self.report.wrongs.extend(rejected.wrong);
        self.report
            .wrongs
            .extend(check::leftovers(&self.subject.ingest_dir())?);
        self.report.resent_blocks += check::resent_blocks(&self.subject.stderr_text()?);
        self.report.starts.append(&mut self.subject.starts);
        self.report.folders += 1;
        Ok(())
    }

    /// Checks the promises made since the last comparison, now that everything is shipped.
    fn check_promises(&mut self, clickhouse: &ClickHouse) -> Result<()> {
        for promise in std::mem::take(&mut self.promises) {
            let broken = self.runtime.block_on(check::broken(&promise, clickhouse))?;
            self.report.wrongs.extend(broken);
            self.report.watermarks += 1;
        }
        Ok(())
    }

    /// Ledger of the runs that ended with these kills.
    fn ledger(&self, kills: &[Kill]) -> Result<AckLedger> {
        let mut ledger = AckLedger::read(&self.ledger_path())?;
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

/// A failed verification with the kills that may have caused it. Its run ids are the kills'
/// numbers.
fn explained(verification: &str, kills: &[Kill]) -> String {
    let kills: Vec<String> = kills
        .iter()
        .map(|kill| format!("run {:08x} ended with {kill}", kill.number))
        .collect();
    format!("{verification}\nafter\n{}", kills.join("\n"))
}
