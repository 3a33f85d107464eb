//! Server-sent events out of bytes, as they come in pieces of any size.

use anyhow::bail;

/// Bytes of the longest event.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// One event of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ServerSent {
    /// Name of the event.
    pub(super) name: String,
    /// Id of the event; empty if it has none.
    pub(super) id: String,
    pub(super) data: String,
}

/// Bytes that came and are no whole event yet.
#[derive(Debug, Default)]
pub(super) struct ServerSentEvents {
    line: Vec<u8>,
    event: ServerSent,
}

impl ServerSentEvents {
    /// Takes a piece; returns the events that are complete.
    ///
    /// # Errors
    /// When an event is too long.
    pub(super) fn take(&mut self, piece: &[u8]) -> anyhow::Result<Vec<ServerSent>> {
        let mut events = Vec::new();
        let mut parts = piece.split(|byte| *byte == b'\n');
        // The last part is the beginning of a line.
        let last = parts.next_back().unwrap_or_default();
        for part in parts {
            self.line.extend_from_slice(part);
            let line = std::mem::take(&mut self.line);
            let line = String::from_utf8_lossy(&line);
            events.extend(self.take_line(line.trim_end_matches('\r')));
        }
        self.line.extend_from_slice(last);
        if self.line.len() + self.event.data.len() > EVENT_BYTES_MAX {
            bail!("an event of the stream is too long");
        }
        Ok(events)
    }

    /// Takes a line; returns the event that it ends.
    fn take_line(&mut self, line: &str) -> Option<ServerSent> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return (!event.data.is_empty()).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "id" => value.clone_into(&mut self.event.id),
            "data" => {
                if !self.event.data.is_empty() {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // Comments, and times after which browsers come back.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, id: &str, data: &str) -> ServerSent {
        ServerSent {
            name: name.to_owned(),
            id: id.to_owned(),
            data: data.to_owned(),
        }
    }

    #[test]
    fn events_are_read_whatever_pieces_they_come_in() {
        let text = "retry: 1000\n\n: comment\nevent: event\nid: 7-n1\ndata: {\"a\":\"é\"}\n\n\
                    event: rate\r\ndata: {\r\ndata: }\r\n\r\nevent: none\n\ndata:half";
        let expected = [
            event("event", "7-n1", "{\"a\":\"é\"}"),
            event("rate", "", "{\n}"),
        ];
        for bytes in [1, 2, 5, 30, text.len()] {
            let mut events = ServerSentEvents::default();
            let mut read = Vec::new();
            for piece in text.as_bytes().chunks(bytes) {
                read.extend(events.take(piece).unwrap());
            }
            assert_eq!(read, expected, "{bytes}");
        }
    }

    #[test]
    fn an_event_without_an_end_is_an_error() {
        for line in ["data: x\n".repeat(1 << 20), "x".repeat(2 << 20)] {
            let mut events = ServerSentEvents::default();
            assert!(events.take(line.as_bytes()).is_err());
        }
    }
}
