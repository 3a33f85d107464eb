//! `millrace rejected resend`: sends events again, and prints outcomes and the next step.

use super::selection::{EventSelection, explain_none, print_limit_hint};
use crate::commands::{Invocation, counted};
use crate::config::Config;
use crate::rejected_events::raws::RAW_BYTES_MAX;
use crate::rejected_events::{
    EventOutcome, FieldPath, Mapping, Reporter, ResendClient, ResendError, ResendOptions, Resender,
    SendLimits,
};
use crate::{connect, output};
use anyhow::{bail, ensure};
use millrace_catalog::Actor;
use millrace_clickhouse::{RejectedEvent, RejectedFilter};
use millrace_rows::shown;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Limits of a request: somebody waits for the command, and no connection does.
const SEND_LIMITS: SendLimits = SendLimits {
    tries_max: 6,
    response_timeout: Duration::from_secs(60),
    pause_max: Duration::from_secs(10),
};
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
/// File of earlier versions with the request that was under way.
const EARLIER_FILE: &str = "resending.json";

/// Settles the pending requests of earlier resends, sends events again, and prints outcome and next
/// step. With `repeats` events that were sent before are sent once more.
///
/// # Errors
/// When an event is not sent.
pub(super) fn run(
    config: &Config,
    selection: &EventSelection,
    set: &[(String, Value)],
    repeats: bool,
    invocation: &Invocation,
) -> anyhow::Result<()> {
    let ingest_url = connect::running_credentials(config)?.ingest_url;
    let client = ResendClient::new(config, &ingest_url, SEND_LIMITS)?;
    require_nothing_left(&config.data_dir)?;
    let clickhouse = connect::clickhouse(config)?;
    let set = set.iter();
    let set = set.map(|(name, value)| (FieldPath::Event(name.clone()), value.clone()));
    let mapping = Mapping {
        set: set.collect(),
        ..Mapping::default()
    };
    let mut printed = Printed::default();
    let (found, ended) = connect::with_catalog(config, async |catalog| {
        let resender = Resender {
            clickhouse: &clickhouse,
            catalog,
            client: &client,
            actor: &Actor::command_line(),
            mapping: &mapping,
            options: ResendOptions {
                raw_bytes_max: RAW_BYTES_MAX,
                ends_at: None,
                repeats,
                is_dry_run: false,
            },
        };
        Ok(send(&resender, &selection.filter(), &mut printed).await)
    })?;
    let ended = ended.map_err(|error| explained(config, error));
    if found == 0 {
        ended?;
        output::print(&explain_none(config, selection, invocation)?);
        return Ok(());
    }
    output::print(&printed.totals(found));
    print_limit_hint(config, selection, found)?;
    if let Err(error) = ended {
        let again = invocation.command("rejected resend", &["unsent"]);
        return Err(error.context(format!(
            "the resend is not complete; go on with:\n  {again}\nCause"
        )));
    }
    printed.exit_result(invocation)
}

/// Settles pending requests and sends the events that match a filter. Returns their number, and the
/// reason if the resend ended early.
async fn send(
    resender: &Resender<'_>,
    filter: &RejectedFilter,
    printed: &mut Printed,
) -> (usize, Result<(), ResendError>) {
    if let Err(error) = resender.settle_all(printed).await {
        return (0, Err(error));
    }
    match resender.clickhouse.rejected(filter).await {
        Err(error) => (0, Err(error.into())),
        Ok(events) => {
            let ended = resender.send_all(&events, printed).await;
            (events.len(), ended)
        }
    }
}

/// Refuses a request that an earlier version left: it kept that in a file.
fn require_nothing_left(data_dir: &Path) -> anyhow::Result<()> {
    let path = data_dir.join(EARLIER_FILE);
    let is_left = path.metadata().is_ok_and(|file| file.len() > 0);
    ensure!(
        !is_left,
        "an earlier version left a request in {}, and it is unknown whether the server stored it: run `millrace \
         rejected resend` of that version once more, or delete the file to send its events again regardless",
        path.display()
    );
    Ok(())
}

/// Adds to an error of ClickHouse what an operator can do about it.
fn explained(config: &Config, error: ResendError) -> anyhow::Error {
    let text = error.to_string();
    match error {
        ResendError::ClickHouse(error) | ResendError::Recording(_, error) => {
            connect::explain(config, error).context(text)
        }
        other => other.into(),
    }
}

/// Outcomes of a resend, which are printed as they become known.
#[derive(Default)]
struct Printed {
    sent: usize,
    refused: Vec<RejectedEvent>,
    unsendable: usize,
    sent_by_others: usize,
}

impl Reporter for Printed {
    fn event(&mut self, event: &RejectedEvent, outcome: EventOutcome) {
        let line = match outcome {
            EventOutcome::Accepted => {
                self.sent += 1;
                return;
            }
            // Not tried to its end: the reason why the resend ends says so.
            EventOutcome::InDoubt => return,
            EventOutcome::Rejected(why) => {
                self.refused.push(event.clone());
                format!("refused again, {}", shown(&why))
            }
            EventOutcome::Unsendable(why) => {
                self.unsendable += 1;
                format!("cannot be sent: {}", shown(&why))
            }
            EventOutcome::AlreadySent => {
                self.sent_by_others += 1;
                "was sent again meanwhile by somebody else".to_owned()
            }
        };
        let request_id = shown(&event.request_id);
        output::print(&format!("{request_id} {} {line}", event.index));
    }

    fn settled(&mut self, events: usize) {
        output::print(&format!(
            "{} of an interrupted resend: sent, as they were then.",
            counted(events as u64, "event")
        ));
    }
}

impl Printed {
    fn totals(&self, found: usize) -> String {
        let tried = self.sent + self.refused.len() + self.unsendable + self.sent_by_others;
        let others = match self.sent_by_others {
            0 => String::new(),
            count => format!(", {count} sent by others"),
        };
        let untried = match found.saturating_sub(tried) {
            0 => String::new(),
            count => format!(", {count} not tried"),
        };
        format!(
            "{} sent, {} refused again, {} cannot be sent{others}{untried}.",
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
