//! Rows as ClickHouse writes them for tables.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Value as text; `None`: null.
pub(crate) type Cell<'a> = Option<Cow<'a, str>>;

/// Line of an event; its JSON is as it was sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventRow<'a> {
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

/// Line of a distinct id with its person; its JSON is as it was sent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PersonRow<'a> {
    team_id: i64,
    #[serde(borrow)]
    distinct_id: Cow<'a, str>,
    #[serde(borrow)]
    person_id: Cow<'a, str>,
    #[serde(borrow)]
    properties: Option<&'a RawValue>,
    person_distinct_id_version: i64,
    person_version: i64,
    #[serde(borrow)]
    created_at: Cow<'a, str>,
}

/// Reads the values of an event, in the order of the columns.
pub(super) fn of_event(line: &str) -> serde_json::Result<Vec<Cell<'_>>> {
    let row: EventRow<'_> = serde_json::from_str(line)?;
    Ok(vec![
        Some(row.uuid),
        Some(row.event),
        json(row.properties),
        json(row.elements),
        json(row.set),
        json(row.set_once),
        Some(row.distinct_id),
        number(row.team_id),
        row.ip,
        row.site_url,
        Some(row.timestamp),
    ])
}

/// Reads the values of a distinct id with its person, in the order of the columns.
pub(super) fn of_person(line: &str) -> serde_json::Result<Vec<Cell<'_>>> {
    let row: PersonRow<'_> = serde_json::from_str(line)?;
    Ok(vec![
        number(row.team_id),
        Some(row.distinct_id),
        Some(row.person_id),
        json(row.properties),
        number(row.person_distinct_id_version),
        number(row.person_version),
        Some(row.created_at),
    ])
}

fn json(raw: Option<&RawValue>) -> Cell<'_> {
    raw.map(|raw| Cow::Borrowed(raw.get()))
}

fn number<'a>(number: i64) -> Cell<'a> {
    Some(Cow::Owned(number.to_string()))
}

#[cfg(test)]
mod tests {
    use crate::destination::table::{EVENTS, PERSONS};

    const LINE: &str = r#"{"uuid":"u","event":"a\"b","properties":{"x": [1, "\\u0000"]},
        "elements":null,"set":{"a":1},"set_once":null,"distinct_id":"d","team_id":7,
        "ip":"1.2.3.4","site_url":null,"timestamp":"2026-11-20T14:00:00.000001Z"}"#;

    #[test]
    fn values_are_in_the_order_of_the_columns_and_json_is_unchanged() {
        let cells = EVENTS.cells(LINE).unwrap();
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
    fn persons_have_columns_of_their_own() {
        let line = r#"{"team_id":7,"distinct_id":"d","person_id":"p","properties":{"x": 1},
            "person_distinct_id_version":5,"person_version":1795189098000000,
            "created_at":"2026-11-20T14:00:00.000001Z"}"#;
        let cells = PERSONS.cells(line).unwrap();
        let cells: Vec<_> = cells.iter().filter_map(|cell| cell.as_deref()).collect();
        let time = "2026-11-20T14:00:00.000001Z";
        let expected = ["7", "d", "p", r#"{"x": 1}"#, "5", "1795189098000000", time];
        assert_eq!(cells, expected);
        assert!(PERSONS.cells(LINE).is_err());
        assert!(EVENTS.cells(line).is_err());
    }

    #[test]
    fn rows_with_other_columns_are_refused_without_repeating_them() {
        let canary = r#"{"uuid":"canary"}"#;
        let more = LINE.replacen('{', r#"{"canary":1,"#, 1);
        for line in [canary, more.as_str(), "canary", "[]", ""] {
            let error = EVENTS.cells(line).unwrap_err();
            assert!(!error.message.contains("canary"), "{error}");
        }
    }
}
