//! Messages of a live stream as lines: for people, or as JSON.

use super::server_sent::ServerSent;
use bytesize::ByteSize;
use millrace_rows::{counted, shown, shown_json};
use serde::Deserialize;
use std::io::{self, Write};

const RED: &str = "\u{1b}[31m";
const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[33m";
const DIM: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

/// Shows messages on standard output.
pub(super) struct Show {
    is_json: bool,
    has_colors: bool,
}

/// Fields of an event that people are shown.
#[derive(Debug, Deserialize)]
struct EventBody {
    fate: String,
    event: Option<String>,
    distinct_id: Option<String>,
    received_at: Option<String>,
    lib: Option<String>,
    lib_version: Option<String>,
    bytes: u64,
    client_ip: Option<String>,
    code: Option<String>,
    attr: Option<String>,
    detail: Option<String>,
    warnings: Option<Vec<String>>,
}

/// Events that are in ClickHouse now.
#[derive(Debug, Deserialize)]
struct StoredBody {
    ids: Vec<String>,
}

/// Numbers of a second.
#[derive(Debug, Deserialize)]
struct RateBody {
    events: u64,
    unseen: u64,
    matching: u64,
    shown: u64,
    dropped: u64,
    nodes_missing: u64,
}

impl Show {
    pub(super) const fn new(is_json: bool, has_colors: bool) -> Self {
        Self {
            is_json,
            has_colors,
        }
    }

    /// Shows a message; returns false if nobody reads any more.
    pub(super) fn message(&self, message: &ServerSent) -> bool {
        let line = match self.is_json {
            true => Some(json_line(message)),
            false => self.line(message),
        };
        line.is_none_or(|line| writeln!(io::stdout(), "{line}").is_ok())
    }

    /// Line for people; `None` if a message is of no use to them.
    fn line(&self, message: &ServerSent) -> Option<String> {
        match message.name.as_str() {
            "event" => {
                let event = serde_json::from_str(&message.data).ok()?;
                Some(self.event_line(&event))
            }
            "stored" => {
                let StoredBody { ids } = serde_json::from_str(&message.data).ok()?;
                let stored = counted(ids.len() as u64, "event");
                Some(self.colored(DIM, &format!("{:12}  stored    {stored}", "")))
            }
            "rate" => {
                let rate = serde_json::from_str(&message.data).ok()?;
                Some(self.colored(DIM, &rate_line(&rate)?))
            }
            _ => None,
        }
    }

    fn event_line(&self, event: &EventBody) -> String {
        let color = match event.fate.as_str() {
            "rejected" => RED,
            _ if event.warnings.as_ref().is_some_and(|it| !it.is_empty()) => YELLOW,
            _ => GREEN,
        };
        // `2026-11-20T14:38:00.123456Z`: people want the time to the millisecond.
        let received_at = event.received_at.as_deref().unwrap_or_default();
        let time: String = received_at.chars().skip(11).take(12).collect();
        let time = time.trim_end_matches('Z');
        let fate = self.colored(color, &format!("{:8}", shown(&event.fate)));
        let mut parts = vec![
            text_of(event.event.as_deref(), "?"),
            text_of(event.distinct_id.as_deref(), "?"),
        ];
        if let Some(lib) = &event.lib {
            let version = event.lib_version.as_deref().unwrap_or_default();
            parts.push(shown(&format!("{lib} {version}")).trim_end().to_owned());
        }
        parts.push(ByteSize(event.bytes).to_string());
        parts.extend(event.client_ip.as_deref().map(|ip| shown(ip).into_owned()));
        let warnings = event.warnings.iter().flatten();
        parts.extend(warnings.map(|code| self.colored(YELLOW, &shown(code))));
        parts.extend(self.reason(event));
        format!("{time:12}  {fate}  {}", parts.join("  "))
    }

    /// Reason of a rejection.
    fn reason(&self, event: &EventBody) -> Option<String> {
        let code = self.colored(RED, &shown(event.code.as_deref()?));
        let detail = shown(event.detail.as_deref().unwrap_or_default()).into_owned();
        Some(match event.attr.as_deref() {
            Some(attr) => format!("{code} at {}: {detail}", shown(attr)),
            None => format!("{code}: {detail}"),
        })
    }

    fn colored(&self, color: &str, text: &str) -> String {
        match self.has_colors {
            true => format!("{color}{text}{PLAIN}"),
            false => text.to_owned(),
        }
    }
}

fn text_of(text: Option<&str>, missing: &str) -> String {
    shown(text.unwrap_or(missing)).into_owned()
}

/// Line of JSON: events as they are, other messages by their name.
fn json_line(message: &ServerSent) -> String {
    let data = shown_json(&message.data);
    match message.name.as_str() {
        "event" => data.into_owned(),
        name => format!("{{\"{}\":{data}}}", shown_json(name)),
    }
}

/// Line of a second in which not all events were shown.
fn rate_line(rate: &RateBody) -> Option<String> {
    let left_out = rate.matching.saturating_sub(rate.shown) + rate.unseen;
    if left_out == 0 && rate.nodes_missing == 0 {
        return None;
    }
    let mut line = format!(
        "{:12}  {} in this second: {} shown of {} that match",
        "",
        counted(rate.events, "event"),
        rate.shown,
        rate.matching
    );
    for (number, text) in [
        (rate.unseen, "not looked at"),
        (rate.dropped, "too many for this connection"),
        (rate.nodes_missing, "nodes not reached"),
    ] {
        if number > 0 {
            line += &format!(", {number} {text}");
        }
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn message(name: &str, data: &serde_json::Value) -> ServerSent {
        ServerSent {
            name: name.to_owned(),
            id: String::new(),
            data: data.to_string(),
        }
    }

    fn event(fate: &str) -> serde_json::Value {
        json!({
            "id": "7-n1", "fate": fate, "event": "page\u{1b}[2J", "distinct_id": "ann",
            "received_at": "2026-11-20T14:38:00.123456Z", "lib": "web", "lib_version": "1.2.3",
            "bytes": 512, "warnings": [],
        })
    }

    #[test]
    fn people_see_a_line_for_each_event() {
        let show = Show::new(false, false);
        let mut rejected = event("rejected");
        rejected["code"] = json!("missing_event");
        rejected["attr"] = json!("batch[0].event");
        rejected["detail"] = json!("The event has no name.");
        rejected["event"] = json!(null);
        let mut warned = event("logged");
        warned["warnings"] = json!(["future_timestamp"]);
        warned["lib"] = json!(null);
        let size = ByteSize(512);
        let table = [
            (
                event("logged"),
                format!("14:38:00.123  logged    page\\u{{1b}}[2J  ann  web 1.2.3  {size}"),
            ),
            (
                warned,
                format!("14:38:00.123  logged    page\\u{{1b}}[2J  ann  {size}  future_timestamp"),
            ),
            (
                rejected,
                format!(
                    "14:38:00.123  rejected  ?  ann  web 1.2.3  {size}  missing_event at batch[0].event: The event \
                     has no name."
                ),
            ),
        ];
        for (data, expected) in table {
            let line = show.line(&message("event", &data)).unwrap();
            assert_eq!(line, expected);
        }
        let colored = Show::new(false, true).line(&message("event", &event("logged")));
        assert!(colored.unwrap().contains("\u{1b}[32mlogged  \u{1b}[0m"));
    }

    #[test]
    fn numbers_are_shown_when_something_is_left_out() {
        let show = Show::new(false, false);
        let rate = |matching: u64, shown: u64, unseen: u64, missing: u64| {
            let data = json!({
                "events": 700, "unseen": unseen, "matching": matching, "shown": shown,
                "dropped": 0, "nodes": 1, "nodes_missing": missing,
            });
            show.line(&message("rate", &data))
        };
        assert_eq!(rate(50, 50, 0, 0), None);
        let sampled = rate(600, 50, 100, 2).unwrap();
        let expected = "700 events in this second: 50 shown of 600 that match, 100 not looked at, \
                        2 nodes not reached";
        assert_eq!(sampled.trim_start(), expected);
        let stored = show.line(&message("stored", &json!({ "ids": ["1", "2"] })));
        assert_eq!(stored.unwrap().trim_start(), "stored    2 events");
    }

    #[test]
    fn json_is_the_event_or_has_the_name_of_the_message() {
        let table = [
            ("event", r#"{"event":"a"}"#, r#"{"event":"a"}"#),
            ("stored", r#"{"ids":["1"]}"#, r#"{"stored":{"ids":["1"]}}"#),
            ("rate", r#"{"events":1}"#, r#"{"rate":{"events":1}}"#),
        ];
        for (name, data, expected) in table {
            let message = ServerSent {
                name: name.to_owned(),
                data: data.to_owned(),
                ..ServerSent::default()
            };
            assert_eq!(json_line(&message), expected);
        }
    }
}
