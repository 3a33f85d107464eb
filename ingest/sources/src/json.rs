//! Lazy JSON for mappings: the members of an object, whose values are parsed when they are used.

use crate::{RecordError, scan};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Most nested objects and arrays in a record. The server accepts 128 with its own around an event,
/// and refuses a whole batch for a deeper one.
const DEPTH_MAX: usize = 120;
/// Most members of an object. They take some eight times their bytes in memory, and the server
/// refuses an event that has as many.
const MEMBERS_MAX: usize = 200_000;
/// Most elements of an array that is read, for the same reason.
const ELEMENTS_MAX: usize = 1_000_000;
/// Initial capacity for members: most objects have fewer.
const MEMBERS_USUAL: usize = 48;

/// Reads a record, or JSON in a field of one.
///
/// # Errors
/// `invalid_utf8`, `invalid_json`, `json_too_deep`; `invalid_record` when it is JSON of another
/// form.
pub(crate) fn read<'a, T: Deserialize<'a>>(raw: &'a [u8]) -> Result<T, RecordError> {
    let text = utf8(raw)?;
    check_depth(raw)?;
    serde_json::from_str(text).map_err(|error| match error.classify() {
        Category::Data => RecordError::new(
            "invalid_record",
            None,
            format!("The record does not have the form of this format: {error}."),
        ),
        Category::Syntax | Category::Eof | Category::Io => RecordError::new(
            "invalid_json",
            None,
            format!("The record is not JSON: {error}."),
        ),
    })
}

/// Reads the first value of a text, whatever follows it.
pub(crate) fn read_first<'a, T: Deserialize<'a>>(raw: &'a [u8]) -> Result<T, RecordError> {
    let end = scan::value_end(raw, 0).unwrap_or(raw.len());
    read(raw.get(..end).unwrap_or_default())
}

/// Checks that a record is UTF-8.
///
/// # Errors
/// `invalid_utf8`.
pub(crate) fn utf8(raw: &[u8]) -> Result<&str, RecordError> {
    simdutf8::basic::from_utf8(raw).map_err(|_| {
        let at = std::str::from_utf8(raw).map_or_else(|error| error.valid_up_to(), str::len);
        RecordError::new(
            "invalid_utf8",
            None,
            format!("The record is not UTF-8 from its byte {at} on. Convert the file to UTF-8."),
        )
    })
}

/// Refuses JSON that is nested too deep. Only a record with that many brackets is scanned.
fn check_depth(raw: &[u8]) -> Result<(), RecordError> {
    let mut brackets = memchr::memchr2_iter(b'{', b'[', raw);
    if brackets.nth(DEPTH_MAX).is_some() && depth(raw) > DEPTH_MAX {
        return Err(RecordError::new(
            "json_too_deep",
            None,
            format!("The record nests more than {DEPTH_MAX} objects and arrays."),
        ));
    }
    Ok(())
}

/// Depth of nested objects and arrays, without brackets in strings.
fn depth(raw: &[u8]) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    let mut in_string = false;
    let mut bytes = raw.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => drop(bytes.next()),
            b'{' | b'[' if !in_string => {
                open += 1;
                most = most.max(open);
            }
            b'}' | b']' if !in_string => open = open.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// Members of an object in their order, with duplicates and nulls.
#[derive(Debug, Default)]
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Object<'a> {
    /// Value of a member: of duplicates the last; `None` for null.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let found = self.0.iter().rev().find(|(other, _)| other == name);
        found
            .map(|(_, value)| *value)
            .filter(|value| !is_null(value))
    }

    /// Returns true if there is such a member, even null.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(other, _)| other == name)
    }

    /// All members.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }

    /// Converts into the list of members.
    pub(crate) fn into_members(self) -> Vec<(Cow<'a, str>, &'a RawValue)> {
        self.0
    }

    /// Value of a member that is a text, trimmed, or the digits of a number; `None` if it is blank.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(text)
    }

    /// Value of a member that is an object; empty if there is none, or it is something else.
    pub(crate) fn object(&self, name: &str) -> Object<'a> {
        self.get(name).map(object).unwrap_or_default()
    }

    /// Returns true if the object has no member.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(MEMBERS_USUAL);
        while let Some(name) = map.next_key_seed(Name)? {
            if members.len() >= MEMBERS_MAX {
                return Err(A::Error::custom(format!(
                    "an object in it has more than {MEMBERS_MAX} members"
                )));
            }
            members.push((name, map.next_value()?));
        }
        Ok(Object(members))
    }
}

/// Reads a member's name, borrowed unless it has escapes.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

/// Returns true if a value is null.
pub(crate) fn is_null(value: &RawValue) -> bool {
    value.get() == "null"
}

/// Reads a text, or a number as its digits, trimmed; `None` if it is blank or something else.
pub(crate) fn text(value: &RawValue) -> Option<Cow<'_, str>> {
    let found = match value.get().as_bytes().first()? {
        b'"' => string(value)?,
        b'-' | b'0'..=b'9' => Cow::Borrowed(value.get()),
        _ => return None,
    };
    let trimmed = found.trim();
    if trimmed.is_empty() {
        return None;
    }
    if trimmed.len() == found.len() {
        return Some(found);
    }
    Some(Cow::Owned(trimmed.to_owned()))
}

