//! Finds rows of events in bytes that begin at any byte of a row.
//!
//! Nothing marks the beginning of a row, and clients choose most of its bytes: the likeness of a
//! row may be in their names and ids. Rows are returned only if they are proven to be rows:
//!
//! - Every row passes [`Search::row_at`]. Its month, its time of receipt and its project have bytes
//!   that no name, id or text of properties can have.
//! - Therefore a row that is cut off at the start, and one that is cut off at the end, cannot hold
//!   the likeness of two rows, one behind the other, between them. So the first whole row begins
//!   before the end of the first two likenesses.
//! - Every row begins where the one before ends, up to the last one, which may be cut off. Of all
//!   likenesses that begin early enough, those that lead elsewhere are none, and where the others
//!   come together is a row.
//!
//! A row whose beginning is cut off may leave the likeness of another row of its own project, which
//! that project's client could have sent as well.

use super::rows::number;
use millrace_rows::{Micros, Month};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

/// Longest time between the receipt of two rows of one section: a group is committed at once.
const APART_MICROS: i64 = 3_600_000_000;
/// Most bytes of an event's name and of a distinct id, of 200 characters each.
const NAME_BYTES_MAX: u64 = 800;
/// Bound of the numbers of projects, which are given out one by one.
const TEAM_ID_MAX: i64 = 1 << 40;
/// Bytes of likenesses that are looked at, as a multiple of the bytes that are searched: in JSON
/// objects of objects it may be ten.
const WORK_TIMES: usize = 32;
/// Bytes that may be looked at however few are searched.
const WORK_BYTES_MIN: usize = 1 << 20;

/// Outcome of reading a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// A row that ends here.
    Row(usize),
    /// The bytes end before the row does.
    Cut,
    /// No row.
    Other,
}

/// Returns the range of the rows that are whole and proven in `bytes`, one behind the other.
/// `month` is theirs, `moments` are times of receipt of rows that were committed with them.
pub fn proven_rows(bytes: &[u8], month: Month, moments: &[Micros]) -> Option<Range<usize>> {
    let first = moments.iter().min()?.0.saturating_sub(APART_MICROS);
    let last = moments.iter().max()?.0.saturating_add(APART_MICROS);
    let mut search = Search::new(bytes, month, first..=last);
    let (heads, are_two) = search.heads()?;
    // One alone proves nothing: an event without a time has its time of receipt twice, and the
    // likeness of a row may end with the first.
    are_two.then(|| search.common(&heads)).flatten()
}

struct Search<'a> {
    bytes: &'a [u8],
    month: Month,
    received: RangeInclusive<i64>,
    /// What was found at an offset.
    steps: BTreeMap<usize, Step>,
    work_left: usize,
}

impl<'a> Search<'a> {
    fn new(bytes: &'a [u8], month: Month, received: RangeInclusive<i64>) -> Self {
        Self {
            bytes,
            month,
            received,
            steps: BTreeMap::new(),
            work_left: bytes.len().saturating_mul(WORK_TIMES).max(WORK_BYTES_MIN),
        }
    }

    /// Finds the likenesses of rows among which the first row is, and returns true beside them if
    /// there are two that follow each other. `None` if that takes too long.
    fn heads(&mut self) -> Option<(Vec<usize>, bool)> {
        let (mut heads, mut bound) = (Vec::new(), None);
        for at in 0..self.bytes.len() {
            if bound.is_some_and(|bound| at > bound) {
                break;
            }
            if !self.may_begin(at) {
                continue;
            }
            let Step::Row(end) = self.look(at)? else {
                continue;
            };
            self.steps.insert(at, Step::Row(end));
            heads.push(at);
            if bound.is_none()
                && let Step::Row(next) = self.step(end)?
            {
                bound = Some(next);
            }
        }
        Some((heads, bound.is_some()))
    }

    /// Returns the rows that all chains have which lead to the end; `None` if there are none.
    fn common(&mut self, heads: &[usize]) -> Option<Range<usize>> {
        let mut walked = BTreeSet::new();
        for head in heads {
            let mut at = *head;
            while walked.insert(at)
                && let Step::Row(end) = self.step(at)?
            {
                at = end;
            }
        }
        let mut leading = BTreeSet::new();
        for (at, step) in self.steps.iter().rev() {
            let leads = match step {
                Step::Row(end) => leading.contains(end),
                Step::Cut => true,
                Step::Other => false,
            };
            if leads {
                leading.insert(*at);
            }
        }
        let ends = heads.iter().filter_map(|head| match self.steps.get(head) {
            Some(Step::Row(end)) => Some(*end),
            _ => None,
        });
        let followers: BTreeSet<usize> = ends.collect();
        let first = |head: &usize| leading.contains(head) && !followers.contains(head);
        let mut open: BTreeSet<usize> = heads.iter().copied().filter(first).collect();
        let start = loop {
            let at = open.pop_first()?;
            if open.is_empty() {
                break at;
            }
            match self.steps.get(&at)? {
                Step::Row(end) => open.insert(*end),
                // Another chain goes on beside this one's end.
                Step::Cut | Step::Other => return None,
            };
        };
        let mut end = start;
        while let Some(Step::Row(next)) = self.steps.get(&end) {
            end = *next;
        }
        (start < end).then_some(start..end)
    }

    /// Returns what is at an offset, and keeps it. `None` if the search takes too long.
    fn step(&mut self, at: usize) -> Option<Step> {
        if let Some(step) = self.steps.get(&at) {
            return Some(*step);
        }
        let step = self.look(at)?;
        self.steps.insert(at, step);
        Some(step)
    }

