//! The processes while they are attacked: whether they live, what memory they take, and how far behind
//! shipping is, which exports wait for.

use super::subject::Subject;
use super::tally::{Tally, lock};
use super::weather::{Forecast, Samples};
use crate::metrics;
use anyhow::Result;
use std::sync::Mutex;
use std::time::Duration;

const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// Seconds since the arrival time before which everything is in ClickHouse.
const WATERMARK_AGE: &str = "millrace_watermark_age_seconds";
const RESTARTS: &str = "millrace_engine_restarts_total";

/// Somebody who looks on.
pub(super) struct Watch<'a> {
    subject: &'a Subject,
    tally: &'a Tally,
    forecast: &'a Forecast,
    /// Ages of the watermark.
    pub(super) watermark: Samples,
    restarts: Mutex<f64>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(subject: &'a Subject, tally: &'a Tally, forecast: &'a Forecast) -> Self {
        Self {
            subject,
            tally,
            forecast,
            watermark: Samples::default(),
            restarts: Mutex::default(),
        }
    }

    /// Looks until the run is over, or there is nothing to be seen any more.
    pub(super) fn look(&self) -> Result<()> {
        while !self.forecast.is_over() {
            if self.subject.has_ended()? {
                let said = self.subject.said();
                let from = said.len().saturating_sub(4_000);
                let last = said.get(from..).unwrap_or(&said);
                self.tally.wrong(format!("the server ended:\n{last}"));
                return Ok(());
            }
            self.engine();
            let began = self.forecast.now();
            // A server that has no time for its metrics has no figures then.
            if let Ok(text) = metrics::read(&self.subject.credentials.health_url) {
                let age = metrics::sum(&text, WATERMARK_AGE, "");
                self.watermark.note(began, began, age);
                *lock(&self.restarts) = metrics::sum(&text, RESTARTS, "");
            } else {
                self.tally.count("metrics", "not told in time");
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Whether it is the same engine all the time.
    fn engine(&self) {
        if self.subject.engine() != Some(self.subject.engine_pid) {
            self.tally.count("engine", "not the one that was started");
        }
    }

    /// What is wrong with the processes in the end.
    pub(super) fn close(&self) {
        let restarts = *lock(&self.restarts);
        if restarts > 0.0 {
            self.tally
                .wrong(format!("the engine was started again {restarts} times"));
        }
    }
}
