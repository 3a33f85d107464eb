//! Results of an attack.

mod display;
#[cfg(test)]
mod tests;

use super::cost_search::CostlyBody;
use super::coverage::CoveredGroup;
use super::export_runs::FullExports;
use super::findings::{Findings, Outcomes};
use super::good_tenant::load::PhaseReport;
use super::hostile::{CostlyOperation, unproved};
use super::memory_kinds::MemoryKinds;
use super::operation_times::OperationTimes;
use super::options::{Options, is_selected};
use super::phase::Seconds;
use crate::verify::VerifyReport;
use serde::Serialize;

/// Slowest operations that a report shows.
const SLOWEST_OPERATIONS_MAX: usize = 12;

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
    /// Resident bytes five seconds after the attack, by kind.
    pub kinds: MemoryKinds,
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
    /// Exports of a full organization and their runs.
    pub full_exports: FullExports,
    /// Age of the watermark in seconds: the lag of shipping.
    pub watermark: Seconds,
    /// Memory around each attack.
    pub memory: Vec<Memory>,
    /// Result of comparing the ledger with ClickHouse. JSON reports call it `verdict`.
    #[serde(rename = "verdict")]
    pub verification: Option<VerifyReport>,
    /// Outcomes of all attempts.
    pub outcomes: Outcomes,
    /// Missing proofs of the selected tasks: none of the expected outcomes was seen, or attempts
    /// that the API's document asks for were not processed.
    pub unproved: Vec<String>,
    /// Attempts that the API's document asks for, by group.
    pub coverage: Vec<CoveredGroup>,
    /// Operations of the API with their response times in the rounds that were asked for, slowest
    /// first. JSON reports call it `dearest`.
    #[serde(rename = "dearest")]
    pub slowest_operations: Vec<(String, OperationTimes)>,
    /// The same of extra rounds, which no bound judges.
    pub slowest_extra_operations: Vec<(String, OperationTimes)>,
    /// Times of the operation that was nearest to its promised time, or furthest beyond it, in the
    /// rounds that were asked for; `None` if operations were not selected.
    pub latest_operation: Option<OperationTimes>,
    /// Requests to the API that took longest for their bytes, and those with the longest responses.
    pub costliest_operations: Vec<CostlyOperation>,
    /// Bodies with the longest response time per byte, sent without a key and with one; for each
    /// sender the longest first. JSON reports call it `dearest_bodies`.
    #[serde(rename = "dearest_bodies")]
    pub costliest_bodies: Vec<CostlyBody>,
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
            full_exports: FullExports::default(),
            watermark: Seconds::default(),
            memory: Vec::new(),
            verification: None,
            outcomes: Outcomes::new(),
            unproved: Vec::new(),
            coverage: Vec::new(),
            slowest_operations: Vec::new(),
            slowest_extra_operations: Vec::new(),
            latest_operation: None,
            costliest_operations: Vec::new(),
            costliest_bodies: Vec::new(),
            wrong: 0,
            wrongs: Vec::new(),
        }
    }

    /// Adds the findings of the selected tasks.
    pub(super) fn add(&mut self, findings: &Findings, options: &Options) {
        self.outcomes = findings.outcomes();
        self.unproved = unproved(&self.outcomes, &options.only);
        self.coverage = findings.coverage.groups();
        self.full_exports = findings.export_runs.figures();
        if options.is_complete && options.only.is_empty() {
            let missing = self.coverage.iter().filter(|group| !group.is_complete());
            self.unproved.extend(missing.map(CoveredGroup::to_string));
        }
        self.slowest_operations = findings.times.slowest(SLOWEST_OPERATIONS_MAX);
        self.slowest_extra_operations = findings.extra_times.slowest(SLOWEST_OPERATIONS_MAX);
        let is_selected = is_selected("operations", &options.only);
        self.latest_operation = is_selected.then(|| findings.times.latest());
        let wrongs = findings.wrongs();
        (self.wrong, self.wrongs) = (wrongs.count, wrongs.examples);
    }

    /// Missing proofs, and kinds of service that the good tenant never got under attack, so far.
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

    /// Returns true if the run was correct, whatever its speed: no violation, every event stored
    /// once, memory below its limit, the good tenant served under attack, and every attack carried
    /// out.
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
