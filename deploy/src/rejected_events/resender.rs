//! Sends rejected events again: each is tried, whatever becomes of those before it. `request` sends
//! one request.

use super::client::{Rejection, ResendClient, ResendOutcome};
use super::corrected::CorrectedEvent;
use super::error::{ResendError, no_key};
use super::mapping::Mapping;
use super::raws::{self, EventGroup, PIECE_EVENTS_MAX};
use super::reporter::{EventOutcome, Reporter};
use anyhow::anyhow;
use millrace_catalog::{Actor, Catalog};
use millrace_clickhouse::{ClickHouse, RejectedEvent};
use millrace_import::count::counted;
use std::collections::BTreeMap;
use std::time::Instant;

/// Events of a request: as many as a response names when all are rejected.
const REQUEST_EVENTS_MAX: usize = 100;
/// Approximate size limit of a request of several events, in bytes; a larger event goes alone.
const REQUEST_BYTES_MAX: usize = 4 << 20;

/// Options of a resend.
#[derive(Clone, Copy, Debug)]
pub struct ResendOptions {
    /// Size limit of an event as it was sent, in bytes; at least [`raws::GROUP_BYTES_MAX`].
    pub raw_bytes_max: u64,
    /// Time after which no further request begins; `None`: there is none.
    pub ends_at: Option<Instant>,
    /// True to send events though they were sent again before.
    pub repeats: bool,
    /// True to have the server check the events, and store nothing.
    pub is_dry_run: bool,
}

/// Resend that is under way.
#[derive(Debug)]
pub struct Resender<'a> {
    /// Database of the events.
    pub clickhouse: &'a ClickHouse,
    /// Catalog of their projects.
    pub catalog: &'a Catalog,
    /// Client of the server.
    pub client: &'a ResendClient,
    /// Author of the resend.
    pub actor: &'a Actor,
    /// Changes of the events.
    pub mapping: &'a Mapping,
    /// Options.
    pub options: ResendOptions,
}

/// Project that events are sent to.
pub(super) struct Target {
    pub(super) project_id: i64,
    pub(super) key: String,
    pub(super) historical_migration: bool,
}

