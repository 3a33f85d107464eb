//! `millrace rejected`: lists, shows and resends rejected events. They are kept with the reason, so
//! that they can be corrected and sent again.
//!
//! | Module | Holds |
//! |---|---|
//! | `resend` | the loop that sends events again and records the accepted ones |
//! | `corrected` | an event as it is sent again |
//! | `raws` | the JSON of events, read in bounded groups |
//! | `client` | one request to the server, and its outcome |
//! | `pending_resend` | the request under way, for the next resend if this one is stopped |
//! | `show` | events for people |

mod client;
mod corrected;
mod pending_resend;
mod raws;
mod resend;
mod show;

use super::{Invocation, counted, table};
use crate::config::Config;
use crate::connect;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use millrace_clickhouse::{ClickHouse, QueryError, RejectedEvent, RejectedFilter};
use millrace_rows::Micros;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Message where there is nothing to list.
const NO_EVENT: &str = "No event was refused.";

/// Subcommand of `millrace rejected`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// List rejected events, oldest first
    List(EventSelection),
    /// Show rejected events with the JSON that was sent
    Show(EventSelection),
    /// Send rejected events again, corrected by --set; only those that were not sent again yet
    #[command(mut_arg("unsent", |arg| arg.hide(true)))]
    Resend {
        /// Selection of events
        #[command(flatten)]
        selection: EventSelection,
        /// Include events that were sent again already
        #[arg(long, conflicts_with = "unsent")]
        all: bool,
        /// Set a top-level field first, as in distinct_id=ada or timestamp=2026-01-31T12:00:00Z
        #[arg(long, value_name = "FIELD=VALUE", value_parser = assignment)]
        set: Vec<(String, Value)>,
    },
}

/// Selection of rejected events.
#[derive(Args, Clone, Debug)]
pub struct EventSelection {
    /// Only events of this project
    #[arg(long, value_name = "N")]
    team_id: Option<i64>,
    /// Only events that were rejected with this code, such as missing_distinct_id
    #[arg(long)]
    code: Option<String>,
    /// Only events that were received since this time, as in 2026-11-20T00:00:00Z
    #[arg(long, value_parser = time_of)]
    since: Option<Micros>,
    /// Only events of this request (X-Request-Id of its response)
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Only the event at this place in its batch, from 0
    #[arg(long, value_name = "N")]
    index: Option<u32>,
    /// Only events that were not sent again yet
    #[arg(long)]
    unsent: bool,
    /// Limit of events; the newest are taken
    #[arg(long = "limit", value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    rows_max: u32,
}

/// Runs the command.
///
/// # Errors
/// When ClickHouse, the catalog or the server cannot be reached, there is nothing to show, or
/// something was not sent.
pub fn run(config: &Config, command: &Command, invocation: &Invocation) -> anyhow::Result<()> {
    let selection = match command {
        Command::List(selection) | Command::Show(selection) => selection,
        Command::Resend {
            selection,
            all,
            set,
        } => {
            let unsent = !all;
            let selection = EventSelection {
                unsent,
                ..selection.clone()
            };
            return resend::run(config, &selection, set, invocation);
        }
    };
    let found = find(config, selection)?;
    if found.is_empty() {
        let why = explain_none(config, selection, invocation)?;
        match command {
            Command::Show(_) if why != NO_EVENT => bail!(why),
            _ => crate::print(&why),
        }
        return Ok(());
    }
    match command {
        Command::Show(_) => show::run(config, &found)?,
        _ => list(&found),
    }
    print_limit_hint(config, selection, found.len())
}

impl EventSelection {
    fn filter(&self) -> RejectedFilter {
        RejectedFilter {
            team_id: self.team_id,
            code: self.code.clone(),
            since: self.since,
            request_id: self.request_id.clone(),
            index: self.index,
            unsent: self.unsent,
            rows_max: self.rows_max,
        }
    }
}

fn find(config: &Config, selection: &EventSelection) -> anyhow::Result<Vec<RejectedEvent>> {
    ask(config, async |clickhouse| {
        clickhouse.rejected(&selection.filter()).await
    })
}

fn count(config: &Config, filter: &RejectedFilter) -> anyhow::Result<u64> {
    ask(config, async |clickhouse| {
        clickhouse.rejected_count(filter).await
    })
}

