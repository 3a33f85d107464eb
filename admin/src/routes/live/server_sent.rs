//! Messages as server-sent events.

use bytes::Bytes;
use millrace_live::LiveMessage;
use serde::Serialize;

/// Events that were shown as logged, and now are in ClickHouse.
#[derive(Serialize)]
struct Stored<'a> {
    ids: &'a [String],
}

/// Beginning of a stream: clients whose connection breaks come back after a second.
pub(super) fn beginning() -> Bytes {
    Bytes::from_static(b"retry: 1000\n\n")
}

/// Text of a message.
pub(super) fn text(message: &LiveMessage) -> Bytes {
    match message {
        // One line, as the source makes them.
        LiveMessage::Event { id, json } => {
            format!("event: event\nid: {id}\ndata: {json}\n\n").into()
        }
        LiveMessage::Stored { ids } => named("stored", &Stored { ids }),
        LiveMessage::Rate(rate) => named("rate", rate),
    }
}

fn named(name: &str, data: &impl Serialize) -> Bytes {
    // Fails for no such value.
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_live::LiveRate;

    #[test]
    fn messages_are_named_and_only_events_have_ids() {
        let event = LiveMessage::Event {
            id: "7-n1".to_owned(),
            json: r#"{"event":"a"}"#.to_owned(),
        };
        let stored = LiveMessage::Stored {
            ids: vec!["7-n1".to_owned()],
        };
        let rate = LiveMessage::Rate(LiveRate {
            events: 3,
            shown: 1,
            nodes: 2,
            ..LiveRate::default()
        });
        let table = [
            (event, "event: event\nid: 7-n1\ndata: {\"event\":\"a\"}\n\n"),
            (stored, "event: stored\ndata: {\"ids\":[\"7-n1\"]}\n\n"),
            (
                rate,
                "event: rate\ndata: {\"events\":3,\"unseen\":0,\"matching\":0,\"shown\":1,\"dropped\":0,\"nodes\":2,\"nodes_missing\":0}\n\n",
            ),
        ];
        for (message, expected) in table {
            assert_eq!(text(&message), expected, "{message:?}");
        }
    }
}
