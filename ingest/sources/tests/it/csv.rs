//! Framing and mapping of CSV.

use crate::support::{Frame, Mapped, frames, frames_from, opened, stream, try_map};
use millrace_sources::{Columns, FileError, Format, Options, Position};
use proptest::prelude::*;
use serde_json::{Value, json};

fn rows(text: &[u8]) -> Vec<Frame> {
    frames(Format::Csv, &Options::default(), text)
}

fn values(text: &str) -> Vec<Value> {
    rows(text.as_bytes())
        .into_iter()
        .map(|row| row.value())
        .collect()
}

#[test]
fn rows_are_objects_by_the_header() {
    let one = [json!({"a": "1", "b": "x"})];
    let table = [
        "a,b\n1,x\n",
        "a,b\r\n1,x\r\n",
        "a,b\n1,x",
        "\u{feff}a,b\n1,x\n",
        "\n\na,b\n\r\n1,x\n\n",
        "\"a\", b \n\"1\",\"x\"\n",
        "a;b\n1;x\n",
        "a\tb\n1\tx\n",
        "a|b\n1|x\n",
    ];
    for text in table {
        assert_eq!(values(text), one, "{text:?}");
    }
    assert_eq!(
        values("a,b\n\"1,2\",\"x\n\"\"y\"\"\"\n"),
        [json!({"a": "1,2", "b": "x\n\"y\""})]
    );
    for empty in ["", "\n", "a,b\n", "a,b"] {
        assert!(values(empty).is_empty(), "{empty:?}");
    }
}

#[test]
fn a_row_has_its_offset_line_and_ordinal() {
    let text = b"a,b\r\n1,\"x\r\ny\"\r\n\r\n2,z\r\n";
    let positions: Vec<_> = rows(text)
        .iter()
        .map(|row| (row.at.offset, row.at.line, row.at.ordinal))
        .collect();
    assert_eq!(positions, [(5, 1, 0), (17, 4, 1)]);
}

#[test]
fn an_invalid_row_is_an_error_and_the_next_is_read() {
    let table: [(&[u8], &str); 4] = [
        (b"a,b\n1\n2,x\n", "wrong_column_count"),
        (b"a,b\n1,2,3\n2,x\n", "wrong_column_count"),
        (b"a,b\n1,\xe9\n2,x\n", "invalid_utf8"),
        (b"a,b\n2,x\n1,\"cut of", "unclosed_quote"),
    ];
    for (text, code) in table {
        let found = rows(text);
        let codes: Vec<_> = found.iter().filter_map(|row| row.error).collect();
        assert_eq!(codes, [code]);
        let sound = found.iter().find(|row| row.error.is_none()).unwrap();
        assert_eq!(sound.value(), json!({"a": "2", "b": "x"}));
    }
}

#[test]
fn a_row_that_is_too_long_is_an_error_and_the_next_is_read() {
    let text = format!("a,b\n1,{}\n2,x\n", "y,".repeat(20 << 20));
    let found = rows(text.as_bytes());
    assert_eq!((found.len(), found[0].error), (2, Some("record_too_large")));
    assert!(found[0].raw.len() < 1 << 20);
    assert_eq!(
        (found[1].value(), found[1].at.line),
        (json!({"a": "2", "b": "x"}), 2)
    );
}

#[test]
fn an_invalid_header_is_an_error_of_the_file() {
    let table: [(&[u8], &str); 3] = [
        (b"\xff\xfea\0,\0", "UTF-16"),
        (b"a,\xe9\n", "UTF-8"),
        (b"a,b,a\n", "Two columns are called \"a\""),
    ];
    for (text, expected) in table {
        let refused = opened(
            Format::Csv,
            &Options::default(),
            stream(text),
            Position::default(),
        );
        let Err(FileError::Malformed { message, .. }) = refused.map(drop) else {
            panic!("{text:?} is taken");
        };
        assert!(message.contains(expected), "{message}");
    }
}

