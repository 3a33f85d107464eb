//! Rows that are found wherever bytes begin, and likenesses that are not.

use super::*;
use millrace_rows::{EventRow, ProjectId};
use proptest::prelude::*;
use uuid::Uuid;

const NOVEMBER: i64 = 1_795_132_800_000_000;

fn row<'a>(nth: i64, name: &'a [u8], properties: &'a [&'a [u8]]) -> EventRow<'a> {
    EventRow {
        uuid: Uuid::from_u128(nth as u128 * 0x0f1f_2f3f_4f5f_6f7f_8f9f),
        event: name,
        properties,
        timestamp: Micros(NOVEMBER - nth),
        team_id: ProjectId(1 + nth),
        distinct_id: name,
        created_at: Micros(NOVEMBER + nth),
        historical_migration: nth % 2 == 0,
    }
}

/// Bytes of rows, and the offset of each.
fn encoded(rows: &[EventRow<'_>]) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut starts) = (Vec::new(), Vec::new());
    for row in rows {
        starts.push(bytes.len());
        row.append_to(&mut bytes);
    }
    (bytes, starts)
}

fn search(bytes: &[u8]) -> Search<'_> {
    let month = Month::of(Micros(NOVEMBER));
    Search::new(
        bytes,
        month,
        NOVEMBER - APART_MICROS..=NOVEMBER + APART_MICROS,
    )
}

fn found(bytes: &[u8]) -> Option<Range<usize>> {
    let month = Month::of(Micros(NOVEMBER));
    proven_rows(bytes, month, &[Micros(NOVEMBER + 7_000_000)])
}

#[test]
fn whole_rows_are_found_wherever_the_bytes_begin_and_end() {
    let rows: Vec<_> = (0..5)
        .map(|nth| row(nth, b"opened", &[b"{\"n\":1}"]))
        .collect();
    let (bytes, starts) = encoded(&rows);
    let ends = || starts[1..].iter().copied().chain([bytes.len()]);
    for from in 0..bytes.len() {
        for to in from..=bytes.len() {
            let whole = starts.iter().copied().zip(ends());
            let whole: Vec<_> = whole
                .filter(|(start, end)| from <= *start && *end <= to)
                .collect();
            let all = match whole.as_slice() {
                [(start, _), .., (_, end)] => Some(start - from..end - from),
                // One row alone may be the likeness of one.
                [] | [_] => None,
            };
            assert_eq!(found(&bytes[from..to]), all, "{from}..{to}");
        }
    }
}

#[test]
fn one_row_alone_is_not_proven() {
    for nth in [7_000_000, 7_000_001] {
        let (bytes, _) = encoded(&[row(nth, b"opened", &[b"{}"])]);
        assert_eq!(found(&bytes), None);
    }
}

/// A row of project 256 that has, with the next one of its kind, the likeness of a row of
/// project 1: its name is the end of its id, its time the row's time of receipt, its project
/// the next one's uuid, and its id all of that one's texts.
fn forged(nth: i64) -> EventRow<'static> {
    let wire = [
        0, 0, 0, 0, 0, 0, 0, 37, b'i', b'd', b'i', b'd', b'i', b'd', b'i', b'd',
    ];
    let half = |bytes: &[u8]| {
        let bytes = bytes.iter().rev();
        bytes.fold(0, |all, byte| all << 8 | u64::from(*byte))
    };
    EventRow {
        uuid: Uuid::from_u64_pair(half(&wire[..8]), half(&wire[8..])),
        event: b"an event with a name",
        properties: &[b"{\"a\":1}"],
        timestamp: Micros(NOVEMBER + nth),
        team_id: ProjectId(256),
        distinct_id: b"01234567\x01e\x02{}",
        created_at: Micros(NOVEMBER + nth),
        historical_migration: true,
    }
}

#[test]
fn the_likeness_of_a_row_in_names_and_ids_is_never_taken_for_one() {
    let attack = (0..5).map(forged);
    let honest = (5..8).map(|nth| row(nth, b"opened", &[b"{}"]));
    for count in 0..4 {
        let rows: Vec<_> = attack.clone().chain(honest.clone().take(count)).collect();
        let (bytes, starts) = encoded(&rows);
        let likeness = starts[0] + 16 + 21 + 8 + 8 + 1;
        let mut search = search(&bytes);
        for nth in 0..4 {
            let at = likeness + nth * starts[1];
            assert_eq!(
                search.step(at),
                Some(Step::Row(at + starts[1])),
                "it is well made"
            );
        }
        for from in 0..bytes.len() {
            let Some(range) = found(&bytes[from..]) else {
                continue;
            };
            assert!(starts.contains(&(range.start + from)), "{from}: {range:?}");
        }
    }
}

proptest! {
    #[test]
    fn the_search_finds_whole_rows_in_damaged_bytes_only(
        names in prop::collection::vec(prop::collection::vec(1_u8..0x80, 1..60), 1..8),
        objects in prop::collection::vec("\\{[ -~]{0,80}\\}", 8),
        from in 0_usize..200,
        noise in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let properties: Vec<[&[u8]; 1]> = objects.iter().map(|it| [it.as_bytes()]).collect();
        let rows: Vec<_> = names
            .iter()
            .zip(&properties)
            .zip(0..)
            .map(|((name, properties), nth)| row(nth, name, properties))
            .collect();
        let (mut bytes, starts) = encoded(&rows);
        let end = bytes.len();
        bytes.extend(noise);
        let from = from.min(end);
        if let Some(range) = found(&bytes[from..]) {
            let (start, last) = (range.start + from, range.end + from);
            prop_assert!(last == end || starts.contains(&last));
            // A row whose beginning is cut off may look like another of its project.
            let first = starts.iter().find(|first| **first >= from);
            prop_assert!(starts.contains(&start) || first.is_none_or(|first| start < *first));
        }
    }

    #[test]
    fn no_bytes_are_searched_without_an_end(
        bytes in prop::collection::vec(prop::sample::select(b"{}\x80\xff\x10\x20a".to_vec()), 0..4000),
    ) {
        let _ = found(&bytes);
    }
}
