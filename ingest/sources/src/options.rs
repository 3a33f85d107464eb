//! Settings of a format: the table `[source]` of a mapping file.

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

/// Settings for reading and mapping records. Each format uses those that concern it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Zone of times without one, such as `Europe/Berlin`; UTC by default. For Mixpanel: the zone
    /// of a project created before 2023, whose export has local times instead of UTC.
    pub time_zone: Option<String>,
    /// Seconds added to each time, for exports that are known to be off.
    pub time_offset_seconds: i64,
    /// True to skip and count records without an id of a person, instead of rejecting them.
    pub skip_without_distinct_id: bool,
    /// True to generate `$identify` events if the source names a user, with the device if it names
    /// one.
    pub identify: bool,
    /// True to generate `$groupidentify` events if the source has properties of groups.
    pub groups: bool,
    /// Type of groups whose source has none (Segment, `RudderStack`).
    pub group_type: String,
    /// Mixpanel's group keys: properties whose value names a group of that type.
    pub group_keys: Vec<String>,
    /// Meaning of the columns of CSV, Parquet and ClickHouse's rows.
    pub columns: Columns,
    /// Delimiter of the fields of CSV; detected by the header by default.
    pub delimiter: Option<char>,
}

/// Names of columns; all others are properties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Columns {
    /// Column of the event's name.
    pub event: String,
    /// Name of all events, for files without such a column.
    pub event_name: Option<String>,
    /// Column of the distinct id.
    pub distinct_id: String,
    /// Column of the time: ISO 8601, or a number since 1970.
    pub timestamp: String,
    /// Column of the event's uuid.
    pub uuid: String,
    /// Column of a JSON object with more properties.
    pub properties: String,
    /// True if all fields of CSV stay texts; otherwise numbers, `true` and `false` are converted.
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

/// An invalid option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The time zone is unknown.
    #[error("there is no time zone {0:?}; name one such as Europe/Berlin or America/New_York")]
    TimeZone(String),
    /// The delimiter has more than one byte, or another meaning.
    #[error(
        "{0:?} cannot be between the fields of CSV; use a character of ASCII that is not a quote"
    )]
    Delimiter(char),
}

impl Options {
    /// Zone of times without one.
    pub(crate) fn zone(&self) -> Result<TimeZone, OptionsError> {
        let Some(name) = &self.time_zone else {
            return Ok(TimeZone::UTC);
        };
        TimeZone::get(name).map_err(|_| OptionsError::TimeZone(name.clone()))
    }

    /// Delimiter as a byte.
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
    fn an_invalid_option_is_refused() {
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
    fn an_unknown_option_is_refused() {
        let read = serde_json::from_str::<Options>;
        assert_eq!(read("{}").unwrap(), Options::default());
        assert!(read(r#"{"timezone": "UTC"}"#).is_err());
        assert!(read(r#"{"columns": {"time": "at"}}"#).is_err());
    }
}