/// Reads a text, blank or not; `None` if it is something else or has half of a surrogate pair.
pub(crate) fn string(value: &RawValue) -> Option<Cow<'_, str>> {
    let inner = value.get().strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(value.get()).ok().map(Cow::Owned)
}

/// Reads an object; empty if it is something else.
pub(crate) fn object(value: &RawValue) -> Object<'_> {
    serde_json::from_str(value.get()).unwrap_or_default()
}

/// Reads an array's elements; none if it is something else, or has more than [`ELEMENTS_MAX`].
pub(crate) fn array(value: &RawValue) -> Vec<&RawValue> {
    let read: Result<Array<'_>, _> = serde_json::from_str(value.get());
    read.map(|Array(elements)| elements).unwrap_or_default()
}

struct Array<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Array<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ArrayVisitor)
    }
}

struct ArrayVisitor;

impl<'de> Visitor<'de> for ArrayVisitor {
    type Value = Array<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = sequence.next_element()? {
            if elements.len() >= ELEMENTS_MAX {
                return Err(A::Error::custom("too many elements"));
            }
            elements.push(element);
        }
        Ok(Array(elements))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn members_are_read_unchanged_in_their_order() {
        let object: Object<'_> =
            read(br#"{"a":1.50,"b" : {"c":[1, 2]},"\u0061\"":"x\ny","n":null,"a":"last"}"#)
                .unwrap();
        let members: Vec<_> = object
            .iter()
            .map(|(name, value)| (name, value.get()))
            .collect();
        let expected = [
            ("a", "1.50"),
            ("b", r#"{"c":[1, 2]}"#),
            ("a\"", r#""x\ny""#),
            ("n", "null"),
            ("a", "\"last\""),
        ];
        assert_eq!(members, expected);
        assert_eq!(object.get("a").map(RawValue::get), Some("\"last\""));
        assert_eq!(object.text("a\"").as_deref(), Some("x\ny"));
        assert!(object.get("n").is_none() && object.has("n"));
        assert_eq!(
            object.object("b").get("c").map(|value| array(value).len()),
            Some(2)
        );
        assert!(object.object("a").is_empty());
    }

    #[test]
    fn a_text_is_a_string_or_number_that_is_not_blank() {
        let table = [
            ("\" a b \"", Some("a b")),
            ("12345678901234567890", Some("12345678901234567890")),
            ("-1.5", Some("-1.5")),
            ("\"  \"", None),
            ("\"\"", None),
            ("true", None),
            ("null", None),
            ("[1]", None),
            (r#""\u0065""#, Some("e")),
            (r#""\ud800""#, None),
        ];
        for (json, expected) in table {
            let value: &RawValue = serde_json::from_str(json).unwrap();
            assert_eq!(text(value).as_deref(), expected, "{json}");
        }
    }

    #[test]
    fn an_invalid_record_returns_the_code_of_its_problem() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(120), "]".repeat(120));
        let strings = format!("[\"{}\"]", "[{".repeat(1_000));
        let table: [(&[u8], &str); 8] = [
            (b"", "invalid_json"),
            (b"{\"a\":1", "invalid_json"),
            (b"{\"a\":NaN}", "invalid_json"),
            (b"{\"a\":1} {", "invalid_json"),
            (b"{\"a\":\"\xff\"}", "invalid_utf8"),
            (b"[1]", "invalid_record"),
            (deep.as_bytes(), "json_too_deep"),
            (strings.as_bytes(), "invalid_record"),
        ];
        for (raw, code) in table {
            let refused = read::<Object<'_>>(raw)
                .map(drop)
                .map_err(|error| error.code);
            assert_eq!(refused, Err(code), "{}", raw.escape_ascii());
        }
        let brackets = "[],".repeat(500);
        assert!(read::<Object<'_>>(format!("{{\"a\":[{brackets}1]}}").as_bytes()).is_ok());
    }

    #[test]
    fn too_many_members_are_refused_and_too_many_elements_ignored() {
        let members = |count: usize| {
            let members: Vec<_> = (0..count).map(|n| format!("\"{n}\":0")).collect();
            format!("{{{}}}", members.join(","))
        };
        assert!(read::<Object<'_>>(members(MEMBERS_MAX).as_bytes()).is_ok());
        let too_many = members(MEMBERS_MAX + 1);
        let refused = read::<Object<'_>>(too_many.as_bytes()).map(drop);
        assert_eq!(refused.unwrap_err().code, "invalid_record");
        let elements = |count: usize| {
            let text = format!("[{}0]", "0,".repeat(count - 1));
            array(serde_json::from_str(&text).unwrap()).len()
        };
        assert_eq!(elements(ELEMENTS_MAX), ELEMENTS_MAX);
        assert_eq!(elements(ELEMENTS_MAX + 1), 0);
    }

    proptest! {
        #[test]
        fn a_value_is_accepted_if_serde_json_accepts_it(text in r#"[\[\]{}":,a1\\ -]{0,40}"#) {
            let ours = read::<&RawValue>(text.as_bytes()).is_ok();
            prop_assert_eq!(ours, serde_json::from_str::<&RawValue>(&text).is_ok());
        }
    }
}
