//! Sends rejected events again: each is tried, whatever becomes of those before it.
//!
//! Accepted events of a request are recorded before the next request is sent, so a resend that is
//! killed leaves at most one request whose events are stored and not recorded. The next resend
//! settles that request first (`pending_resend`), whatever fields it sets.

use super::client::{Rejection, ResendClient, ResendOutcome};
use super::corrected::CorrectedEvent;
use super::pending_resend::{PendingRequest, PendingResend};
use super::raws::{self, EventGroup, PIECE_EVENTS_MAX, RAW_BYTES_MAX};
use super::selection::{EventSelection, explain_none, find, print_limit_hint};
use crate::commands::{Invocation, counted};
use crate::config::Config;
use crate::connect;
use crate::output;
use anyhow::{Context, anyhow, bail, ensure};
use millrace_clickhouse::RejectedEvent;
use millrace_organizations::Projects;
use millrace_rows::{Clock, ProjectId, SystemClock, shown};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Events of a request: as many as a response names when all are rejected.
const REQUEST_EVENTS_MAX: usize = 100;
/// Approximate size limit of a request of several events, in bytes; a larger event goes alone.
const REQUEST_BYTES_MAX: usize = 4 << 20;
/// Events that a command takes without `--limit`.
const LIMIT_DEFAULT: usize = 100;
/// Options that select events, except project and time.
const SELECTION_OPTIONS: [&str; 7] = [
    "code",
    "request_id",
    "index",
    "unsent",
    "all",
    "rows_max",
    "set",
];

/// Settles the pending request of an earlier resend, sends events again, and prints outcome and
/// next step.
///
/// # Errors
/// When an event is not sent.
pub(super) fn run(
    config: &Config,
    selection: &EventSelection,
    set: &[(String, Value)],
    invocation: &Invocation,
) -> anyhow::Result<()> {
    let client = ResendClient::new(&connect::running_credentials(config)?.ingest_url)?;
    let mut events = find(config, selection)?;
    let mut pending = PendingResend::take(&config.data_dir)?;
    if let Some(request) = pending.load()? {
        settle_pending(config, &client, &request, pending.path())?;
        pending.clear()?;
        events = find(config, selection)?;
    }
    if events.is_empty() {
        output::print(&explain_none(config, selection, invocation)?);
        return Ok(());
    }
    let mut resend = Resend {
        config,
        client,
        pending,
        sent: 0,
        refused: Vec::new(),
        unsendable: 0,
    };
    let ended = resend.send_all(&events, set);
    let untried = events
        .len()
        .saturating_sub(resend.sent + resend.refused.len() + resend.unsendable);
    output::print(&resend.totals(untried));
    print_limit_hint(config, selection, events.len())?;
    if let Err(error) = ended {
        let again = invocation.command("rejected resend", &["unsent"]);
        return Err(error.context(format!(
            "the resend is not complete; go on with:\n  {again}\nCause"
        )));
    }
    resend.exit_result(invocation)
}

/// Repeats the pending request of an earlier resend unchanged, and records the events that are
/// stored.
///
/// # Errors
/// When no response says whether its events are stored; the request stays pending.
fn settle_pending(
    config: &Config,
    client: &ResendClient,
    request: &PendingRequest,
    path: &Path,
) -> anyhow::Result<()> {
    let events = counted(request.events.len() as u64, "event");
    let outcome = match project_key(config, request.project_id)? {
        Some(key) => client.send(&key, request.historical_migration, &request.corrected()),
        None => Ok(ResendOutcome::ProjectRejected(no_key(request.project_id))),
    };
    let why = match outcome {
        Ok(ResendOutcome::Accepted) => {
            record(config, &request.events)?;
            output::print(&format!(
                "{events} of an interrupted resend: sent, as they were then."
            ));
            return Ok(());
        }
        // A rejected request stored nothing: this resend sends its events with its corrections.
        Ok(ResendOutcome::EventsRejected(_) | ResendOutcome::RequestRejected(_)) => return Ok(()),
        Ok(ResendOutcome::ProjectRejected(why)) => anyhow!(why),
        Ok(ResendOutcome::InDoubt(error)) | Err(error) => error,
    };
    Err(why.context(format!(
        "it is unknown whether the server stored {events} of an interrupted resend, and nothing else is sent before \
         that is known. Run the command again when the server accepts requests; to send them again regardless, delete {}. \
         Cause",
        path.display()
    )))
}

