//! Messages by lines of JSON, as they come in pieces of any size.

use anyhow::{Context, bail};
use millrace_live::LiveMessage;

/// Bytes of the longest line: more than any message has.
const LINE_BYTES_MAX: usize = 256 << 10;

/// Bytes that came and are no whole line yet.
#[derive(Debug, Default)]
pub(super) struct MessageLines(Vec<u8>);

impl MessageLines {
    /// Takes a piece; returns the messages that are complete.
    ///
    /// # Errors
    /// When a line is no message, or too long.
    pub(super) fn take(&mut self, piece: &[u8]) -> anyhow::Result<Vec<LiveMessage>> {
        let mut messages = Vec::new();
        let mut parts = piece.split(|byte| *byte == b'\n');
        // The last part is the beginning of a line.
        let last = parts.next_back().unwrap_or_default();
        for part in parts {
            self.0.extend_from_slice(part);
            let message = serde_json::from_slice(&self.0);
            messages.push(message.context("a line is no message")?);
            self.0.clear();
        }
        self.0.extend_from_slice(last);
        if self.0.len() > LINE_BYTES_MAX {
            bail!("a line is longer than any message");
        }
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_live::LiveRate;

    #[test]
    fn messages_are_read_whatever_pieces_they_come_in() {
        let sent = [
            LiveMessage::Event {
                id: "7-n1".to_owned(),
                json: r#"{"event":"a\nb"}"#.to_owned(),
            },
            LiveMessage::Stored {
                ids: vec!["7-n1".to_owned()],
            },
            LiveMessage::Rate(LiveRate::default()),
        ];
        let mut text = String::new();
        for message in &sent {
            text += &serde_json::to_string(message).unwrap();
            text.push('\n');
        }
        for bytes in [1, 2, 7, 50, text.len()] {
            let mut lines = MessageLines::default();
            let mut read = Vec::new();
            for piece in text.as_bytes().chunks(bytes) {
                read.extend(lines.take(piece).unwrap());
            }
            assert_eq!(read, sent, "{bytes}");
        }
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for piece in [&b"{}\n"[..], b"\n", b"not json\n", &[b'x'; 300 << 10]] {
            assert!(MessageLines::default().take(piece).is_err());
        }
    }
}
