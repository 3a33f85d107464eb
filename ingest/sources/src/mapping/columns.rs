//! Rows of a table: columns by name, those that nobody has named being properties.

use super::bag::{Bag, Given};
use super::{Times, stamp};
use crate::json::{self, Object};
use crate::{Columns, Events, Mapping, Options, OptionsError, RecordError};
use serde_json::value::RawValue;
use std::borrow::Cow;
use uuid::Uuid;

/// Digits that a number keeps wherever it is read; of more, it stays a text.
const DIGITS_MAX: usize = 15;

/// See the module.
pub(crate) struct Rows {
    source: &'static str,
    times: Times,
    skips_nobodys: bool,
    columns: Columns,
    /// Whether all columns are texts, so that what looks like a number is one.
    are_texts: bool,
    /// Other columns that are properties; all without.
    others: Option<&'static [&'static str]>,
}

impl Rows {
    /// Of CSV, where all is text.
    pub(crate) fn of_csv(options: &Options) -> Result<Self, OptionsError> {
        let are_texts = !options.columns.texts;
        Ok(Self {
            are_texts,
            ..Self::of_parquet(options)?
        }
        .from("csv"))
    }

    /// Of Parquet, whose columns have types.
    pub(crate) fn of_parquet(options: &Options) -> Result<Self, OptionsError> {
        Ok(Self {
            source: "parquet",
            times: Times::new(options)?,
            skips_nobodys: options.skip_without_distinct_id,
            columns: options.columns.clone(),
            are_texts: false,
            others: None,
        })
    }

    /// Of an events table in ClickHouse, whose other columns say what was made of the event there.
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

    fn properties<'a>(&self, row: Object<'a>, more: Object<'a>) -> Bag<'a> {
        let columns = &self.columns;
        let named = [
            &columns.event,
            &columns.distinct_id,
            &columns.timestamp,
            &columns.uuid,
            &columns.properties,
        ];
        let mut bag = Bag::default();
        for (name, value) in more.into_members() {
            bag.put(name, Given::Raw(value));
        }
        for (name, value) in row.into_members() {
            if named.iter().any(|named| **named == name) || json::is_null(value) {
                continue;
            }
            match self.others {
                Some(others) if !others.contains(&&*name) || value.get() == "\"\"" => {}
                Some(_) => bag.put_new(format!("${name}"), Given::Raw(value)),
                None if self.are_texts => {
                    if let Some(value) = typed(value) {
                        bag.put(name, value);
                    }
                }
                None => bag.put(name, Given::Raw(value)),
            }
        }
        bag
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
            if self.skips_nobodys {
                events.note("skipped_without_distinct_id");
                return Ok(());
            }
            return Err(missing(
                "missing_distinct_id",
                &columns.distinct_id,
                "or set `skip_without_distinct_id` to leave such rows out",
            ));
        };
        let uuid = row
            .text(&columns.uuid)
            .map(|text| uuid(&text))
            .transpose()?;
        let text = row.get(&columns.properties).map(object_text).transpose()?;
        let more = match text.as_deref() {
            Some(text) => json::read(text.as_bytes()).map_err(|error| error.of("properties"))?,
            None => Object::default(),
        };
        let bag = self.properties(row, more);
        let mut event = events.begin(&name, &distinct_id, at);
        if let Some(uuid) = uuid {
            event.uuid(uuid);
        }
        bag.write(&mut event);
        if !bag.has("analytics_source") && !bag.has("$geoip_disable") {
            stamp(&mut event, self.source);
        }
        event.end();
        Ok(())
    }
}

/// A column of objects, as JSON: an object, or a text of one.
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

/// A text as what it looks like: nothing if it is empty; `true`, `false`, and numbers that are written as a machine
/// writes them and keep all their digits everywhere. What begins with a zero or is longer is somebody's number.
fn typed(value: &RawValue) -> Option<Given<'_>> {
    let Some(text) = json::string(value) else {
        return Some(Given::Raw(value));
    };
    Some(match &*text {
        "" => return None,
        "true" | "True" | "TRUE" => Given::Flag(true),
        "false" | "False" | "FALSE" => Given::Flag(false),
        other if is_plain_number(other) => Given::Number(text),
        _ => Given::Raw(value),
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
    fn only_what_a_machine_writes_is_a_number() {
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