/// Records that events were accepted.
fn record(config: &Config, events: &[RejectedEvent]) -> anyhow::Result<()> {
    let clickhouse = connect::clickhouse(config)?;
    connect::block_on(async {
        let recorded = clickhouse.record_resent(events, SystemClock.now()).await;
        recorded
            .map_err(|error| connect::explain(config, error))
            .context(format!(
                "{} of the last request: sent, but recording that failed; the next resend records it",
                counted(events.len() as u64, "event")
            ))
    })
}

fn no_key(project_id: i64) -> String {
    format!(
        "project {project_id} has no key; `millrace keys create --project-id {project_id}` gives it one"
    )
}

/// A resend that is under way.
struct Resend<'a> {
    config: &'a Config,
    client: ResendClient,
    pending: PendingResend,
    sent: usize,
    refused: Vec<&'a RejectedEvent>,
    unsendable: usize,
}

impl<'a> Resend<'a> {
    /// Sends all events, one project after the other.
    fn send_all(
        &mut self,
        events: &'a [RejectedEvent],
        set: &[(String, Value)],
    ) -> anyhow::Result<()> {
        let mut projects: BTreeMap<_, Vec<&RejectedEvent>> = BTreeMap::new();
        for event in events {
            let key = (event.team_id, event.historical_migration);
            projects.entry(key).or_default().push(event);
        }
        for ((project_id, is_historical), events) in projects {
            let Some(key) = project_key(self.config, project_id)? else {
                let why = no_key(project_id);
                events
                    .iter()
                    .for_each(|event| self.report_unsendable(event, &why));
                continue;
            };
            let mut never: Option<String> = None;
            for piece in events.chunks(PIECE_EVENTS_MAX) {
                for group in raws::groups(self.config, piece)? {
                    if let Some(why) = &never {
                        group
                            .events
                            .iter()
                            .for_each(|it| self.report_unsendable(it, why));
                        continue;
                    }
                    let corrected = self.correct(&group, set)?;
                    never = self.send_project(&key, (project_id, is_historical), corrected)?;
                }
            }
        }
        Ok(())
    }

