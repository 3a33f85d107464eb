//! Texts that are made to be expensive: a repeated piece, and the text around it.

use std::fmt::Write as _;

/// A text of any length that repeats a piece.
#[derive(Debug)]
pub struct HostilePayload {
    /// Name in reports.
    pub name: &'static str,
    position: PiecePosition,
    /// The repeated piece.
    pub piece: Piece,
    /// True if the payload is counted in every encoding.
    pub in_all_encodings: bool,
}

/// Position of the pieces in the JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PiecePosition {
    /// After the key, and never closed.
    Open,
    /// In a list that is a property.
    List,
    /// In a string that is a property.
    Text,
    /// Among the properties.
    Properties,
    /// Among the members of an event.
    Members,
    /// In the event's name.
    Name,
    /// Among the events.
    Events,
    /// Among the events, each of which names the project, the first with much white space.
    Keys,
    /// Among the events of the protocol whose request head names the key.
    V1,
}

/// A piece that is repeated.
#[derive(Clone, Copy, Debug)]
pub enum Piece {
    /// Equal bytes each time.
    Same(&'static [u8]),
    /// An event of another month each time.
    Month,
    /// An event with an id of its own each time.
    Id,
    /// A number of 400 digits.
    Digits,
    /// As many nested brackets as the parser allows.
    Nest,
}

use Piece::{Digits, Id, Month, Nest, Same};

const fn payload(name: &'static str, position: PiecePosition, piece: Piece) -> HostilePayload {
    HostilePayload {
        name,
        position,
        piece,
        in_all_encodings: false,
    }
}

const fn in_all(name: &'static str, position: PiecePosition, piece: Piece) -> HostilePayload {
    HostilePayload {
        in_all_encodings: true,
        ..payload(name, position, piece)
    }
}

/// Bytes of white space after the first key of [`PiecePosition::Keys`].
const SPACES: usize = 8 << 10;

/// Every payload that was ever found expensive, and similar ones.
pub const PAYLOADS: [HostilePayload; 29] = [
    in_all("brackets", PiecePosition::Open, Same(b"[")),
    payload("braces", PiecePosition::Open, Same(b"{\"\":")),
    payload("empty objects", PiecePosition::List, Same(b"{},")),
    payload("empty lists", PiecePosition::List, Same(b"[],")),
    in_all("NaN", PiecePosition::List, Same(b"NaN,")),
    in_all("ones", PiecePosition::List, Same(b"1,")),
    payload("empty texts", PiecePosition::List, Same(b"\"\",")),
    payload("objects", PiecePosition::List, Same(b"{\"\":1},")),
    payload("nests", PiecePosition::List, Nest),
    payload("backslashes", PiecePosition::Text, Same(b"\\\\")),
    payload("emoji", PiecePosition::Text, Same("\u{1F389}".as_bytes())),
    payload("escapes", PiecePosition::List, Same(b"\"\\u0000\\ud800\",")),
    payload(
        "halves",
        PiecePosition::Text,
        Same(b"\xed\xa0\xbc\xed\xbe\x89"),
    ),
    payload("exponents", PiecePosition::List, Same(b"1e400,")),
    payload("digits", PiecePosition::List, Digits),
    payload("spaces", PiecePosition::List, Same(b" ")),
    payload(
        "escaped names",
        PiecePosition::Properties,
        Same(b"\"\\u0061\":1,"),
    ),
    in_all(
        "tokens",
        PiecePosition::Properties,
        Same(b"\"token\":\"a\","),
    ),
    payload(
        "sets",
        PiecePosition::Properties,
        Same(b"\"$set\":{\"a\":1},"),
    ),
    payload(
        "members",
        PiecePosition::Members,
        Same(b"\"$set\":{},\"token\":null,"),
    ),
    payload("name", PiecePosition::Name, Same(b"\\n")),
    payload("events of nothing", PiecePosition::Events, Same(b"{},")),
    payload("events that are none", PiecePosition::Events, Same(b"1,")),
    payload(
        "smallest events",
        PiecePosition::Events,
        Same(br#"{"event":"a","distinct_id":"b"},"#),
    ),
    payload(
        "updates",
        PiecePosition::Events,
        Same(br#"{"event":"a","distinct_id":"b","$set":{"a":1}},"#),
    ),
    payload("months", PiecePosition::Events, Month),
    payload("keys", PiecePosition::Keys, Same(br#"{"token":"KEY"},"#)),
    payload("v1 events", PiecePosition::V1, Id),
    payload("v1 events of nothing", PiecePosition::V1, Same(b"{},")),
];

impl HostilePayload {
    /// Returns true if the payload is of the protocol whose request head names the key.
    #[must_use]
    pub fn is_v1(&self) -> bool {
        self.position == PiecePosition::V1
    }

    /// Makes a text of about `bytes` bytes with the given project key, if any, and
    /// `noise_bytes` incompressible bytes at its beginning.
    #[must_use]
    pub fn text(&self, key: Option<&str>, noise_bytes: usize, bytes: usize) -> Vec<u8> {
        let (before, after) = self.around(key, &noise(noise_bytes));
        let mut text = before.into_bytes();
        let available = bytes.saturating_sub(text.len() + after.len());
        let end = text.len() + available;
        let mut number = 0;
        while text.len() < end {
            self.piece.push(number, key, &mut text);
            number += 1;
        }
        text.extend_from_slice(after.as_bytes());
        text
    }

    fn around(&self, key: Option<&str>, noise: &str) -> (String, &'static str) {
        let key = key.unwrap_or("phc_nobodys");
        let noise = match noise {
            "" => String::new(),
            noise => format!("\"noise\":\"{noise}\","),
        };
        let head = format!("{{\"api_key\":\"{key}\",{noise}\"batch\":[");
        let event = r#"{"event":"a","distinct_id":"b","#;
        let first = format!("{head}{event}\"properties\":{{");
        match self.position {
            PiecePosition::Open => (format!("{{\"api_key\":\"{key}\",{noise}\"x\":"), ""),
            PiecePosition::List => (format!("{first}\"x\":["), "1]}}]}"),
            PiecePosition::Text => (format!("{first}\"x\":\""), "\"}}]}"),
            PiecePosition::Properties => (first, "\"x\":1}}]}"),
            PiecePosition::Members => (format!("{head}{event}"), "\"x\":1}]}"),
            PiecePosition::Name => (
                format!("{head}{{\"event\":\""),
                "a\",\"distinct_id\":\"b\"}]}",
            ),
            PiecePosition::Events => (head, "{\"event\":\"a\",\"distinct_id\":\"b\"}]}"),
            PiecePosition::V1 => {
                let last = r#"{"event":"a","distinct_id":"b","uuid":"ffffffff-0000-4000-8000-000000000000"}]}"#;
                (format!("{{{noise}\"batch\":["), last)
            }
            PiecePosition::Keys => {
                let spaces = " ".repeat(SPACES);
                let first = format!("[{{{noise}\"token\":\"{key}{spaces}\"}},");
                (first, "{\"event\":\"a\",\"distinct_id\":\"b\"}]")
            }
        }
    }
}

impl Piece {
    fn push(self, number: usize, key: Option<&str>, text: &mut Vec<u8>) {
        match self {
            Same(br#"{"token":"KEY"},"#) => {
                let key = key.unwrap_or("phc_nobodys");
                text.extend_from_slice(format!("{{\"token\":\"{key}\"}},").as_bytes());
            }
            Same(bytes) => text.extend_from_slice(bytes),
            Digits => {
                text.resize(text.len() + 400, b'7');
                text.push(b',');
            }
            Nest => {
                text.resize(text.len() + 120, b'[');
                text.resize(text.len() + 120, b']');
                text.push(b',');
            }
            Id => {
                let id = format!("{number:08x}-0000-4000-8000-000000000000");
                let event = r#"{"event":"a","distinct_id":"b","uuid":"#;
                text.extend_from_slice(format!("{event}\"{id}\"}},").as_bytes());
            }
            Month => {
                let (year, month) = (1970 + number / 12 % 8_000, number % 12 + 1);
                let time = format!("{year:04}-{month:02}-01");
                let event = r#"{"event":"a","distinct_id":"b","timestamp":"#;
                text.extend_from_slice(format!("{event}\"{time}\"}},").as_bytes());
            }
        }
    }
}

/// Makes characters that no compressor makes much shorter; the same ones each time.
fn noise(bytes: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Writing to a String does not fail.
        let _ = write!(text, "{state:016x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_the_requested_length_and_key_and_are_json_but_for_four() {
        for payload in &PAYLOADS {
            let name = payload.name;
            let text = payload.text(Some("phc_a"), 100, 200_000);
            assert!((200_000..201_000).contains(&text.len()), "{name}");
            let has_key = text.windows(5).any(|part| part == b"phc_a");
            assert_eq!(has_key, !payload.is_v1(), "{name}");
            let text = std::str::from_utf8(&text).unwrap_or_default();
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
            let is_odd = ["brackets", "braces", "NaN", "halves"].contains(&name);
            assert_eq!(is_json, !is_odd, "{name}");
        }
    }
}
