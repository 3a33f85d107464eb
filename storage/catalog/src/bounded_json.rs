//! Reading of JSON from outside (clients, files of customers, other servers) within bounds. No I/O.
//!
//! serde_json's own reader of a [`Value`] is not for bytes from outside. An object whose first name
//! is the marker of its `RawValue` is replaced by the JSON in its text, which is read with a new
//! limit on depth: such objects in one another overflow the stack, and that ends the process. A
//! `Value` that holds the marker does the same when a type is deserialized from it. So [`parse`]
//! refuses the marker at each place, and no value that it returns has it. Rows of earlier versions
//! may have it: [`stored`] leaves it out.

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Most values of a text that is small by its purpose, as a body of the API or a plugin's manifest.
/// The largest valid body, a bulk invite to 100 projects for each of 20 people, has some 6 000. The
/// costliest values are objects with one member: 10 000 values then take less than 4 MiB.
pub const VALUES_MAX: usize = 10_000;
/// Beginning of the names that serde_json treats as markers.
const MARKER: &str = "$serde_json::private::";

/// Reason why a text was not read.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The text has more values than allowed.
    #[error("it has more than {0} values (texts, numbers, lists, objects)")]
    TooManyValues(usize),
    /// The text is no JSON, nests more than 127 levels deep or has a name that is reserved.
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
}

/// Parses JSON of at most `values_max` values: each text, number, boolean, null, list and object is
/// one.
///
/// # Errors
///
/// The text is no JSON, is nested too deeply, has too many values or a reserved name.
pub fn parse(text: &[u8], values_max: usize) -> Result<Value, JsonError> {
    let mut budget = Budget {
        left: values_max,
        is_exceeded: false,
        is_stored: false,
    };
    // Its limit on depth holds for all of the text, as nothing here starts another one.
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let parsed = Bounded(&mut budget)
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    parsed.map_err(|error| {
        if budget.is_exceeded {
            JsonError::TooManyValues(values_max)
        } else {
            JsonError::Malformed(error)
        }
    })
}

/// Reads JSON of a stored row, of any number of values. Members with a reserved name, which earlier
/// versions stored, are left out with their values: nobody could read the row otherwise.
///
/// # Errors
///
/// The deserializer's; so no text with the depth of a body fails.
pub(crate) fn stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    let mut budget = Budget {
        left: usize::MAX,
        is_exceeded: false,
        is_stored: true,
    };
    Bounded(&mut budget).deserialize(deserializer)
}

/// Number of values that may still come.
struct Budget {
    left: usize,
    is_exceeded: bool,
    /// True for a stored row, false for a text from outside.
    is_stored: bool,
}

/// Reader of a value, and of all values in it.
struct Bounded<'b>(&'b mut Budget);

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let Some(left) = self.0.left.checked_sub(1) else {
            self.0.is_exceeded = true;
            return Err(de::Error::custom("too many values"));
        };
        self.0.left = left;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Bounded(&mut *self.0))? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if name.starts_with(MARKER) {
                if self.0.is_stored {
                    members.next_value::<IgnoredAny>()?;
                    continue;
                }
                let reason = format!("names that begin with {MARKER} are reserved");
                return Err(de::Error::custom(reason));
            }
            object.insert(name, members.next_value_seed(Bounded(&mut *self.0))?);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::nested_markers;
    use serde_json::json;

    /// Stack of a worker of tokio.
    const STACK_BYTES: usize = 2 << 20;

    #[test]
    fn markers_of_serde_json_are_refused_at_each_place() {
        let table = [
            nested_markers(1, 0),
            nested_markers(1, 120),
            nested_markers(30, 0),
            nested_markers(30, 120),
            format!(r#"{{"a":0,"{MARKER}RawValue":"0"}}"#),
            format!(r#"{{"a":[{{"{MARKER}Number":"0"}}]}}"#),
            r#"{"\u0024serde_json::private::RawValue":"0"}"#.to_owned(),
        ];
        for text in table {
            let error = parse(text.as_bytes(), VALUES_MAX).unwrap_err().to_string();
            assert!(error.contains("are reserved at line 1 column"), "{error}");
        }
        let harmless = json!({"a": "$serde_json::private::RawValue", "RawValue": {"$serde": 0}});
        let read = parse(harmless.to_string().as_bytes(), VALUES_MAX).unwrap();
        assert_eq!(read, harmless);
    }

    #[test]
    fn markers_in_stored_rows_are_left_out_at_each_place() {
        let read = |text: &str| stored(&mut serde_json::Deserializer::from_str(text));
        let table = [
            (nested_markers(1, 0), json!({})),
            (nested_markers(30, 0), json!({})),
            (format!(r#"{{"{MARKER}RawValue":"no JSON"}}"#), json!({})),
            (
                format!(r#"{{"{MARKER}RawValue":[1],"a":2}}"#),
                json!({"a": 2}),
            ),
            (
                format!(r#"[{{"a":{{"{MARKER}Number":{{}},"b":null}}}}]"#),
                json!([{"a": {"b": null}}]),
            ),
            ("[1, 0.5, \"a\"]".to_owned(), json!([1, 0.5, "a"])),
        ];
        for (text, expected) in table {
            assert_eq!(read(&text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn no_text_overflows_the_stack_of_a_worker() {
        let run = || {
            let lists = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            let objects =
                |depth: usize| format!("{}0{}", "{\"\":".repeat(depth), "}".repeat(depth));
            for (text, is_read) in [
                (nested_markers(200, 120), false),
                (lists(127), true),
                (lists(128), false),
                (objects(127), true),
                (objects(128), false),
                ("[".repeat(1 << 20), false),
                ("{\"\":".repeat(200_000), false),
            ] {
                let shown: String = text.chars().take(20).collect();
                assert_eq!(
                    parse(text.as_bytes(), VALUES_MAX).is_ok(),
                    is_read,
                    "{shown}"
                );
            }
        };
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        thread.spawn(run).unwrap().join().unwrap();
    }

    #[test]
    fn every_nested_value_counts_towards_the_limit() {
        let table = [
            ("0", 1),
            ("[]", 1),
            ("{}", 1),
            (r#"[null, true, "a", 1.5, -1]"#, 6),
            (r#"[{"": 0}, {"": 0}]"#, 5),
            (r#"{"a": 0, "a": 0, "a": 0}"#, 4),
        ];
        for (text, values) in table {
            assert!(parse(text.as_bytes(), values).is_ok(), "{text}");
            let error = parse(text.as_bytes(), values - 1).unwrap_err();
            let is_counted = matches!(error, JsonError::TooManyValues(max) if max == values - 1);
            assert!(is_counted, "{text}: {error}");
        }
    }

    #[test]
    fn all_else_is_read_as_serde_json_reads_it() {
        let table = [
            "null",
            " [1, -1, 18446744073709551615, 1e300, 0.1, -0.0, true, false] ",
            r#"{"b": "\u00e9\ud83d\ude00\n", "a": [{}], "b": {"c": "last"}}"#,
            "\"\u{e9}\"",
            "{",
            "[1,]",
            "{}}",
            "1e999",
            "",
            r#""\ud800""#,
            r#"{"\ud800": 0}"#,
        ];
        for text in table {
            let theirs = serde_json::from_str::<Value>(text);
            match (parse(text.as_bytes(), VALUES_MAX), theirs) {
                (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{text}"),
                (Err(ours), Err(theirs)) => assert_eq!(ours.to_string(), theirs.to_string()),
                differing => panic!("{text}: {differing:?}"),
            }
        }
        assert!(parse(b"\"\xff\"", VALUES_MAX).is_err(), "no UTF-8");
    }
}
