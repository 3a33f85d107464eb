//! `millrace rejected`: lists, shows and resends rejected events. They are kept with the reason, so
//! that they can be corrected and sent again, by [`crate::rejected_events`].
//!
//! | Module | Holds |
//! |---|---|
//! | `object` | events for programs |
//! | `resend` | sends events again, and prints outcomes and the next step |
//! | `selection` | selection of events, and what to say where it finds none |
//! | `show` | events for people |

mod object;
mod resend;
mod selection;
mod show;

use super::list_format::print_object;
use super::{Invocation, ListFormat, table};
use crate::config::Config;
use crate::output;
use crate::rejected_events::time_text;
use anyhow::bail;
use clap::Subcommand;
use millrace_catalog::bounded_json;
use millrace_clickhouse::RejectedEvent;
use object::object;
use selection::{
    EventSelection, NO_EVENT, explain_none, find, matching, print_limit_hint, sent_again,
};
use serde_json::{Value, json};

/// Subcommand of `millrace rejected`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// List rejected events, oldest first
    List {
        /// Selection of events
        #[command(flatten)]
        selection: EventSelection,
        /// Format of the list
        #[command(flatten)]
        format: ListFormat,
    },
    /// Show rejected events with the JSON that was sent
    Show {
        /// Selection of events
        #[command(flatten)]
        selection: EventSelection,
        /// Print a line of JSON for each event, in which `raw` is the text that was sent
        #[arg(long)]
        json: bool,
    },
    /// Send rejected events again, corrected by --set; only those that were not sent again yet
    #[command(mut_arg("unsent", |arg| arg.hide(true)))]
    Resend {
        /// Selection of events
        #[command(flatten)]
        selection: EventSelection,
        /// Include events that were sent again already
        #[arg(long, conflicts_with = "unsent")]
        all: bool,
        /// Top-level field to set in each event before it is sent, as in distinct_id=ada or
        /// timestamp=2026-01-31T12:00:00Z
        #[arg(long, value_name = "FIELD=VALUE", value_parser = assignment)]
        set: Vec<(String, Value)>,
    },
}

/// Runs the command.
///
/// # Errors
/// When ClickHouse, the catalog or the server cannot be reached, there is nothing to show, or
/// something was not sent.
pub fn run(config: &Config, command: &Command, invocation: &Invocation) -> anyhow::Result<()> {
    match command {
        Command::List { selection, format } if format.is_json() => print_list(config, selection),
        Command::List { selection, .. } => {
            let found = find(config, selection)?;
            if found.is_empty() {
                output::print(&explain_none(config, selection, invocation)?);
                return Ok(());
            }
            list(&found);
            print_limit_hint(config, selection, found.len())
        }
        Command::Show { selection, json } => {
            let found = find(config, selection)?;
            if found.is_empty() {
                let why = explain_none(config, selection, invocation)?;
                if why != NO_EVENT {
                    bail!(why);
                }
                // A program gets no line.
                if !json {
                    output::print(&why);
                }
                return Ok(());
            }
            show::run(config, &found, *json)?;
            match json {
                true => Ok(()),
                false => print_limit_hint(config, selection, found.len()),
            }
        }
        Command::Resend {
            selection,
            all,
            set,
        } => {
            let selection = selection.with_unsent(!all);
            resend::run(config, &selection, set, *all, invocation)
        }
    }
}

/// Prints the selected events as JSON, with the number of all that match: the limit may have left
/// some out.
fn print_list(config: &Config, selection: &EventSelection) -> anyhow::Result<()> {
    let found = find(config, selection)?;
    let matching = matching(config, selection)?;
    let events: Vec<Value> = found.iter().map(object).collect();
    print_object(&json!({ "events": events, "matching": matching }));
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
        "PROJECT",
        "REQUEST",
        "INDEX",
        "CODE",
        "WHERE",
        "SENT AGAIN",
    ];
    table::print(headings, rows.collect(), NO_EVENT);
}

/// Parses `FIELD=VALUE`; a value that is JSON is taken as JSON, anything else as text.
fn assignment(text: &str) -> Result<(String, Value), String> {
    let assigned = text
        .split_once('=')
        .filter(|(field, _)| !field.trim().is_empty());
    let (field, value) = assigned.ok_or("give FIELD=VALUE, such as distinct_id=ada")?;
    let read = bounded_json::parse(value.as_bytes(), usize::MAX);
    let value = read.unwrap_or_else(|_| Value::from(value));
    Ok((field.to_owned(), value))
}
