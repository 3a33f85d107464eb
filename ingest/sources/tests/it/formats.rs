//! Rules that hold for every format.

use crate::support::{frames, mapped, plain, stream};
use flate2::Compression;
use flate2::read::{GzDecoder, MultiGzDecoder};
use flate2::write::GzEncoder;
use millrace_sources::testing::generate;
use millrace_sources::{Events, FileError, Format, Framing, Input, Mapping, Options, Position};
use proptest::prelude::*;
use std::collections::HashSet;
use std::io::{Cursor, Write as _};

const EVENTS: u64 = 300;

fn generated(format: Format) -> Vec<u8> {
    let mut file = Vec::new();
    generate(format, EVENTS, 7, &mut file).unwrap();
    file
}

/// Reads a whole file. Returns the numbers of records and events, and the codes of all errors.
fn run(format: Format, input: Input) -> Result<(u64, u64, Vec<&'static str>), FileError> {
    let options = Options::default();
    let mut mapping = format.mapping(&options).unwrap();
    let mut framing = format.open(input, Position::default(), &options)?;
    count(&mut *framing, &mut *mapping)
}

fn count(
    framing: &mut dyn Framing,
    mapping: &mut dyn Mapping,
) -> Result<(u64, u64, Vec<&'static str>), FileError> {
    let (mut records, mut own, mut codes) = (0, 0, Vec::new());
    let mut events = Events::default();
    while let Some(record) = framing.next()? {
        records += 1;
        events.clear();
        match record.error {
            Some(error) => codes.push(error.code),
            None => codes.extend(
                mapping
                    .map(record.raw, &mut events)
                    .err()
                    .map(|error| error.code),
            ),
        }
        own += events
            .list()
            .iter()
            .filter(|event| !event.generated)
            .count() as u64;
    }
    Ok((records, own, codes))
}

#[test]
fn names_are_unique_and_parse_back() {
    let names: HashSet<_> = Format::ALL.iter().map(|format| format.name()).collect();
    assert_eq!(names.len(), Format::ALL.len());
    for format in Format::ALL {
        assert_eq!(Format::from_name(format.name()), Some(*format));
        assert_eq!(serde_json::to_value(format).unwrap(), format.name());
    }
    assert_eq!(Format::from_name("excel"), None);
}

#[test]
fn the_format_is_detected_and_each_record_is_an_event() {
    for format in Format::ALL {
        let file = generated(*format);
        let detected = Format::detect("export", &file[..file.len().min(64 << 10)]);
        assert_eq!(detected, Some(*format));
        for input in [stream(&file), plain(&file)] {
            assert_eq!(
                run(*format, input).unwrap(),
                (EVENTS, EVENTS, Vec::new()),
                "{format:?}"
            );
        }
    }
}

#[test]
fn an_event_does_not_depend_on_the_starting_position() {
    for format in Format::ALL {
        let file = generated(*format);
        let options = Options::default();
        let whole = frames(*format, &options, &file);
        let own = |raw: &[u8]| {
            let mut events = Events::default();
            format
                .mapping(&options)
                .unwrap()
                .map(raw, &mut events)
                .unwrap();
            // A captured event's ids are its own.
            (*format != Format::Captured).then(|| mapped(&events))
        };
        for index in [1, 150, 299] {
            let at = whole[index].at;
            let mut framing = format.open(stream(&file), at, &options).unwrap();
            let record = framing.next().unwrap().unwrap();
            assert_eq!(
                (record.at, record.raw),
                (at, &*whole[index].raw),
                "{format:?}"
            );
            let (one, other) = (own(record.raw), own(&whole[index].raw));
            assert_eq!(
                one.map(|it| (it.events, it.ids)),
                other.map(|it| (it.events, it.ids))
            );
        }
    }
}

