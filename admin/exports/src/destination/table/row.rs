//! A row as ClickHouse writes it for tables.

use super::COLUMNS_COUNT;
use crate::error::ExportError;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A value as text; `None`: null.
pub(crate) type Cell<'a> = Option<Cow<'a, str>>;

/// One row; its keys are those of the line, and its JSON is as it was sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableRow<'a> {
    #[serde(borrow)]
    uuid: Cow<'a, str>,
    #[serde(borrow)]
    event: Cow<'a, str>,
    #[serde(borrow)]
    properties: Option<&'a RawValue>,
    #[serde(borrow)]
    elements: Option<&'a RawValue>,
    #[serde(borrow)]
    set: Option<&'a RawValue>,
    #[serde(borrow)]
    set_once: Option<&'a RawValue>,
    #[serde(borrow)]
    distinct_id: Cow<'a, str>,
    team_id: i64,
    ip: Option<Cow<'a, str>>,
    site_url: Option<Cow<'a, str>>,
    #[serde(borrow)]
    timestamp: Cow<'a, str>,
}

impl<'a> TableRow<'a> {
    /// Reads a line that can be stored.
    pub(crate) fn read(line: &'a str) -> Result<Self, ExportError> {
        serde_json::from_str(line).map_err(|_| {
            // The row is the customer's, but a log is no place for it.
            ExportError::hopeless(
                "A row has other columns than a table of events: without a query of its own, \
                 an export to tables always has the right ones.",
            )
        })
    }

    /// The values, in the order of the columns.
    pub(crate) fn into_cells(self) -> [Cell<'a>; COLUMNS_COUNT] {
        let json = |raw: Option<&'a RawValue>| raw.map(|raw| Cow::Borrowed(raw.get()));
        [
            Some(self.uuid),
            Some(self.event),
            json(self.properties),
            json(self.elements),
            json(self.set),
            json(self.set_once),
            Some(self.distinct_id),
            Some(Cow::Owned(self.team_id.to_string())),
            self.ip,
            self.site_url,
            Some(self.timestamp),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::TableRow;

    const LINE: &str = r#"{"uuid":"u","event":"a\"b","properties":{"x": [1, "\\u0000"]},
        "elements":null,"set":{"a":1},"set_once":null,"distinct_id":"d","team_id":7,
        "ip":"1.2.3.4","site_url":null,"timestamp":"2026-11-20T14:00:00.000001Z"}"#;

    #[test]
    fn values_come_in_the_order_of_the_columns_and_json_stays_as_it_was() {
        let cells = TableRow::read(LINE).unwrap().into_cells();
        let cells: Vec<_> = cells.iter().map(|cell| cell.as_deref()).collect();
        let expected = [
            Some("u"),
            Some("a\"b"),
            Some(r#"{"x": [1, "\\u0000"]}"#),
            None,
            Some(r#"{"a":1}"#),
            None,
            Some("d"),
            Some("7"),
            Some("1.2.3.4"),
            None,
            Some("2026-11-20T14:00:00.000001Z"),
        ];
        assert_eq!(cells, expected);
    }

    #[test]
    fn other_columns_are_refused_without_a_word_of_the_row() {
        let canary = r#"{"uuid":"canary"}"#;
        let more = LINE.replacen('{', r#"{"canary":1,"#, 1);
        for line in [canary, more.as_str(), "canary", "[]", ""] {
            let error = TableRow::read(line).unwrap_err();
            assert!(!error.message.contains("canary"), "{error}");
        }
    }
}
