//! Bodies of requests that a user wrote.
//!
//! A file is sent as it is, but for placeholders, which change from one sending to the next: a
//! server that recognizes events by their uuids would otherwise store them once.
//!
//! | Placeholder | Becomes |
//! |---|---|
//! | `{{uuid}}` | the uuid of an event, of this generator's form |
//! | `{{time}}` | the time of the sending, `2026-11-20T23:21:00.000Z` |
//! | `{{key}}` | the project key |

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest name of a placeholder in bytes, to tell a misspelled one from other text.
const NAME_BYTES_MAX: usize = 16;

/// Body of a file. A result has its path and its number of events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnBody {
    /// Path of the file.
    pub path: PathBuf,
    /// Number of events in the body.
    pub events: u32,
    #[serde(skip)]
    pieces: Arc<[Piece]>,
}

/// Piece of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes that stay as they are.
    Bytes(Vec<u8>),
    /// Placeholder of a uuid.
    Uuid,
    /// Placeholder of a time.
    Time,
    /// Placeholder of the project key.
    Key,
}

impl OwnBody {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, is empty or has an unknown placeholder.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(!bytes.is_empty(), "{} is empty", path.display());
        let pieces = pieces(&bytes).with_context(|| path.display().to_string())?;
        Ok(Self {
            path: path.to_owned(),
            events: events(&bytes),
            pieces: pieces.into(),
        })
    }

    /// Pieces of the body in order.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Returns true if the body has a placeholder of the project key.
    #[must_use]
    pub fn has_key(&self) -> bool {
        self.pieces.contains(&Piece::Key)
    }
}

/// Cuts a body at its placeholders.
fn pieces(body: &[u8]) -> Result<Vec<Piece>> {
    let (mut pieces, mut kept) = (Vec::new(), Vec::new());
    let mut rest = body;
    while let Some((first, behind)) = rest.split_first() {
        let Some((name, after)) = placeholder(rest) else {
            kept.push(*first);
            rest = behind;
            continue;
        };
        let piece = match name {
            "uuid" => Piece::Uuid,
            "time" => Piece::Time,
            "key" => Piece::Key,
            _ => bail!(
                "{{{{{name}}}}} is no placeholder: there are {{{{uuid}}}}, {{{{time}}}} and \
                 {{{{key}}}}"
            ),
        };
        if !kept.is_empty() {
            pieces.push(Piece::Bytes(std::mem::take(&mut kept)));
        }
        pieces.push(piece);
        rest = after;
    }
    if !kept.is_empty() {
        pieces.push(Piece::Bytes(kept));
    }
    Ok(pieces)
}

/// Name of the placeholder that a text begins with, and the text behind it.
fn placeholder(text: &[u8]) -> Option<(&str, &[u8])> {
    let inside = text.strip_prefix(b"{{")?;
    let letters = inside.iter().take_while(|byte| byte.is_ascii_lowercase());
    let (name, behind) = inside.split_at_checked(letters.count())?;
    let after = behind.strip_prefix(b"}}")?;
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len());
    let name = std::str::from_utf8(name).ok().filter(|_| is_name)?;
    Some((name, after))
}

/// Number of events in a body: those of its list, or its JSON values one after another, or one.
fn events(body: &[u8]) -> u32 {
    let values = serde_json::Deserializer::from_slice(body).into_iter::<Value>();
    let values: Vec<_> = values.collect::<Result<_, _>>().unwrap_or_default();
    let events = match values.as_slice() {
        [value] => {
            let list = value.as_array().or_else(|| value.get("batch")?.as_array());
            list.map_or(1, Vec::len)
        }
        values => values.len(),
    };
    u32::try_from(events).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Piece {
        Piece::Bytes(text.as_bytes().to_vec())
    }

    #[test]
    fn a_body_is_cut_at_its_placeholders() {
        for (text, expected) in [
            ("{}", vec![bytes("{}")]),
            ("{{uuid}}", vec![Piece::Uuid]),
            (
                "{\"a\":\"{{key}}\",\"b\":\"{{uuid}} {{time}}\"}",
                vec![
                    bytes("{\"a\":\""),
                    Piece::Key,
                    bytes("\",\"b\":\""),
                    Piece::Uuid,
                    bytes(" "),
                    Piece::Time,
                    bytes("\"}"),
                ],
            ),
            ("{{{key}}}", vec![bytes("{"), Piece::Key, bytes("}")]),
            (
                "{{ uuid }} {{}} {{uuid}",
                vec![bytes("{{ uuid }} {{}} {{uuid}")],
            ),
        ] {
            assert_eq!(pieces(text.as_bytes()).unwrap(), expected, "{text}");
        }
        let error = pieces(b"{{uid}}").unwrap_err().to_string();
        assert!(error.starts_with("{{uid}} is no placeholder: there are {{uuid}}"));
    }

    #[test]
    fn events_of_a_body_are_counted() {
        for (text, expected) in [
            ("{\"event\":\"e\"}", 1),
            ("[{},{},{}]", 3),
            ("{\"batch\":[{},{}]}", 2),
            ("{\"batch\":\"{{uuid}}\"}", 1),
            ("[]", 1),
            ("{\"a\":1}\n{\"a\":\"{{uuid}}\"}\n", 2),
            ("a,b\n1,2\n", 1),
            ("", 1),
        ] {
            assert_eq!(events(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_file_is_read_with_its_path_in_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("body");
        std::fs::write(&path, b"[{\"api_key\":\"{{key}}\"},\xff]").unwrap();
        let body = OwnBody::read(&path).unwrap();
        assert!(body.has_key());
        assert_eq!((body.events, body.pieces().len()), (1, 3));
        let json = serde_json::to_string(&body).unwrap();
        assert!(!json.contains("api_key"), "{json}");
        for content in ["", "{{unknown}}"] {
            std::fs::write(&path, content).unwrap();
            let error = format!("{:#}", OwnBody::read(&path).unwrap_err());
            assert!(error.contains("body"), "{error}");
        }
        assert!(OwnBody::read(dir.path()).is_err());
    }
}
