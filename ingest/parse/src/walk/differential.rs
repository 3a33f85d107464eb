//! Differential tests: three readers of JSON must agree on what is JSON, namely the walk over the
//! SIMD index, the slow path's scan, and serde_json. And both backends of the index must find the
//! same marks.

use super::walk;
use crate::index::Index;
use crate::slow::{self, Repaired};
use crate::span::Document;
use crate::testing::depth;
use proptest::prelude::*;
use serde::de::IgnoredAny;

const DEPTH_MAX: usize = 6;

fn walk_accepts(text: &[u8]) -> bool {
    let (mut index, mut portable) = (Index::default(), Index::portable());
    let is_indexed = index.build(text).is_ok();
    assert_eq!(is_indexed, portable.build(text).is_ok());
    if !is_indexed {
        return false;
    }
    assert_eq!(index.marks(), portable.marks());
    assert_eq!(index.characters(), portable.characters());
    assert_eq!(index.escapes(), portable.escapes());
    walk(text, &index, DEPTH_MAX, 3, &mut Document::default()).is_ok()
}

/// Returns true if the slow path finds nothing to repair and no error.
fn scan_accepts(text: &[u8]) -> bool {
    let mut repaired = Repaired::default();
    slow::repair(text, DEPTH_MAX, &mut repaired).is_ok() && repaired.text == text
}

fn serde_accepts(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    let is_container = text
        .trim_start_matches([' ', '\t', '\n', '\r'])
        .starts_with(['{', '[']);
    is_container && depth(text) <= DEPTH_MAX && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Text that is JSON or nearly so: pieces of it in any order, with long runs so that the edges of
/// SIMD blocks are met.
fn nearly_json() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        " ",
        "\n",
        "\t",
        "\r",
        "\u{b}",
        "\u{c}",
        "\0",
        "\\",
        "\\\\",
        "\\\"",
        "\\u00e9",
        "\\ud83d",
        "\\u12",
        "\\x",
        "true",
        "false",
        "null",
        "nul",
        "0",
        "-1.5e3",
        "1e999",
        "01",
        "1.",
        "-",
        "é",
        "😀",
        "\u{7f}",
        "\"a\"",
        "\"a\":",
        "\"batch\":",
        "\"properties\":{",
        "\"options\":{",
        "[[",
        "{}",
        "[]",
        "[1,2]",
        "{\"a\":1}",
        "\"0123456789012345678901234567890123456789012345678901234567890123\"",
    ]);
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat().into_bytes())
}

/// JSON with one byte changed.
fn broken_json() -> impl Strategy<Value = Vec<u8>> {
    let value = json_value();
    (
        value,
        any::<prop::sample::Index>(),
        any::<u8>(),
        any::<bool>(),
    )
        .prop_map(|(text, at, byte, change)| {
            let mut text = text.into_bytes();
            if change {
                let at = at.index(text.len());
                text[at] = byte;
            }
            text
        })
}

fn json_value() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "1",
        "-0.5e+7",
        "true",
        "null",
        "false",
        "19.99",
        "12345678",
        "\"\"",
        "\"a\\\\\"",
        "\"\\u00e9\\n\"",
        " \"é😀\" ",
        "\"[{,:\"",
    ]);
    leaf.prop_map(str::to_owned)
        .prop_recursive(8, 40, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4)
                    .prop_map(|list| format!("[ {}]", list.join(","))),
                (prop::collection::vec(inner, 0..8), any::<bool>()).prop_map(
                    |(list, is_spaced)| {
                        let (colon, comma) = if is_spaced { (" :", " , ") } else { (":", ",") };
                        let keys = [
                            "event",
                            "properties",
                            "batch",
                            "a\\u0062",
                            "plan",
                            "$os",
                            "$set",
                            "n",
                        ];
                        let members: Vec<_> = list
                            .iter()
                            .zip(keys)
                            .map(|(value, key)| format!("\"{key}\"{colon}{value}"))
                            .collect();
                        format!("{{{}}}", members.join(comma))
                    }
                ),
            ]
        })
}

fn check(text: &[u8]) {
    let shown = String::from_utf8_lossy(text);
    let expected = serde_accepts(text);
    assert_eq!(walk_accepts(text), expected, "walk: {shown:?}");
    assert_eq!(scan_accepts(text), expected, "scan: {shown:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn readers_agree_on_pieces_of_json(text in nearly_json()) {
        check(&text);
    }

    #[test]
    fn readers_agree_on_json_with_a_byte_changed(text in broken_json()) {
        check(&text);
    }
}
