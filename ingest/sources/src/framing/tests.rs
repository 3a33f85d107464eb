//! Framings of JSON, compared with the elements that a file was made of.

use super::json;
use crate::{FileError, Framing, Input, Position};
use proptest::prelude::*;
use std::io::{Cursor, Read};

/// Returns a few bytes for each read, so that records lie across reads.
struct Drops(Cursor<Vec<u8>>, usize);

impl Read for Drops {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = buffer.len().min(self.1);
        self.0.read(&mut buffer[..length])
    }
}

fn input(text: &str, drop_bytes: usize) -> Input {
    Input::Stream(Box::new(Drops(
        Cursor::new(text.as_bytes().to_vec()),
        drop_bytes,
    )))
}

type FoundRecords = Vec<(Position, Position, String)>;

fn all(mut framing: Box<dyn Framing>) -> Result<FoundRecords, FileError> {
    let mut found = Vec::new();
    while let Some(record) = framing.next()? {
        assert_eq!(record.error, None);
        let raw = String::from_utf8(record.raw.to_vec()).unwrap();
        found.push((record.at, record.next, raw));
    }
    Ok(found)
}

fn read(text: &str, at: Position, drop_bytes: usize) -> Result<FoundRecords, FileError> {
    all(json(input(text, drop_bytes), at)?)
}

fn raws(text: &str) -> Vec<String> {
    let found = read(text, Position::default(), 7).unwrap();
    found.into_iter().map(|(_, _, raw)| raw).collect()
}

fn element() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("{}".to_owned()),
        Just(r#"{"a":"}],\"\\"}"#.to_owned()),
        Just(r#"{"batch":[{"x":1}],"b":{}}"#.to_owned()),
        "[a-z\u{e9}]{0,40}".prop_map(|text| format!(r#"{{"event":"{text}"}}"#)),
    ]
}

proptest! {
    #[test]
    fn every_record_is_found_from_every_position(
        elements in prop::collection::vec(element(), 0..12),
        separator in prop_oneof![Just(","), Just(" ,\n"), Just("\n,\r\n  ")],
        begin in prop_oneof![Just("["), Just("\u{feff}[ "), Just("{\"api_key\":\"batch\",\"n\":[1],\"batch\":[\n")],
        drop_bytes in 1_usize..60,
    ) {
        let end = if begin.contains('{') { " ], \"sent_at\":null}" } else { "]" };
        let array = format!("{begin}{}{end}\n", elements.join(separator));
        let lines = format!("\u{feff}{}\n", elements.join("\n \r\n"));
        let not_last = lines.trim_end().to_owned();
        let files = if elements.first().is_some_and(|it| it.contains("batch")) {
            vec![array]
        } else {
            vec![array.clone(), format!("{array}{}", array.trim_start_matches('\u{feff}')), lines, not_last]
        };
        for text in files {
            let found = read(&text, Position::default(), drop_bytes).unwrap();
            let expected: Vec<_> = elements.iter().cycle().take(found.len()).cloned().collect();
            prop_assert!(found.len().is_multiple_of(elements.len().max(1)) && found.len() >= elements.len());
            prop_assert_eq!(found.iter().map(|it| it.2.clone()).collect::<Vec<_>>(), expected);
            for (index, (at, next, _)) in found.iter().enumerate() {
                let rest = read(&text, *next, drop_bytes).unwrap();
                prop_assert_eq!(&rest[..], &found[index + 1..]);
                prop_assert_eq!(at.ordinal, index as u64);
            }
        }
    }
}

#[test]
fn arrays_and_lines_are_distinguished_by_the_first_bytes() {
    let table = [
        ("", vec![]),
        ("\n \n", vec![]),
        ("[]", vec![]),
        (r#"{"batch":[]}"#, vec![]),
        (r#"{"batch":[1,2]}{"batch":[3]}"#, vec!["1", "2", "3"]),
        (r#"{"event":"a"}"#, vec![r#"{"event":"a"}"#]),
        ("nonsense\n{}\n", vec!["nonsense", "{}"]),
        (r#"{"batch":"b"}"#, vec![r#"{"batch":"b"}"#]),
    ];
    for (text, expected) in table {
        assert_eq!(raws(text), expected, "{text}");
    }
}

#[test]
fn a_truncated_array_is_a_file_error_and_a_truncated_line_a_record() {
    for text in [
        "[{\"a\":1},",
        "[{\"a\":1",
        r#"{"api_key":"x","batch":[{"a":1}"#,
        "[1] x",
    ] {
        let error = read(text, Position::default(), 100).unwrap_err();
        assert!(matches!(error, FileError::Malformed { .. }), "{text}");
    }
    assert_eq!(raws("{}\n{\"a"), ["{}", "{\"a"]);
}

#[test]
fn a_line_that_is_too_long_is_an_error_and_the_next_is_read() {
    let long = "x".repeat(40 << 20);
    let text = format!("{{}}\n{long}\n{{\"a\":1}}\n");
    let mut framing = json(input(&text, 1 << 20), Position::default()).unwrap();
    assert_eq!(framing.next().unwrap().unwrap().raw, b"{}");
    let record = framing.next().unwrap().unwrap();
    assert_eq!(
        (record.raw.len(), record.error.unwrap().code),
        (64 << 10, "record_too_large")
    );
    assert_eq!(framing.next().unwrap().unwrap().raw, b"{\"a\":1}");
    assert!(framing.next().unwrap().is_none());
}