fn ask<T>(
    config: &Config,
    question: impl AsyncFnOnce(&ClickHouse) -> Result<T, QueryError>,
) -> anyhow::Result<T> {
    let clickhouse = connect::clickhouse(config)?;
    connect::block_on(async {
        question(&clickhouse)
            .await
            .map_err(|error| connect::explain(config, error))
            .context("cannot read rejected_events")
    })
}

/// Explains why no event was found, and how many there are.
fn explain_none(
    config: &Config,
    selection: &EventSelection,
    invocation: &Invocation,
) -> anyhow::Result<String> {
    let all = count(config, &RejectedFilter::default())?;
    if all == 0 {
        return Ok(NO_EVENT.to_owned());
    }
    if selection.unsent {
        let filter = RejectedFilter {
            unsent: false,
            ..selection.filter()
        };
        let sent = count(config, &filter)?;
        if sent > 0 {
            let verb = if sent == 1 { "was" } else { "were" };
            return Ok(format!(
                "Nothing is left to send: {} {verb} sent again already. `rejected resend --all` sends such once more; list with:\n  {}",
                counted(sent, "refused event"),
                invocation.command("rejected list", &["unsent"])
            ));
        }
    }
    if let Some(index) = selection.index {
        let filter = RejectedFilter {
            index: None,
            ..selection.filter()
        };
        let others = count(config, &filter)?;
        if others > 0 {
            return Ok(format!(
                "No refused event has the index {index}. Without --index there {}; list with:\n  {}",
                there_are(others),
                invocation.command("rejected list", &["index"])
            ));
        }
    }
    Ok(format!(
        "No refused event matches. In all there {}; list with:\n  {}",
        there_are(all),
        invocation.command(
            "rejected list",
            &["team_id", "code", "since", "request_id", "index", "unsent"]
        )
    ))
}

fn there_are(count: u64) -> String {
    let verb = if count == 1 { "is" } else { "are" };
    format!("{verb} {}", counted(count, "refused event"))
}

/// Prints a hint if the limit left some out.
fn print_limit_hint(
    config: &Config,
    selection: &EventSelection,
    found: usize,
) -> anyhow::Result<()> {
    if found == 0 || (found as u64) < u64::from(selection.rows_max) {
        return Ok(());
    }
    let all = count(config, &selection.filter())?;
    if all > found as u64 {
        crate::print(&format!(
            "These are the newest of {}; --limit {all} takes all.",
            counted(all, "refused event")
        ));
    }
    Ok(())
}

fn list(events: &[RejectedEvent]) {
    let rows = events.iter().map(|event| {
        [
            time_text(event.received_at),
            event.team_id.to_string(),
            event.request_id.clone(),
            event.index.to_string(),
            event.code.clone(),
            event.attr.clone(),
            sent_again(event).unwrap_or_else(|| "no".to_owned()),
        ]
    });
    let headings = [
        "RECEIVED",
        "TEAM",
        "REQUEST",
        "INDEX",
        "CODE",
        "WHERE",
        "SENT AGAIN",
    ];
    table::print(headings, rows.collect(), NO_EVENT);
}

/// Time at which an event was sent again and accepted, as text.
fn sent_again(event: &RejectedEvent) -> Option<String> {
    (event.resent_at > 0).then(|| time_text(event.resent_at))
}

fn time_text(micros: i64) -> String {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000)
        .ok()
        .and_then(|at| at.format(&Rfc3339).ok())
        .unwrap_or_else(|| micros.to_string())
}

fn time_of(text: &str) -> Result<Micros, String> {
    let at = OffsetDateTime::parse(text, &Rfc3339)
        .map_err(|_| "give a time such as 2026-11-20T00:00:00Z".to_owned())?;
    Ok(Micros(
        i64::try_from(at.unix_timestamp_nanos() / 1_000).unwrap_or(i64::MAX),
    ))
}

/// Parses `FIELD=VALUE`; a value that is JSON is taken as JSON, anything else as text.
fn assignment(text: &str) -> Result<(String, Value), String> {
    let assigned = text
        .split_once('=')
        .filter(|(field, _)| !field.trim().is_empty());
    let (field, value) = assigned.ok_or("give FIELD=VALUE, such as distinct_id=ada")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok((field.to_owned(), value))
}
