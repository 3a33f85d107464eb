//! Values that differ from run to run, made alike: ids, times, secrets. Long lists are cut.

use millrace_catalog::UtcTime;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Most items of a list of texts or numbers; of objects there is one.
const ITEMS_MAX: usize = 3;
/// Shortest part of a text that is taken for random, if it has letters and digits.
const RANDOM_CHARS_MIN: usize = 16;
/// Length of a UUID.
const UUID_CHARS: usize = 36;
/// Times by the names of their fields; all others are the last one.
const TIMES: [(&str, &str); 8] = [
    ("data_interval_start", "2026-11-02T09:00:00"),
    ("data_interval_end", "2026-11-02T10:00:00"),
    ("start_at", "2026-11-01T00:00:00"),
    ("end_at", "2026-11-02T00:00:00"),
    ("after", "2026-11-02T00:00:00"),
    ("before", "2026-11-03T00:00:00"),
    ("expires_at", "2026-12-02T09:30:00"),
    ("", "2026-11-02T09:30:00"),
];

/// Values of one example that were met before.
#[derive(Default)]
pub struct Alike {
    uuids: BTreeMap<String, usize>,
}

impl Alike {
    /// A value with all of its items.
    pub fn whole(&mut self, value: &Value) -> Value {
        self.value("", value, usize::MAX)
    }

    /// A value with the first items of its lists.
    pub fn shortened(&mut self, value: &Value) -> Value {
        self.value("", value, ITEMS_MAX)
    }

    fn value(&mut self, name: &str, value: &Value, items_max: usize) -> Value {
        match value {
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| {
                    let value = self.value(name, value, items_max);
                    (name.clone(), value)
                });
                with_own_count(fields.collect())
            }
            Value::Array(items) => {
                let has_objects = items.first().is_some_and(Value::is_object);
                let is_cut = has_objects && items_max < usize::MAX;
                let kept = if is_cut { 1 } else { items_max };
                let items = items.iter().take(kept);
                items
                    .map(|item| self.value(name, item, items_max))
                    .collect()
            }
            Value::String(text) => self.text(name, text).into(),
            Value::Number(number) if is_id(name) && number.as_i64().is_some_and(|id| id > 0) => {
                json!(1)
            }
            other => other.clone(),
        }
    }

    fn text(&mut self, name: &str, text: &str) -> String {
        if text.len() >= 20 && UtcTime::from_rfc3339(text).is_some() {
            return time(name, text);
        }
        for (prefix, value) in [("phx_", "phx_the_new_key"), ("phc_", "phc_the_project_key")] {
            if text.starts_with(prefix) && name != "mask_value" {
                return value.to_owned();
            }
        }
        match name {
            "mask_value" => "phx_...1234".to_owned(),
            "password" => "the new password".to_owned(),
            _ => without_random_parts(&self.without_uuids(text)),
        }
    }

    /// Replaces UUIDs by numbered ones, in the order in which they come.
    fn without_uuids(&mut self, text: &str) -> String {
        let mut written = String::new();
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            let part = rest.get(..UUID_CHARS).filter(|part| part.contains('-'));
            let found = part.filter(|part| Uuid::try_parse(part).is_ok());
            if let Some(uuid) = found {
                let next = self.uuids.len() + 1;
                let number = *self.uuids.entry(uuid.to_owned()).or_insert(next);
                written += &format!("0190a5c8-0000-7000-8000-{number:012}");
                rest = &rest[UUID_CHARS..];
            } else {
                written.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
        written
    }
}

/// A page says how many rows it has, so it says so of those that are left.
fn with_own_count(mut fields: Map<String, Value>) -> Value {
    let rows = fields
        .get("results")
        .and_then(Value::as_array)
        .map(Vec::len);
    if let Some(rows) = rows
        && fields.contains_key("next")
    {
        fields.insert("count".to_owned(), json!(rows));
    }
    fields.into()
}

fn is_id(name: &str) -> bool {
    name == "id" || name == "plugin" || name.ends_with("_id")
}

/// Time of a field, with as many digits behind the seconds as before.
fn time(name: &str, text: &str) -> String {
    let known = TIMES.iter().find(|(field, _)| *field == name);
    let time = known.or(TIMES.last()).unwrap().1;
    let rest = text.get(time.len()..).unwrap_or("Z");
    let rest = rest.replace(|letter: char| letter.is_ascii_digit(), "0");
    format!("{time}{rest}")
}

/// Replaces the parts that have so many letters and digits that they must be random.
fn without_random_parts(text: &str) -> String {
    let is_within = |letter: char| letter.is_ascii_alphanumeric();
    let parts = text
        .split_inclusive(|letter: char| !is_within(letter))
        .map(|part| {
            let word = part.trim_end_matches(|letter: char| !is_within(letter));
            let has_both = word.contains(|letter: char| letter.is_ascii_digit())
                && word.contains(|letter: char| letter.is_ascii_alphabetic());
            match has_both && word.len() >= RANDOM_CHARS_MIN {
                true => format!("0a1b2c3d4e5f6g7h{}", &part[word.len()..]),
                false => part.to_owned(),
            }
        });
    parts.collect()
}

#[test]
fn values_that_differ_from_run_to_run_are_made_alike() {
    let uuids = [
        "3f0c9d0e-6b1f-4c55-9d52-0f3a3ac1a001",
        "7f0c9d0e-6b1f-4c55-9d52-0f3a3ac1a002",
    ];
    let [one, other] = uuids;
    let table = [
        (
            json!({ "id": 71, "team_id": 8, "count": 3 }),
            json!({ "id": 1, "team_id": 1, "count": 3 }),
        ),
        (
            json!({ "a": one, "b": format!("https://x/{other}/{one}") }),
            json!({
                "a": "0190a5c8-0000-7000-8000-000000000001",
                "b": "https://x/0190a5c8-0000-7000-8000-000000000002/\
                      0190a5c8-0000-7000-8000-000000000001",
            }),
        ),
        (
            json!({ "created_at": "2031-01-02T03:04:05.678901Z", "expires_at": "2031-01-02T03:04:05Z" }),
            json!({ "created_at": "2026-11-02T09:30:00.000000Z", "expires_at": "2026-12-02T09:30:00Z" }),
        ),
        (
            json!({ "value": "phx_secret", "token": "u8Hq2mZ0pLk93VbnTq7x.y" }),
            json!({ "value": "phx_the_new_key", "token": "0a1b2c3d4e5f6g7h.y" }),
        ),
        (
            json!({ "count": 2, "next": null, "results": [{ "a": 1 }, { "a": 2 }] }),
            json!({ "count": 1, "next": null, "results": [{ "a": 1 }] }),
        ),
        (json!(["a", "b", "c", "d"]), json!(["a", "b", "c"])),
    ];
    for (value, expected) in table {
        assert_eq!(Alike::default().shortened(&value), expected);
    }
}