fn mapped(row: Value, options: &Options) -> Mapped {
    try_map(Format::Csv, options, row.to_string().as_bytes()).unwrap()
}

#[test]
fn texts_are_converted_to_the_values_they_look_like() {
    let row = json!({
        "event": "Paid", "distinct_id": "007", "timestamp": "2023-10-15T14:30:00.5+02:00", "amount": "9.90",
        "zip": "01234", "ok": "true", "none": "", "card": "12345678901234567890", "properties": "{\"a\": [1]}"});
    let event = mapped(row.clone(), &Options::default());
    assert_eq!(event.one()["distinct_id"], "007");
    assert_eq!(event.one()["timestamp"], "2023-10-15T12:30:00.500000Z");
    let expected = json!({"amount": 9.9, "zip": "01234", "ok": true, "card": "12345678901234567890", "a": [1]});
    assert_eq!(Value::Object(event.properties()), expected);
    let options = Options {
        columns: Columns {
            texts: true,
            ..Columns::default()
        },
        ..Options::default()
    };
    assert_eq!(mapped(row, &options).properties()["amount"], "9.90");
}

#[test]
fn columns_are_read_by_the_configured_names() {
    let options = Options {
        time_zone: Some("Europe/Berlin".to_owned()),
        columns: Columns {
            event_name: Some("Order".to_owned()),
            distinct_id: "customer".to_owned(),
            timestamp: "at".to_owned(),
            uuid: "id".to_owned(),
            ..Columns::default()
        },
        ..Options::default()
    };
    let uuid = "0191f99b-b499-70c4-9505-90a47f19f05a";
    let table = [
        ("2023-10-15 14:30:00", "2023-10-15T12:30:00Z"),
        ("1697380200123", "2023-10-15T14:30:00.123000Z"),
    ];
    for (at, expected) in table {
        let event = mapped(
            json!({"customer": "c", "at": at, "id": uuid, "event": ""}),
            &options,
        );
        assert_eq!(
            (&event.one()["event"], &event.one()["uuid"]),
            (&json!("Order"), &json!(uuid))
        );
        assert_eq!(event.one()["timestamp"], expected);
    }
    let error = try_map(Format::Csv, &options, b"{\"at\":\"2023-10-15\"}").unwrap_err();
    assert_eq!(
        (error.code, error.field.as_deref()),
        ("missing_distinct_id", Some("customer"))
    );
}

proptest! {
    #[test]
    fn rows_do_not_depend_on_the_starting_position(
        fields in proptest::collection::vec(("[a,\"\n\r é]{0,6}", "[a,\"\n\r é]{1,6}"), 0..12),
        crlf: bool,
    ) {
        let end = if crlf { "\r\n" } else { "\n" };
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let lines = fields.iter().map(|(one, other)| format!("{},{}{end}", quoted(one), quoted(other)));
        let text = format!("x,y{end}{}", lines.collect::<String>());
        let whole = rows(text.as_bytes());
        let expected: Vec<_> = fields.iter().map(|(x, y)| json!({"x": x, "y": y})).collect();
        let read: Vec<_> = whole.iter().map(Frame::value).collect();
        prop_assert_eq!(read, expected);
        for (index, row) in whole.iter().enumerate() {
            let rest = frames_from(Format::Csv, &Options::default(), text.as_bytes(), row.at);
            prop_assert_eq!(&rest, &whole[index..]);
        }
    }

    #[test]
    fn no_bytes_make_the_csv_reader_panic(text in proptest::collection::vec(prop_oneof![Just(b'"'), Just(b','), Just(b'\n'), Just(b'\r'), any::<u8>()], 0..60)) {
        if let Ok(mut framing) = opened(Format::Csv, &Options::default(), stream(&text), Position::default()) {
            while let Ok(Some(_)) = framing.next() {}
        }
    }
}
