//! Mapping of table rows: named columns have a meaning, all others are properties.

use super::properties::{PropertyMap, PropertyValue};
use super::{Times, stamp};
use crate::json::{self, Object};
use crate::{Columns, Events, Mapping, Options, OptionsError, RecordError};
use serde_json::value::RawValue;
use std::borrow::Cow;
use uuid::Uuid;

/// Digits of a number that every reader keeps; a longer one stays a text.
const DIGITS_MAX: usize = 15;

/// Mapping of table rows.
pub(crate) struct Rows {
    source: &'static str,
    times: Times,
    skips_without_distinct_id: bool,
    columns: Columns,
    /// True if all columns are texts, which are then converted to numbers and bools.
    are_texts: bool,
    /// Other columns that are properties; `None` takes all.
    others: Option<&'static [&'static str]>,
}

impl Rows {
    /// Creates the mapping of CSV, whose fields are all texts.
    pub(crate) fn of_csv(options: &Options) -> Result<Self, OptionsError> {
        let are_texts = !options.columns.texts;
        Ok(Self {
            are_texts,
            ..Self::of_parquet(options)?
        }
        .from("csv"))
    }

    /// Creates the mapping of Parquet, whose columns have types.
    pub(crate) fn of_parquet(options: &Options) -> Result<Self, OptionsError> {
        Ok(Self {
            source: "parquet",
            times: Times::new(options)?,
            skips_without_distinct_id: options.skip_without_distinct_id,
            columns: options.columns.clone(),
            are_texts: false,
            others: None,
        })
    }

    /// Creates the mapping of an events table in ClickHouse, whose other columns are derived from
    /// the event.
    pub(crate) fn of_clickhouse(options: &Options) -> Result<Self, OptionsError> {
        Ok(Self {
            others: Some(&["elements_chain"]),
            ..Self::of_parquet(options)?
        }
        .from("clickhouse"))
    }

    fn from(self, source: &'static str) -> Self {
        Self { source, ..self }
    }

    fn event_name<'a>(&'a self, row: &Object<'a>) -> Result<Cow<'a, str>, RecordError> {
        let found = row.text(&self.columns.event);
        let fixed = self.columns.event_name.as_deref().map(Cow::Borrowed);
        found.or(fixed).ok_or_else(|| {
            let name = &self.columns.event;
            missing("missing_event", name, "or name all events by `event_name`")
        })
    }

    fn properties<'a>(&self, row: Object<'a>, more: Object<'a>) -> PropertyMap<'a> {
        let columns = &self.columns;
        let named = [
            &columns.event,
            &columns.distinct_id,
            &columns.timestamp,
            &columns.uuid,
            &columns.properties,
        ];
        let mut map = PropertyMap::default();
        for (name, value) in more.into_members() {
            map.put(name, PropertyValue::Raw(value));
        }
        for (name, value) in row.into_members() {
            if named.iter().any(|named| **named == name) || json::is_null(value) {
                continue;
            }
            match self.others {
                Some(others) if !others.contains(&&*name) || value.get() == "\"\"" => {}
                Some(_) => map.put_new(format!("${name}"), PropertyValue::Raw(value)),
                None if self.are_texts => {
                    if let Some(value) = typed(value) {
                        map.put(name, value);
                    }
                }
                None => map.put(name, PropertyValue::Raw(value)),
            }
        }
        map
    }
}

impl Mapping for Rows {
    fn map(&mut self, raw: &[u8], events: &mut Events) -> Result<(), RecordError> {
        let row: Object<'_> = json::read(raw)?;
        let columns = &self.columns;
        let name = self.event_name(&row)?;
        let time = row.text(&columns.timestamp).ok_or_else(|| {
            missing(
                "missing_timestamp",
                &columns.timestamp,
                "or say which column has the time",
            )
        })?;
        let at = self.times.either("timestamp", &time)?;
        let Some(distinct_id) = row.text(&columns.distinct_id) else {
            if self.skips_without_distinct_id {
                events.note("skipped_without_distinct_id");
                return Ok(());
            }
            return Err(missing(
                "missing_distinct_id",
                &columns.distinct_id,
                "or set `skip_without_distinct_id` to skip such rows",
            ));
        };
        let uuid = row
            .text(&columns.uuid)
            .map(|text| uuid(&text))
            .transpose()?;
        let text = row.get(&columns.properties).map(object_text).transpose()?;
        let more = match text.as_deref() {
            Some(text) => {
                json::read(text.as_bytes()).map_err(|error| error.in_field("properties"))?
            }
            None => Object::default(),
        };
        let map = self.properties(row, more);
        let mut event = events.begin(&name, &distinct_id, at);
        if let Some(uuid) = uuid {
            event.uuid(uuid);
        }
        map.write(&mut event);
        if !map.has("analytics_source") && !map.has("$geoip_disable") {
            stamp(&mut event, self.source);
        }
        event.end();
        Ok(())
    }
}

/// JSON of a column of objects: an object, or a text of one.
fn object_text(value: &RawValue) -> Result<Cow<'_, str>, RecordError> {
    let text = match json::string(value) {
        Some(text) if text.trim().is_empty() => Some("{}".into()),
        Some(text) => Some(text),
        None => value.get().starts_with('{').then(|| value.get().into()),
    };
    text.ok_or_else(|| {
        RecordError::new(
            "invalid_properties",
            Some("properties"),
            "The column of properties holds no JSON object.",
        )
    })
}

fn uuid(text: &str) -> Result<Uuid, RecordError> {
    Uuid::try_parse(text).map_err(|_| {
        RecordError::new(
            "invalid_uuid",
            Some("uuid"),
            "The column of uuids holds something else.",
        )
    })
}

fn missing(code: &'static str, column: &str, or: &str) -> RecordError {
    let column = column.to_owned();
    RecordError {
        code,
        message: format!("The row has nothing in the column `{column}`. Fill it, {or}."),
        field: Some(Cow::Owned(column)),
    }
}

/// Converts a text of CSV: `None` if it is empty; `true`, `false`, and numbers in canonical form.
///
/// A number that begins with a zero or has too many digits stays a text: it may be an id.
fn typed(value: &RawValue) -> Option<PropertyValue<'_>> {
    let Some(text) = json::string(value) else {
        return Some(PropertyValue::Raw(value));
    };
    Some(match &*text {
        "" => return None,
        "true" | "True" | "TRUE" => PropertyValue::Flag(true),
        "false" | "False" | "FALSE" => PropertyValue::Flag(false),
        other if is_plain_number(other) => PropertyValue::Number(text),
        _ => PropertyValue::Raw(value),
    })
}

fn is_plain_number(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let leads_with_zero = whole.len() > 1 && whole.starts_with('0');
    is_digits(whole)
        && is_digits(fraction)
        && !leads_with_zero
        && whole.len() + fraction.len() <= DIGITS_MAX + 1
        && text != "-0"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_canonical_number_is_a_number() {
        let numbers = ["0", "5", "-5", "1.5", "-0.25", "1.10", "123456789012345"];
        for text in numbers {
            assert!(is_plain_number(text), "{text}");
        }
        let texts = [
            "",
            "-",
            "007",
            "+5",
            "1e5",
            ".5",
            "5.",
            "1.2.3",
            "1,5",
            "0x1",
            "-0",
            "NaN",
            " 5",
            "12345678901234567",
            "٣",
        ];
        for text in texts {
            assert!(!is_plain_number(text), "{text}");
        }
    }
}
