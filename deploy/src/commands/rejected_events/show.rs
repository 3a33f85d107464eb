//! `millrace rejected show`: prints events with the JSON that was sent.

use super::object::object;
use super::selection::{ask, sent_again};
use crate::config::Config;
use crate::output;
use crate::rejected_events::raws::{self, PIECE_EVENTS_MAX, RAW_BYTES_MAX};
use crate::rejected_events::time_text;
use millrace_clickhouse::RejectedEvent;
use millrace_rows::{shown, shown_json};
use serde::de::IgnoredAny;
use std::borrow::Cow;

/// Prints events with their JSON, for people or as lines of JSON.
///
/// # Errors
/// When ClickHouse cannot be queried.
pub(super) fn run(config: &Config, events: &[RejectedEvent], json: bool) -> anyhow::Result<()> {
    let events: Vec<_> = events.iter().collect();
    for piece in events.chunks(PIECE_EVENTS_MAX) {
        let groups = ask(config, async |clickhouse| {
            raws::groups(clickhouse, piece).await
        })?;
        for group in groups {
            let raws = ask(config, async |clickhouse| {
                clickhouse.rejected_raws(&group.events, RAW_BYTES_MAX).await
            })?;
            for (event, raw) in group.events.iter().zip(&raws) {
                match json {
                    true => print_line(event, raw),
                    false => print(event, raw),
                }
            }
            if !json && group.bytes > RAW_BYTES_MAX {
                output::print(&format!(
                    "These are the first {} MiB of its {} bytes.\n",
                    RAW_BYTES_MAX >> 20,
                    group.bytes
                ));
            }
        }
    }
    Ok(())
}

/// Prints a line of JSON. A text that was cut off has as many bytes as are read of a group.
fn print_line(event: &RejectedEvent, raw: &str) {
    let mut line = object(event);
    if let Some(fields) = line.as_object_mut() {
        fields.insert("raw".to_owned(), raw.into());
    }
    output::print_json(&line.to_string());
}

fn print(event: &RejectedEvent, raw: &str) {
    output::print(&format!(
        "{} {} of request {}, project {}\n{}: {}\n{}{}\n",
        time_text(event.received_at),
        shown(&event.attr),
        shown(&event.request_id),
        event.team_id,
        shown(&event.code),
        shown(&event.detail),
        sent_again(event).map_or_else(String::new, |at| format!(
            "Sent again {at}, and accepted.\n"
        )),
        shown_event(raw)
    ));
}

/// Formats an event in one line that can be pasted as JSON; text that is no JSON gets its control
/// characters escaped.
fn shown_event(raw: &str) -> Cow<'_, str> {
    match serde_json::from_str::<IgnoredAny>(raw) {
        // Line feeds are between values only.
        Ok(_) => Cow::Owned(shown_json(raw).replace('\n', " ")),
        Err(_) => shown(raw),
    }
}
