//! What the user of a format may choose: the table `[source]` of a mapping file.

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// How records are read and mapped. Each format looks at what concerns it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// The zone of times that name none, such as `Europe/Berlin`; UTC without. For Mixpanel: the zone of a project
    /// made before 2023, whose export has the project's local time where UTC is expected.
    pub time_zone: Option<String>,
    /// Added to each time, in seconds, for exports that are known to be off.
    pub time_offset_seconds: i64,
    /// Records that name nobody are skipped and counted, not rejected.
    pub skip_without_distinct_id: bool,
    /// Make `$identify` events where the source knows a user, and the device if it does.
    pub identify: bool,
    /// Make `$groupidentify` events where the source knows properties of groups.
    pub groups: bool,
    /// The type of groups whose source has none (Segment, `RudderStack`).
    pub group_type: String,
    /// Mixpanel's group keys: properties whose value names a group of that type.
    pub group_keys: Vec<String>,
    /// Which columns of CSV, Parquet and ClickHouse's rows are what.
    pub columns: Columns,
    /// Between the fields of CSV; found by the header without.
    pub delimiter: Option<char>,
}

/// Names of columns; all others are properties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Columns {
    /// The event's name.
    pub event: String,
    /// A name for all events, for files that have no such column.
    pub event_name: Option<String>,
    /// Whose event it is.
    pub distinct_id: String,
    /// When it happened: ISO 8601, or a number since 1970.
    pub timestamp: String,
    /// The event's uuid.
    pub uuid: String,
    /// A JSON object with more properties.
    pub properties: String,
    /// Whether all of CSV stays text; else numbers, `true` and `false` become what they look like.
    pub texts: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            time_zone: None,
            time_offset_seconds: 0,
            skip_without_distinct_id: false,
            identify: true,
            groups: true,
            group_type: "company".to_owned(),
            group_keys: Vec::new(),
            columns: Columns::default(),
            delimiter: None,
        }
    }
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            event: "event".to_owned(),
            event_name: None,
            distinct_id: "distinct_id".to_owned(),
            timestamp: "timestamp".to_owned(),
            uuid: "uuid".to_owned(),
            properties: "properties".to_owned(),
            texts: false,
        }
    }
}

/// An option that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// No such zone.
    #[error("there is no time zone {0:?}; name one such as Europe/Berlin or America/New_York")]
    TimeZone(String),
    /// A delimiter that is more than one byte, or means something else.
    #[error("{0:?} cannot be between the fields of CSV; use a character of ASCII that is no quote")]
    Delimiter(char),
}

impl Options {
    /// The zone of times that name none.
    pub(crate) fn zone(&self) -> Result<TimeZone, OptionsError> {
        let Some(name) = &self.time_zone else {
            return Ok(TimeZone::UTC);
        };
        TimeZone::get(name).map_err(|_| OptionsError::TimeZone(name.clone()))
    }

    /// The delimiter as a byte.
    pub(crate) fn delimiter(&self) -> Result<Option<u8>, OptionsError> {
        let Some(delimiter) = self.delimiter else {
            return Ok(None);
        };
        let is_usable = delimiter.is_ascii() && !matches!(delimiter, '"' | '\r' | '\n');
        match u8::try_from(delimiter) {
            Ok(byte) if is_usable => Ok(Some(byte)),
            _ => Err(OptionsError::Delimiter(delimiter)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_said() {
        let options = |zone: &str, delimiter| Options {
            time_zone: Some(zone.to_owned()),
            delimiter,
            ..Options::default()
        };
        assert!(options("America/New_York", Some(';')).zone().is_ok());
        assert!(
            options("Mars", None)
                .zone()
                .unwrap_err()
                .to_string()
                .contains("\"Mars\"")
        );
        assert_eq!(options("UTC", Some('\t')).delimiter(), Ok(Some(b'\t')));
        for delimiter in ['"', '\n', '→', 'é'] {
            let refused = options("UTC", Some(delimiter)).delimiter();
            assert_eq!(refused, Err(OptionsError::Delimiter(delimiter)));
        }
    }

    #[test]
    fn a_misspelt_option_is_refused() {
        let read = serde_json::from_str::<Options>;
        assert_eq!(read("{}").unwrap(), Options::default());
        assert!(read(r#"{"timezone": "UTC"}"#).is_err());
        assert!(read(r#"{"columns": {"time": "at"}}"#).is_err());
    }
}