    /// Returns what is at an offset. `None` if the search takes too long.
    fn look(&mut self, at: usize) -> Option<Step> {
        let step = match self.row_at(at) {
            Ok(end) => Step::Row(end),
            Err(step) => step,
        };
        let looked_at = match step {
            Step::Row(end) => end.saturating_sub(at),
            Step::Cut => self.bytes.len().saturating_sub(at),
            Step::Other => self.texts_bytes(at),
        };
        self.work_left = self.work_left.checked_sub(looked_at)?;
        Some(step)
    }

    /// Returns true if a row may begin at an offset: a cheap test before its bytes are looked at.
    fn may_begin(&self, at: usize) -> bool {
        let properties = || {
            let rest = self.bytes.get(at..)?.get(16..)?;
            let (event_bytes, rest) = length(rest).ok()?;
            let is_name = (1..=NAME_BYTES_MAX).contains(&event_bytes);
            let rest = rest.get(event_bytes as usize..).filter(|_| is_name)?;
            length(rest).ok()?.1.first()
        };
        properties() == Some(&b'{')
    }

    /// Most bytes that were looked at of what is no row: its name, and what there is of its
    /// properties.
    fn texts_bytes(&self, at: usize) -> usize {
        let bytes = || {
            let rest = self.bytes.get(at..)?.get(16..)?;
            let (event_bytes, rest) = length(rest).ok()?;
            let rest = rest.get(usize::try_from(event_bytes).ok()?..)?;
            let (bytes, rest) = length(rest).ok()?;
            Some(event_bytes as usize + rest.len().min(bytes as usize))
        };
        bytes().unwrap_or(1)
    }

    /// Reads the row at an offset, and returns its end.
    fn row_at(&self, at: usize) -> Result<usize, Step> {
        let rest = self.bytes.get(at..).ok_or(Step::Cut)?;
        let (_, rest) = rest.split_at_checked(16).ok_or(Step::Cut)?;
        let rest = name(rest)?;
        let rest = properties(rest)?;
        let (timestamp, rest) = number(rest).ok_or(Step::Cut)?;
        let (team_id, rest) = number(rest).ok_or(Step::Cut)?;
        if Month::of(Micros(timestamp)) != self.month || !(1..TEAM_ID_MAX).contains(&team_id) {
            return Err(Step::Other);
        }
        let rest = name(rest)?;
        let (created_at, rest) = number(rest).ok_or(Step::Cut)?;
        let (is_import, rest) = rest.split_first().ok_or(Step::Cut)?;
        if !self.received.contains(&created_at) || *is_import > 1 {
            return Err(Step::Other);
        }
        Ok(self.bytes.len() - rest.len())
    }
}

/// Reads a length in LEB128.
fn length(bytes: &[u8]) -> Result<(u64, &[u8]), Step> {
    let (mut length, mut rest) = (0_u64, bytes);
    for shift in (0..35).step_by(7) {
        let (&byte, tail) = rest.split_first().ok_or(Step::Cut)?;
        rest = tail;
        length |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok((length, rest));
        }
    }
    Err(Step::Other)
}

/// Splits off what there is of a text of so many bytes.
fn available(bytes: &[u8], length: u64) -> (&[u8], Option<&[u8]>) {
    let whole = usize::try_from(length).ok();
    match whole.and_then(|length| bytes.split_at_checked(length)) {
        Some((text, rest)) => (text, Some(rest)),
        None => (bytes, None),
    }
}

/// Skips an event's name or a distinct id.
fn name(bytes: &[u8]) -> Result<&[u8], Step> {
    let (length, rest) = length(bytes)?;
    if !(1..=NAME_BYTES_MAX).contains(&length) {
        return Err(Step::Other);
    }
    let (text, rest) = available(rest, length);
    if text.contains(&0) || !is_text(text, rest.is_none()) {
        return Err(Step::Other);
    }
    rest.ok_or(Step::Cut)
}

/// Skips the text of an event's properties.
fn properties(bytes: &[u8]) -> Result<&[u8], Step> {
    let (length, rest) = length(bytes)?;
    let (text, rest) = available(rest, length);
    let is_space = |byte: &u8| [b'\t', b'\n', b'\r'].contains(byte);
    let is_object = length >= 2
        && text.first().is_none_or(|byte| *byte == b'{')
        && (rest.is_none() || text.last() == Some(&b'}'))
        && text.iter().all(|byte| *byte >= b' ' || is_space(byte));
    if !is_object || !is_text(text, rest.is_none()) {
        return Err(Step::Other);
    }
    let is_json = || serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok();
    match rest {
        Some(rest) if is_json() => Ok(rest),
        Some(_) => Err(Step::Other),
        None => Err(Step::Cut),
    }
}

fn is_text(bytes: &[u8], is_cut: bool) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => is_cut && error.error_len().is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_rows::{EventRow, TeamId};
    use proptest::prelude::*;
    use uuid::Uuid;

    const NOVEMBER: i64 = 1_795_132_800_000_000;

    fn row<'a>(nth: i64, name: &'a [u8], properties: &'a [&'a [u8]]) -> EventRow<'a> {
        EventRow {
            uuid: Uuid::from_u128(nth as u128 * 0x0f1f_2f3f_4f5f_6f7f_8f9f),
            event: name,
            properties,
            timestamp: Micros(NOVEMBER - nth),
            team_id: TeamId(1 + nth),
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
            team_id: TeamId(256),
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
        fn only_rows_are_found(
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
}