#[test]
fn compressed_files_are_read_and_truncated_ones_are_errors() {
    let gzip = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    for format in Format::ALL {
        let file = generated(*format);
        // Two members, as tools that append write them.
        let (one, other) = file.split_at(file.len() / 3);
        let compressed = [gzip(one), gzip(other)].concat();
        let input = |bytes: &[u8]| {
            Input::Stream(Box::new(MultiGzDecoder::new(Cursor::new(bytes.to_vec()))))
        };
        assert_eq!(
            run(*format, input(&compressed)).unwrap(),
            (EVENTS, EVENTS, Vec::new())
        );
        let cut = &compressed[..compressed.len() - 100];
        assert!(
            matches!(run(*format, input(cut)), Err(FileError::Io(_))),
            "{format:?}"
        );
    }
}

#[test]
fn a_truncated_file_has_one_invalid_record_at_its_end() {
    let textual = Format::ALL
        .iter()
        .filter(|format| **format != Format::Parquet);
    for format in textual {
        let file = generated(*format);
        let (records, own, codes) = run(*format, stream(&file[..file.len() - 60])).unwrap();
        assert_eq!(
            (records, own, codes.len()),
            (EVENTS, EVENTS - 1, 1),
            "{format:?} {codes:?}"
        );
    }
}

#[test]
fn byte_order_marks_and_blank_lines_are_no_events() {
    let textual = Format::ALL
        .iter()
        .filter(|format| **format != Format::Parquet);
    for format in textual {
        let file = String::from_utf8(generated(*format)).unwrap();
        let windows = format!(
            "\u{feff}{}\r\n\r\n",
            file.trim_end_matches('\n').replace('\n', "\r\n")
        );
        assert_eq!(
            run(*format, stream(windows.as_bytes())).unwrap(),
            (EVENTS, EVENTS, Vec::new()),
            "{format:?}"
        );
        for nothing in ["", "\n", "\r\n \n", "\u{feff}"] {
            let (records, own, _) = run(*format, stream(nothing.as_bytes())).unwrap();
            assert_eq!((records, own), (0, 0), "{format:?} {nothing:?}");
        }
    }
}

#[test]
fn invalid_utf8_is_an_error_of_its_record() {
    let textual = Format::ALL
        .iter()
        .filter(|format| !matches!(format, Format::Parquet | Format::Captured));
    for format in textual {
        let file = String::from_utf8(generated(*format)).unwrap();
        let mut broken = file.into_bytes();
        // A letter of Latin-1 in a text in the middle.
        let middle = broken.len() / 2;
        let offset = middle
            + broken[middle..]
                .windows(4)
                .position(|it| it == b"shop" || it == b"user")
                .unwrap();
        broken[offset] = 0xe9;
        let (records, own, codes) = run(*format, stream(&broken)).unwrap();
        assert_eq!(
            (records, own, &*codes),
            (EVENTS, EVENTS - 1, &["invalid_utf8"][..]),
            "{format:?}"
        );
    }
}

proptest! {
    #[test]
    fn a_damaged_file_causes_no_panic_and_the_rest_is_read(
        format in prop::sample::select(Format::ALL),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        compressed: bool,
    ) {
        let mut file = Vec::new();
        generate(format, 5, 3, &mut file).unwrap();
        for (index, byte) in changes {
            let offset = index.index(file.len());
            file[offset] = byte;
        }
        let input = if compressed { Input::Stream(Box::new(GzDecoder::new(Cursor::new(file)))) } else { stream(&file) };
        if let Ok((records, own, codes)) = run(format, input) {
            prop_assert!(own + codes.len() as u64 <= records + 5);
        }
    }

    #[test]
    fn no_record_panics(format in prop::sample::select(Format::ALL), raw in "[\\[\\]{}\":,a1\t\\\\ $]{0,60}") {
        let mut events = Events::default();
        let mut mapping = format.mapping(&Options::default()).unwrap();
        let _ = mapping.map(raw.as_bytes(), &mut events);
    }
}
