//! JSON read by serde_json: values as written, members in their order.

use millrace_parse::testing::depth;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Kind of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Null,
    True,
    False,
    Number,
    String,
    Array,
    Object,
}

pub fn kind(value: &RawValue) -> Kind {
    match value.get().as_bytes()[0] {
        b'n' => Kind::Null,
        b't' => Kind::True,
        b'f' => Kind::False,
        b'"' => Kind::String,
        b'[' => Kind::Array,
        b'{' => Kind::Object,
        _ => Kind::Number,
    }
}

/// Decodes a JSON string; `None` if it has half a surrogate pair.
pub fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// Members of an object; a name with half a surrogate pair is `None`.
#[derive(Default)]
pub struct Members<'a>(Vec<(Option<String>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Reads the members of a value; none if it is not an object.
    pub fn of(value: Option<&'a RawValue>) -> Self {
        match value {
            Some(value) if kind(value) == Kind::Object => {
                serde_json::from_str(value.get()).expect("raw values are JSON")
            }
            _ => Self::default(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last member of a name.
    pub fn last(&self, name: &str) -> Option<&'a RawValue> {
        let mut members = self.0.iter().rev();
        let found = members.find(|(key, _)| key.as_deref() == Some(name));
        found.map(|(_, value)| *value)
    }

    /// The last member of a name, unless that is `null`.
    pub fn given(&self, name: &str) -> Option<&'a RawValue> {
        self.last(name).filter(|value| kind(value) != Kind::Null)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            members.push((text(key), value));
        }
        Ok(Members(members))
    }
}

/// Text of a body with the contract's repairs; `None` if that is not JSON, not an object or array,
/// or nested deeper than allowed.
pub fn readable(body: &[u8], depth_max: usize) -> Option<Cow<'_, str>> {
    if let Ok(text) = std::str::from_utf8(body)
        && is_readable(text, depth_max)
    {
        return Some(Cow::Borrowed(text));
    }
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let text = String::from_utf8(without_cesu(body)).ok()?;
    let text = without_words(&text);
    is_readable(&text, depth_max).then_some(Cow::Owned(text))
}

fn is_readable(text: &str, depth_max: usize) -> bool {
    let start = text.trim_start_matches([' ', '\t', '\n', '\r']);
    start.starts_with(['{', '['])
        && serde_json::from_str::<&RawValue>(text).is_ok()
        && depth(text) <= depth_max
}

/// Replaces pairs of surrogates that were encoded one by one by the characters they stand for.
fn without_cesu(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = body;
    while let Some((byte, more)) = rest.split_first() {
        if let [
            0xed,
            a @ 0xa0..=0xaf,
            b @ 0x80..=0xbf,
            0xed,
            c @ 0xb0..=0xbf,
            d @ 0x80..=0xbf,
            ..,
        ] = rest
        {
            let unit =
                |high: u8, low: u8| 0xd000 | u16::from(high & 0x3f) << 6 | u16::from(low & 0x3f);
            let pair = [unit(*a, *b), unit(*c, *d)];
            out.extend_from_slice(String::from_utf16(&pair).unwrap().as_bytes());
            rest = &rest[6..];
        } else {
            out.push(*byte);
            rest = more;
        }
    }
    out
}

/// Replaces the words that Python writes for floats that are no numbers by `null`.
fn without_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let (mut in_string, mut escaped) = (false, false);
    while let Some(character) = rest.chars().next() {
        if !in_string
            && let Some(word) = ["NaN", "Infinity", "-Infinity"]
                .iter()
                .find(|word| rest.starts_with(**word))
        {
            out.push_str("null");
            rest = &rest[word.len()..];
            continue;
        }
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = in_string,
            '"' => in_string = !in_string,
            _ => {}
        }
        out.push(character);
        rest = &rest[character.len_utf8()..];
    }
    out
}
