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

mod row;
#[cfg(test)]
mod tests;

use millrace_rows::{Micros, Month};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

/// Longest time between the receipt of two rows of one section: a group is committed at once.
const APART_MICROS: i64 = 3_600_000_000;
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
    /// Steps that were found, by offset.
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
}
