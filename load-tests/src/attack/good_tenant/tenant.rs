//! The good tenant, and the responses that it must get.

use crate::attack::findings::Findings;
use crate::attack::http::{Client, Outcome, request};
use crate::attack::phase::{CurrentPhase, PhaseKind, Samples};
use crate::attack::subject::Subject;
use crate::attack::tenants::{GOOD, Tenants};
use anyhow::Result;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time after which a person or a file counts as lost. It ends the wait; it is no bound on
/// freshness.
pub(super) const LOST_AFTER: Duration = Duration::from_secs(240);
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The good tenant, shared by its tasks.
pub(in crate::attack) struct GoodTenant<'a> {
    pub(in crate::attack) subject: &'a Subject,
    pub(in crate::attack) tenants: Arc<Tenants>,
    pub(in crate::attack) findings: Arc<Findings>,
    pub(in crate::attack) current_phase: &'a CurrentPhase,
    /// Time from the request that names a user until the name can be queried.
    pub(in crate::attack) persons: Samples,
    /// Time from the request for an export until its file is there.
    pub(in crate::attack) exports: Samples,
    /// Time from a request to the API until its response.
    pub(in crate::attack) answers: Samples,
    ingest: Client,
}

impl<'a> GoodTenant<'a> {
    pub(in crate::attack) fn new(
        subject: &'a Subject,
        tenants: &Arc<Tenants>,
        findings: &Arc<Findings>,
        current_phase: &'a CurrentPhase,
    ) -> Result<Self> {
        Ok(Self {
            subject,
            tenants: Arc::clone(tenants),
            findings: Arc::clone(findings),
            current_phase,
            persons: Samples::default(),
            exports: Samples::default(),
            answers: Samples::default(),
            ingest: Client::new(&subject.credentials.ingest_url, GOOD)?,
        })
    }

    /// Sends events; returns true if they were accepted. The only other response allowed is 503.
    pub(super) async fn capture(&self, events: &[Value]) -> bool {
        let key = &self.tenants.good.project_key;
        let body = json!({"api_key": key, "batch": events}).to_string();
        let sent = request("POST", "/batch/", &[], body.as_bytes());
        let outcome = self.ingest.send(&sent).await;
        self.right(&self.persons, "events", &outcome, 200)
    }

    /// Returns true if a response has the expected status. Only 503 is allowed in its place; 503s
    /// are counted with the samples that they belong to.
    pub(super) fn right(&self, of: &Samples, what: &str, outcome: &Outcome, status: u16) -> bool {
        let what = format!("good tenant: {what}");
        self.findings.count(&what, &outcome.to_string());
        let found = outcome.status();
        if found == status || found == 503 {
            of.answered(self.current_phase.now(), found == 503);
        }
        if found != status && found != 503 {
            let said: String = outcome.text().chars().take(300).collect();
            self.findings
                .wrong(format!("{what}: {outcome} and not {status}: {said}"));
        }
        found == status
    }

    /// Kind of the current phase, and the time now.
    pub(super) fn began(&self) -> (PhaseKind, Instant) {
        (self.current_phase.now(), Instant::now())
    }

    /// Records the duration of an action that began in that phase at that time.
    pub(super) fn ended(&self, samples: &Samples, (kind, at): (PhaseKind, Instant)) {
        samples.note(kind, self.current_phase.now(), at.elapsed().as_secs_f64());
    }
}
