//! Texts that are made to cost much: a piece that is repeated, and what stands around it.

use std::fmt::Write as _;

/// A text of any length.
#[derive(Debug)]
pub struct Shape {
    /// Its name in reports.
    pub name: &'static str,
    place: Place,
    /// What is repeated.
    pub piece: Piece,
    /// Whether it is counted in every encoding.
    pub is_in_all: bool,
}

/// Where the pieces are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Behind the key, and never closed.
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
    /// Among the events, each of which names the project, and the first with much white space.
    Keys,
    /// Among the events of the protocol whose head names the key.
    V1,
}

/// What is repeated.
#[derive(Clone, Copy, Debug)]
pub enum Piece {
    /// The same bytes.
    Same(&'static [u8]),
    /// An event of another month each time.
    Month,
    /// An event with an id of its own each time.
    Id,
    /// A number of 400 digits.
    Digits,
    /// As many brackets as may be open.
    Nest,
}

use Piece::{Digits, Id, Month, Nest, Same};

const fn shape(name: &'static str, place: Place, piece: Piece) -> Shape {
    Shape {
        name,
        place,
        piece,
        is_in_all: false,
    }
}

const fn in_all(name: &'static str, place: Place, piece: Piece) -> Shape {
    Shape {
        is_in_all: true,
        ..shape(name, place, piece)
    }
}

/// Bytes of white space behind the first key of [`Place::Keys`].
const SPACES: usize = 8 << 10;

/// Everything that was ever found dear, and its neighbours.
pub const SHAPES: [Shape; 29] = [
    in_all("brackets", Place::Open, Same(b"[")),
    shape("braces", Place::Open, Same(b"{\"\":")),
    shape("empty objects", Place::List, Same(b"{},")),
    shape("empty lists", Place::List, Same(b"[],")),
    in_all("NaN", Place::List, Same(b"NaN,")),
    in_all("ones", Place::List, Same(b"1,")),
    shape("empty texts", Place::List, Same(b"\"\",")),
    shape("objects", Place::List, Same(b"{\"\":1},")),
    shape("nests", Place::List, Nest),
    shape("backslashes", Place::Text, Same(b"\\\\")),
    shape("emoji", Place::Text, Same("\u{1F389}".as_bytes())),
    shape("escapes", Place::List, Same(b"\"\\u0000\\ud800\",")),
    shape("halves", Place::Text, Same(b"\xed\xa0\xbc\xed\xbe\x89")),
    shape("exponents", Place::List, Same(b"1e400,")),
    shape("digits", Place::List, Digits),
    shape("spaces", Place::List, Same(b" ")),
    shape("escaped names", Place::Properties, Same(b"\"\\u0061\":1,")),
    in_all("tokens", Place::Properties, Same(b"\"token\":\"a\",")),
    shape("sets", Place::Properties, Same(b"\"$set\":{\"a\":1},")),
    shape(
        "members",
        Place::Members,
        Same(b"\"$set\":{},\"token\":null,"),
    ),
    shape("name", Place::Name, Same(b"\\n")),
    shape("events of nothing", Place::Events, Same(b"{},")),
    shape("events that are none", Place::Events, Same(b"1,")),
    shape(
        "smallest events",
        Place::Events,
        Same(br#"{"event":"a","distinct_id":"b"},"#),
    ),
    shape(
        "updates",
        Place::Events,
        Same(br#"{"event":"a","distinct_id":"b","$set":{"a":1}},"#),
    ),
    shape("months", Place::Events, Month),
    shape("keys", Place::Keys, Same(br#"{"token":"KEY"},"#)),
    shape("v1 events", Place::V1, Id),
    shape("v1 events of nothing", Place::V1, Same(b"{},")),
];

impl Shape {
    /// Whether it is of the protocol whose head names the key.
    #[must_use]
    pub fn is_v1(&self) -> bool {
        self.place == Place::V1
    }

    /// So many bytes of it, with this project's key if any, and with so many at its beginning that do not compress.
    #[must_use]
    pub fn text(&self, key: Option<&str>, noise_bytes: usize, bytes: usize) -> Vec<u8> {
        let (before, after) = self.around(key, &noise(noise_bytes));
        let mut text = before.into_bytes();
        let room = bytes.saturating_sub(text.len() + after.len());
        let end = text.len() + room;
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
        match self.place {
            Place::Open => (format!("{{\"api_key\":\"{key}\",{noise}\"x\":"), ""),
            Place::List => (format!("{first}\"x\":["), "1]}}]}"),
            Place::Text => (format!("{first}\"x\":\""), "\"}}]}"),
            Place::Properties => (first, "\"x\":1}}]}"),
            Place::Members => (format!("{head}{event}"), "\"x\":1}]}"),
            Place::Name => (
                format!("{head}{{\"event\":\""),
                "a\",\"distinct_id\":\"b\"}]}",
            ),
            Place::Events => (head, "{\"event\":\"a\",\"distinct_id\":\"b\"}]}"),
            Place::V1 => {
                let last = r#"{"event":"a","distinct_id":"b","uuid":"ffffffff-0000-4000-8000-000000000000"}]}"#;
                (format!("{{{noise}\"batch\":["), last)
            }
            Place::Keys => {
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

/// So many characters that no compressor makes much shorter; the same ones each time.
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
    fn texts_have_their_length_and_their_key_and_mostly_are_json() {
        for shape in &SHAPES {
            let name = shape.name;
            let text = shape.text(Some("phc_a"), 100, 200_000);
            assert!((200_000..201_000).contains(&text.len()), "{name}");
            let has_key = text.windows(5).any(|part| part == b"phc_a");
            assert_eq!(has_key, !shape.is_v1(), "{name}");
            let text = std::str::from_utf8(&text).unwrap_or_default();
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
            let is_odd = ["brackets", "braces", "NaN", "halves"].contains(&name);
            assert_eq!(is_json, !is_odd, "{name}");
        }
    }
}
