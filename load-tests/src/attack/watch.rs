//! Watches the processes under attack: whether they live, their memory, and the age of the
//! watermark, which exports wait for.

use super::findings::Findings;
use super::lock::lock;
use super::phase::{CurrentPhase, Samples};
use super::subject::Subject;
use crate::digits::counted;
use crate::metrics;
use anyhow::Result;
use std::sync::Mutex;
use std::time::Duration;

const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Metric with the age of the watermark; all rows older than it are in ClickHouse.
pub(super) const WATERMARK_AGE: &str = "millrace_watermark_age_seconds";
const RESTARTS: &str = "millrace_engine_restarts_total";

/// Watches the processes of a run.
pub(super) struct Watch<'a> {
    subject: &'a Subject,
    findings: &'a Findings,
    current_phase: &'a CurrentPhase,
    /// Samples of the watermark's age.
    pub(super) watermark: Samples,
    restarts: Mutex<f64>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        subject: &'a Subject,
        findings: &'a Findings,
        current_phase: &'a CurrentPhase,
    ) -> Self {
        Self {
            subject,
            findings,
            current_phase,
            watermark: Samples::default(),
            restarts: Mutex::default(),
        }
    }

    /// Watches until the run is over or the server has ended.
    pub(super) fn look(&self) -> Result<()> {
        while !self.current_phase.is_over() {
            if self.subject.has_ended()? {
                let said = self.subject.stderr_text();
                let from = said.len().saturating_sub(4_000);
                let last = said.get(from..).unwrap_or(&said);
                self.findings.wrong(format!("the server ended:\n{last}"));
                return Ok(());
            }
            self.engine();
            let began = self.current_phase.now();
            // A server too busy for its metrics gives no sample.
            if let Ok(text) = metrics::read(&self.subject.credentials.health_url) {
                let age = metrics::sum(&text, WATERMARK_AGE, "");
                self.watermark.note(began, began, age);
                *lock(&self.restarts) = metrics::sum(&text, RESTARTS, "");
            } else {
                self.findings.count("metrics", "not told in time");
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Notes if the engine's process is no longer the first one.
    fn engine(&self) {
        if self.subject.engine() != Some(self.subject.engine_pid) {
            self.findings
                .count("engine", "not the one that was started");
        }
    }

    /// Records restarts of the engine as a violation, at the end.
    pub(super) fn close(&self) {
        let restarts = *lock(&self.restarts);
        if restarts > 0.0 {
            let times = counted(restarts as u64, "time");
            self.findings
                .wrong(format!("the engine was started again {times}"));
        }
    }
}
