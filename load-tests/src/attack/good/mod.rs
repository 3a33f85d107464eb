//! What the good tenant does all the time, and what it must be answered.
//!
//! | File | Does |
//! |---|---|
//! | [`load`] | sends single events and batches at a fixed rate, and keeps a ledger of what was acknowledged |
//! | [`persons`] | names a user, and waits until the name can be read |
//! | [`exports`] | exports yesterday, and waits until the file is there |
//! | [`api`] | asks its organization's API, and knows the answers |

mod api;
mod exports;
pub(super) mod load;
mod persons;

use super::http::{Client, Outcome, request};
use super::subject::Subject;
use super::tally::Tally;
use super::tenants::{GOOD, Tenants};
use super::weather::{Forecast, Samples, Weather};
use anyhow::Result;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a person or a file may take before it is called lost: no bound on time, but an end.
const LOST_AFTER: Duration = Duration::from_secs(240);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The good tenant, as its tasks share it.
pub(super) struct Good<'a> {
    pub(super) subject: &'a Subject,
    pub(super) tenants: Arc<Tenants>,
    pub(super) tally: Arc<Tally>,
    pub(super) forecast: &'a Forecast,
    /// From the request that names a user until the name can be read.
    pub(super) persons: Samples,
    /// From the request for an export until its file is there.
    pub(super) exports: Samples,
    /// From a request of the API to its answer.
    pub(super) answers: Samples,
    ingest: Client,
}

impl<'a> Good<'a> {
    pub(super) fn new(
        subject: &'a Subject,
        tenants: &Arc<Tenants>,
        tally: &Arc<Tally>,
        forecast: &'a Forecast,
    ) -> Result<Self> {
        Ok(Self {
            subject,
            tenants: Arc::clone(tenants),
            tally: Arc::clone(tally),
            forecast,
            persons: Samples::default(),
            exports: Samples::default(),
            answers: Samples::default(),
            ingest: Client::new(&subject.credentials.ingest_url, GOOD)?,
        })
    }

    /// Names users until the run is over; how many.
    pub(super) fn name_persons(&self) -> Result<u64> {
        super::runtime()?.block_on(persons::name_all(self))
    }

    /// Exports yesterday until the run is over.
    pub(super) fn export(&self) -> Result<()> {
        super::runtime()?.block_on(exports::export_all(self))
    }

    /// Asks the API until the run is over.
    pub(super) fn ask(&self) -> Result<()> {
        super::runtime()?.block_on(api::ask_all(self))
    }

    /// Sends events; whether they were taken. It may be told to come again later, and nothing else.
    async fn capture(&self, events: &[Value]) -> bool {
        let key = &self.tenants.good.project_key;
        let body = json!({"api_key": key, "batch": events}).to_string();
        let sent = request("POST", "/batch/", &[], body.as_bytes());
        let outcome = self.ingest.send(&sent).await;
        self.right(&self.persons, "events", &outcome, 200)
    }

    /// Whether an answer has the status that it must have. Only 503 may stand in its place, and how often is counted
    /// beside the samples it belongs to.
    fn right(&self, of: &Samples, what: &str, outcome: &Outcome, status: u16) -> bool {
        let what = format!("good tenant: {what}");
        self.tally.count(&what, &outcome.to_string());
        let found = outcome.status();
        if found == status || found == 503 {
            of.answered(self.forecast.now(), found == 503);
        }
        if found != status && found != 503 {
            let said: String = outcome.text().chars().take(300).collect();
            self.tally
                .wrong(format!("{what}: {outcome} and not {status}: {said}"));
        }
        found == status
    }

    /// The weather, and when it was looked at.
    fn began(&self) -> (Weather, Instant) {
        (self.forecast.now(), Instant::now())
    }

    /// Notes how long something took that began so.
    fn ended(&self, samples: &Samples, (weather, at): (Weather, Instant)) {
        samples.note(weather, self.forecast.now(), at.elapsed().as_secs_f64());
    }
}
