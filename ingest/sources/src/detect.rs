//! Detects the format of a file.

use crate::Format;
use crate::json::{self, Object};
use crate::mapping::SNOWPLOW_COLUMNS;

/// Members by which a JSON record's format is detected, the most specific first; all of a row must
/// be present.
const MEMBERS: [(&[&str], Format); 7] = [
    (
        &["event_name", "event_timestamp", "event_params"],
        Format::GoogleAnalytics,
    ),
    (&["event_type", "amplitude_id"], Format::Amplitude),
    (&["messageId", "type", "rudderId"], Format::Rudderstack),
    (&["messageId", "type"], Format::Segment),
    (
        &["team_id", "uuid", "event", "distinct_id"],
        Format::Clickhouse,
    ),
    (&["batch"], Format::Captured),
    (&["event"], Format::Captured),
];

impl Format {
    /// Detects the format of a file by its name and its first decompressed bytes, which must
    /// contain the whole first record.
    #[must_use]
    pub fn detect(name: &str, beginning: &[u8]) -> Option<Self> {
        if beginning.starts_with(b"PAR1") {
            return Some(Self::Parquet);
        }
        let beginning = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning);
        let beginning = from_first_line(beginning);
        match beginning.trim_ascii_start().first() {
            Some(b'{' | b'[') => by_members(beginning.trim_ascii_start()),
            Some(_) => by_columns(name, beginning),
            None => by_name(name),
        }
    }
}

/// Skips blank lines, but not white space at the beginning of the first other line: a tab there is
/// an empty column.
fn from_first_line(text: &[u8]) -> &[u8] {
    let blank = text.len() - text.trim_ascii_start().len();
    let line = memchr::memrchr(b'\n', text.get(..blank).unwrap_or_default());
    text.get(line.map_or(0, |end| end + 1)..)
        .unwrap_or_default()
}

/// Detects the format by the members of the first record, which may be truncated.
fn by_members(beginning: &[u8]) -> Option<Format> {
    let beginning = beginning
        .strip_prefix(b"[")
        .unwrap_or(beginning)
        .trim_ascii_start();
    let line = beginning
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let first: Object<'_> = json::read(line)
        .or_else(|_| json::read_first(beginning))
        .ok()?;
    let is_mixpanel = first.has("event") && first.object("properties").has("time");
    if is_mixpanel && !first.has("distinct_id") && !first.has("timestamp") {
        return Some(Format::Mixpanel);
    }
    let found = MEMBERS
        .iter()
        .find(|(members, _)| members.iter().all(|member| first.has(member)));
    found.map(|(_, format)| *format)
}

/// Detects the format by the columns of the first line.
fn by_columns(name: &str, beginning: &[u8]) -> Option<Format> {
    let line = beginning
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let tabs = memchr::memchr_iter(b'\t', line).count();
    if tabs + 1 == SNOWPLOW_COLUMNS {
        return Some(Format::Snowplow);
    }
    let is_header = line
        .iter()
        .any(|byte| matches!(byte, b',' | b';' | b'\t' | b'|'));
    let is_text = std::str::from_utf8(line).is_ok();
    by_name(name).or_else(|| (is_header && is_text).then_some(Format::Csv))
}

fn by_name(name: &str) -> Option<Format> {
    let name = name.to_ascii_lowercase();
    let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
    match name.rsplit_once('.')?.1 {
        "csv" => Some(Format::Csv),
        "parquet" => Some(Format::Parquet),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_detected(table: &[(&str, Option<Format>)]) {
        for (beginning, expected) in table {
            assert_eq!(
                Format::detect("a", beginning.as_bytes()),
                *expected,
                "{beginning}"
            );
        }
    }

    #[test]
    fn json_formats_are_detected_by_the_members_of_the_first_record() {
        use Format::{Amplitude, Captured, Clickhouse, GoogleAnalytics};
        use Format::{Mixpanel, Rudderstack, Segment};
        let mixpanel = r#"{"event":"e","properties":{"time":1,"distinct_id":"d"}}"#;
        let captured = r#"{"event":"e","distinct_id":"d","properties":{"time":1}}"#;
        let analytics = r#"{"event_name":"e","event_timestamp":"1","event_params":[]}"#;
        let clickhouse =
            r#"{"uuid":"u","event":"e","properties":"{}","team_id":1,"distinct_id":"d"}"#;
        let rudderstack = r#"{"type":"track","messageId":"m","rudderId":"r"}"#;
        assert_detected(&[
            (mixpanel, Some(Mixpanel)),
            (captured, Some(Captured)),
            ("[{\"event\":\"e\",\"properties\":{}},", Some(Captured)),
            ("{\n  \"batch\": [{\"event\": \"e\"}]\n}", Some(Captured)),
            (r#"{"event_type":"e","amplitude_id":1}"#, Some(Amplitude)),
            (r#"{"type":"track","messageId":"m"}"#, Some(Segment)),
            (rudderstack, Some(Rudderstack)),
            (analytics, Some(GoogleAnalytics)),
            (clickhouse, Some(Clickhouse)),
            (r#"{"a":1}"#, None),
            ("hello", None),
        ]);
    }

    #[test]
    fn other_formats_are_detected_by_columns_magic_or_file_name() {
        use Format::{Csv, Parquet, Snowplow};
        let tabs = "\t".repeat(130);
        let rest = &tabs[1..];
        assert_detected(&[
            (&tabs, None),
            (&format!("app{tabs}\nnext"), Some(Snowplow)),
            // Its first column, app_id, may be empty.
            (&format!("\tweb{rest}\nnext"), Some(Snowplow)),
            (&format!(" \t\r\n\tweb{rest}\n"), Some(Snowplow)),
            ("event,distinct_id\n", Some(Csv)),
            ("PAR1\u{15}", Some(Parquet)),
        ]);
        for (name, beginning) in [("a.CSV.gz", "event\n"), ("a.csv", "")] {
            assert_eq!(
                Format::detect(name, beginning.as_bytes()),
                Some(Csv),
                "{name}"
            );
        }
    }
}