    /// Reads the events of a group and corrects them; prints those that cannot be sent.
    fn correct(
        &mut self,
        group: &EventGroup<'a>,
        set: &[(String, Value)],
    ) -> anyhow::Result<Vec<CorrectedEvent<'a>>> {
        if group.bytes > RAW_BYTES_MAX {
            let bytes = counted(group.bytes, "byte");
            let why = format!("it has {bytes}, more than a request may have");
            group
                .events
                .iter()
                .for_each(|it| self.report_unsendable(it, &why));
            return Ok(Vec::new());
        }
        let raws = raws::read(self.config, &group.events)?;
        let mut corrected = Vec::new();
        for (&event, raw) in group.events.iter().zip(&raws) {
            match CorrectedEvent::new(event, raw, set) {
                Ok(event) => corrected.push(event),
                Err(error) => self.report_unsendable(event, &error.to_string()),
            }
        }
        Ok(corrected)
    }

    /// Sends events of a project, in requests that are halved where one event holds up the others.
    /// Returns the reason if the project accepts no more.
    fn send_project(
        &mut self,
        key: &str,
        of: (i64, bool),
        events: Vec<CorrectedEvent<'a>>,
    ) -> anyhow::Result<Option<String>> {
        let mut requests = requests(events);
        while let Some(mut request) = requests.pop() {
            match self.send_request(key, of, &request)? {
                ResendOutcome::Accepted => self.sent += request.len(),
                ResendOutcome::InDoubt(error) => return Err(error),
                ResendOutcome::EventsRejected(rejections) => {
                    let count = request.len();
                    let rest = self.without_rejected(request, &rejections);
                    ensure!(
                        rest.len() < count,
                        "the server rejected events that were not in the request; run the command \
                         again"
                    );
                    if !rest.is_empty() {
                        requests.push(rest);
                    }
                }
                ResendOutcome::RequestRejected(why) if request.len() == 1 => {
                    let event = request.pop();
                    event
                        .iter()
                        .for_each(|it| self.report_rejected(it.event, &why));
                }
                ResendOutcome::RequestRejected(_) => {
                    let second = request.split_off(request.len() / 2);
                    requests.extend([second, request]);
                }
                ResendOutcome::ProjectRejected(why) => {
                    let rest = requests.drain(..).flatten();
                    let all = request.into_iter().chain(rest);
                    all.for_each(|event| self.report_unsendable(event.event, &why));
                    return Ok(Some(why));
                }
            }
        }
        Ok(None)
    }

    /// Takes rejected events out of a request; returns the rest.
    fn without_rejected(
        &mut self,
        request: Vec<CorrectedEvent<'a>>,
        rejections: &[Rejection],
    ) -> Vec<CorrectedEvent<'a>> {
        let mut rest = Vec::new();
        for (index, event) in request.into_iter().enumerate() {
            match rejections.iter().find(|rejection| rejection.index == index) {
                Some(rejection) => self.report_rejected(event.event, &rejection.reason()),
                None => rest.push(event),
            }
        }
        rest
    }

    /// Sends a request, which stays pending until its outcome is known and recorded.
    fn send_request(
        &mut self,
        key: &str,
        of: (i64, bool),
        request: &[CorrectedEvent<'_>],
    ) -> anyhow::Result<ResendOutcome> {
        self.pending.store(of, request)?;
        let outcome = self.client.send(key, of.1, request);
        match &outcome {
            Ok(ResendOutcome::InDoubt(_)) => return outcome,
            Ok(ResendOutcome::Accepted) => {
                let accepted: Vec<_> = request.iter().map(|it| it.event.clone()).collect();
                record(self.config, &accepted)?;
            }
            _ => {}
        }
        self.pending.clear()?;
        outcome
    }

    fn report_rejected(&mut self, event: &'a RejectedEvent, why: &str) {
        self.refused.push(event);
        output::print(&format!(
            "{} {} refused again, {why}",
            shown(&event.request_id),
            event.index,
            why = shown(why)
        ));
    }

    fn report_unsendable(&mut self, event: &RejectedEvent, why: &str) {
        self.unsendable += 1;
        output::print(&format!(
            "{} {} cannot be sent: {why}",
            shown(&event.request_id),
            event.index,
            why = shown(why)
        ));
    }

    fn totals(&self, untried: usize) -> String {
        let untried = match untried {
            0 => String::new(),
            count => format!(", {count} not tried"),
        };
        format!(
            "{} sent, {} refused again, {} cannot be sent{untried}.",
            counted(self.sent as u64, "event"),
            self.refused.len(),
            self.unsendable
        )
    }

    /// Fails with the next commands if some events were not sent.
    fn exit_result(&self, invocation: &Invocation) -> anyhow::Result<()> {
        let not_sent = self.refused.len() + self.unsendable;
        if not_sent == 0 {
            return Ok(());
        }
        let mut text = format!("{} not sent.", counted(not_sent as u64, "event"));
        if !self.refused.is_empty() {
            text += " Correct rejected events, by code or one at a time:";
        }
        let mut codes: BTreeMap<&str, Vec<&RejectedEvent>> = BTreeMap::new();
        for event in &self.refused {
            codes.entry(&event.code).or_default().push(event);
        }
        let command = invocation.command("rejected resend", &SELECTION_OPTIONS);
        for (code, events) in codes {
            let selection = match events.as_slice() {
                [event] => format!("--request-id {} --index {}", event.request_id, event.index),
                several => format!("--code {code}{}", limit_option(several.len())),
            };
            text += &format!("\n  {command} {selection} --set FIELD=VALUE");
        }
        if self.unsendable > 0 {
            let list = invocation.command("rejected list", &SELECTION_OPTIONS);
            text += "\nThe reasons why the others cannot be sent are above; they stay in:";
            text += &format!("\n  {list} --unsent{}", limit_option(not_sent));
        }
        bail!(text)
    }
}

fn limit_option(events: usize) -> String {
    match events {
        ..=LIMIT_DEFAULT => String::new(),
        count => format!(" --limit {count}"),
    }
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

/// Key of a project; `None` when it has none.
fn project_key(config: &Config, project_id: i64) -> anyhow::Result<Option<String>> {
    let project = connect::with_catalog(config, async |catalog| {
        Ok(Projects::new(catalog).get(ProjectId(project_id)).await?)
    })?;
    Ok(project.and_then(|project| project.api_token))
}