impl Resender<'_> {
    /// Sends all events, one project after the other.
    ///
    /// # Errors
    /// When the resend cannot go on; events without an outcome were not tried.
    pub async fn send_all(
        &self,
        events: &[RejectedEvent],
        reporter: &mut impl Reporter,
    ) -> Result<(), ResendError> {
        let mut projects: BTreeMap<(i64, bool), Vec<&RejectedEvent>> = BTreeMap::new();
        for event in events {
            let key = (event.team_id, event.historical_migration);
            projects.entry(key).or_default().push(event);
        }
        for ((project_id, historical_migration), events) in projects {
            let Some(key) = self.project_key(project_id).await? else {
                let why = no_key(project_id);
                for event in events {
                    reporter.event(event, EventOutcome::Unsendable(why.clone()));
                }
                continue;
            };
            let target = Target {
                project_id,
                key,
                historical_migration,
            };
            self.send_project(&target, &events, reporter).await?;
        }
        Ok(())
    }

    /// Sends events of one project.
    async fn send_project(
        &self,
        target: &Target,
        events: &[&RejectedEvent],
        reporter: &mut impl Reporter,
    ) -> Result<(), ResendError> {
        let mut never: Option<String> = None;
        for piece in events.chunks(PIECE_EVENTS_MAX) {
            for group in raws::groups(self.clickhouse, piece).await? {
                if let Some(why) = &never {
                    for event in &group.events {
                        reporter.event(event, EventOutcome::Unsendable(why.clone()));
                    }
                    continue;
                }
                if self.is_late() {
                    return Ok(());
                }
                let corrected = self.correct(&group, reporter).await?;
                never = self.send_group(target, corrected, reporter).await?;
            }
        }
        Ok(())
    }

    /// Reads the events of a group and corrects them; reports those that cannot be sent.
    async fn correct<'e>(
        &self,
        group: &EventGroup<'e>,
        reporter: &mut impl Reporter,
    ) -> Result<Vec<CorrectedEvent<'e>>, ResendError> {
        let bytes_max = self.options.raw_bytes_max;
        if group.bytes > bytes_max {
            let bytes = counted(group.bytes, "byte");
            let why = format!("it has {bytes}, more than a request may have");
            for event in &group.events {
                reporter.event(event, EventOutcome::Unsendable(why.clone()));
            }
            return Ok(Vec::new());
        }
        let raws = self
            .clickhouse
            .rejected_raws(&group.events, bytes_max)
            .await?;
        let mut all = Vec::new();
        for (&event, raw) in group.events.iter().zip(&raws) {
            match CorrectedEvent::new(event, raw, self.mapping) {
                Ok(corrected) => {
                    reporter.prepared(&corrected);
                    all.push(corrected);
                }
                Err(error) => {
                    reporter.event(event, EventOutcome::Unsendable(error.to_string()));
                }
            }
        }
        Ok(all)
    }

    /// Sends events of a project, in requests that are halved where one event holds up the others.
    /// Returns the reason if the project accepts no more.
    async fn send_group(
        &self,
        target: &Target,
        events: Vec<CorrectedEvent<'_>>,
        reporter: &mut impl Reporter,
    ) -> Result<Option<String>, ResendError> {
        let mut requests = requests(events);
        while let Some(mut request) = requests.pop() {
            if self.is_late() {
                return Ok(None);
            }
            match self.send_request(target, &mut request, reporter).await? {
                ResendOutcome::Accepted => tell(&request, &EventOutcome::Accepted, reporter),
                ResendOutcome::InDoubt(error) => {
                    tell(&request, &EventOutcome::InDoubt, reporter);
                    return Err(ResendError::InDoubt(error));
                }
                ResendOutcome::EventsRejected(rejections) => {
                    let count = request.len();
                    let rest = without_rejected(request, &rejections, reporter);
                    if rest.len() == count {
                        let error =
                            "the server rejected events that were not in the request; try again";
                        return Err(ResendError::Server(anyhow!(error)));
                    }
                    if !rest.is_empty() {
                        requests.push(rest);
                    }
                }
                ResendOutcome::RequestRejected(why) if request.len() < 2 => {
                    tell(&request, &EventOutcome::Rejected(why), reporter);
                }
                ResendOutcome::RequestRejected(_) => {
                    let second = request.split_off(request.len() / 2);
                    requests.extend([second, request]);
                }
                ResendOutcome::ProjectRejected(why) => {
                    let outcome = EventOutcome::Unsendable(why.clone());
                    tell(&request, &outcome, reporter);
                    for rest in requests {
                        tell(&rest, &outcome, reporter);
                    }
                    return Ok(Some(why));
                }
            }
        }
        Ok(None)
    }

    fn is_late(&self) -> bool {
        let ends_at = self.options.ends_at;
        ends_at.is_some_and(|ends_at| Instant::now() >= ends_at)
    }
}

/// Reports one outcome of all events of a request.
fn tell(request: &[CorrectedEvent<'_>], outcome: &EventOutcome, reporter: &mut impl Reporter) {
    for corrected in request {
        reporter.event(corrected.event, outcome.clone());
    }
}

/// Takes rejected events out of a request; returns the rest.
fn without_rejected<'e>(
    request: Vec<CorrectedEvent<'e>>,
    rejections: &[Rejection],
    reporter: &mut impl Reporter,
) -> Vec<CorrectedEvent<'e>> {
    let mut rest = Vec::new();
    for (index, corrected) in request.into_iter().enumerate() {
        match rejections.iter().find(|rejection| rejection.index == index) {
            Some(rejection) => {
                let outcome = EventOutcome::Rejected(rejection.reason());
                reporter.event(corrected.event, outcome);
            }
            None => rest.push(corrected),
        }
    }
    rest
}

/// Cuts events into requests, the first one last.
fn requests(events: Vec<CorrectedEvent<'_>>) -> Vec<Vec<CorrectedEvent<'_>>> {
    let mut requests: Vec<Vec<CorrectedEvent<'_>>> = Vec::new();
    let mut bytes = 0;
    for event in events {
        bytes += event.json.get().len();
        match requests.last_mut() {
            Some(last) if last.len() < REQUEST_EVENTS_MAX && bytes <= REQUEST_BYTES_MAX => {
                last.push(event);
            }
            _ => {
                bytes = event.json.get().len();
                requests.push(vec![event]);
            }
        }
    }
    requests.reverse();
    requests
}
