//! Insert batch: the rows of one insert, from planning until they are settled.
//!
//! What is planned, sent, tried again, halved and settled is a batch, and a part is a batch that is
//! left of a halved one. An insert is the statement that one try sends.

use super::section::{InsertKey, Section, SectionPosition};
use millrace_rows::RowKey;
use std::hash::{DefaultHasher, Hash, Hasher};
use uuid::Uuid;

/// Rows `from..to` of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRange {
    pub from: u32,
    pub to: u32,
}

impl RowRange {
    /// Number of rows.
    pub fn rows(self) -> u64 {
        u64::from(self.to.saturating_sub(self.from))
    }

    /// Returns true if the row at a place in the section is among these.
    pub fn contains(self, place: usize) -> bool {
        (self.from as usize..self.to as usize).contains(&place)
    }
}

/// First and last section of a batch in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSpan {
    pub first: SectionPosition,
    pub last: SectionPosition,
}

impl LogSpan {
    /// The span of sections; `None` if there are none.
    pub fn of<S>(sections: &[Section<S>]) -> Option<Self> {
        Some(Self {
            first: sections.first()?.position,
            last: sections.last()?.position,
        })
    }
}

/// Rows of one key that go to ClickHouse in one insert: sections that follow one another in the
/// log (among those of the key), or a range of the rows of one section.
#[derive(Clone, Debug)]
pub struct InsertBatch<S> {
    pub key: InsertKey,
    /// Never empty.
    pub sections: Vec<Section<S>>,
    /// First and last section as they were planned: the token stays, although damage may have taken
    /// them since.
    pub span: LogSpan,
    /// Range of rows, if a section was cut: then it is the only one.
    pub range: Option<RowRange>,
    /// Random number of the process start that gave the token; `None` in a batch of an earlier
    /// version, whose tokens had none.
    pub start_mark: Option<u32>,
    /// Hash of the rows, see [`rows_mark`]; `None` in a batch of an earlier version, whose tokens
    /// had none.
    pub rows_mark: Option<u32>,
    /// Number of the attempt; it rises when the rows are sent again although an earlier token may
    /// be spent.
    pub attempt: u32,
    /// True if an insert under the present token may have been sent before this process began.
    pub in_doubt: bool,
    /// True if the rows are of [suspect sections](Section::is_suspect), or of a batch of which
    /// some were found, and were not looked up yet: each of them may be stored or not.
    pub is_suspect: bool,
    /// Boot id of the server to which the batch was (or will be) sent for the first time.
    pub boot_id: Option<Uuid>,
    /// True for a part of a batch that ClickHouse could not read. Such parts get one permit of
    /// their own, so that they never keep the others waiting.
    pub is_part: bool,
}

/// Hashes the rows of sections, without reading them: of the last section the keys, which have ids
/// and times of receipt. Logs that have this section in common have all before it in common, too.
///
/// A machine that is put back with its memory, or cloned with it, goes on as the same start, with
/// other rows at the same positions.
pub fn rows_mark<S>(sections: &[Section<S>]) -> u32 {
    let mut hasher = DefaultHasher::new();
    for section in sections {
        (section.rows, section.row_bytes).hash(&mut hasher);
    }
    // Tables that this version does not know have no keys.
    let mut keys = sections.iter().rev().map(|section| &section.keys);
    keys.find(|keys| !keys.is_empty()).hash(&mut hasher);
    // Half of the hash, as it is recorded of each batch.
    (hasher.finish() >> 32) as u32
}

impl<S> InsertBatch<S> {
    /// Number of rows of the batch.
    pub fn rows(&self) -> u64 {
        match self.range {
            Some(range) => range.rows(),
            None => self
                .sections
                .iter()
                .map(|section| u64::from(section.rows))
                .sum(),
        }
    }

    /// Bytes of the rows before compression; for a cut section its share.
    pub fn row_bytes(&self) -> u64 {
        let whole: u64 = self.sections.iter().map(|section| section.row_bytes).sum();
        match (self.range, self.sections.first()) {
            (Some(_), Some(section)) => {
                whole.saturating_mul(self.rows()) / u64::from(section.rows.max(1))
            }
            _ => whole,
        }
    }

    /// Token of the batch. Positions in a log are used once, so tokens are unique; `prefix` tells
    /// logs apart, and the mark of the start tells apart copies of one log, which go on from the
    /// same position. The mark of the rows tells apart copies of a process.
    pub fn token(&self, prefix: &str) -> String {
        let rows = self
            .range
            .map(|range| format!(".{}..{}", range.from, range.to))
            .unwrap_or_default();
        let mark = self
            .start_mark
            .map(|mark| format!("-{mark:08x}"))
            .unwrap_or_default();
        let rows_mark = self
            .rows_mark
            .map(|mark| format!("-{mark:08x}"))
            .unwrap_or_default();
        format!(
            "{prefix}-{}-{}{mark}-{}-{}{rows}{rows_mark}-{}",
            self.key.table_name(),
            self.key.month,
            self.span.first,
            self.span.last,
            self.attempt,
        )
    }

    /// Keys that are known without reading the rows; none for a cut section, since its header does
    /// not tell which keys are in the range.
    pub fn known_keys(&self) -> Vec<RowKey> {
        if self.range.is_some() {
            return Vec::new();
        }
        let sections = self.sections.iter();
        sections.flat_map(|it| it.keys.iter().copied()).collect()
    }
}

impl<S: Clone> InsertBatch<S> {
    /// Splits the batch into two that were never sent; `None` when there is but one row. Halves of
    /// a suspect batch are suspect, too.
    pub fn halves(&self) -> Option<[Self; 2]> {
        let half = |sections: &[Section<S>], range| {
            Some(Self {
                key: self.key.clone(),
                sections: sections.to_vec(),
                span: LogSpan::of(sections)?,
                range,
                start_mark: self.start_mark,
                rows_mark: Some(rows_mark(sections)),
                attempt: 0,
                in_doubt: self.is_suspect,
                is_suspect: self.is_suspect,
                boot_id: None,
                is_part: true,
            })
        };
        if self.sections.len() > 1 {
            let (left, right) = self.sections.split_at(self.sections.len() / 2);
            return Some([half(left, None)?, half(right, None)?]);
        }
        let rows = self.sections.first()?.rows;
        let RowRange { from, to } = self.range.unwrap_or(RowRange { from: 0, to: rows });
        let middle = from + to.saturating_sub(from) / 2;
        let is_cut = from < middle && middle < to;
        let part = |from, to| half(&self.sections, Some(RowRange { from, to }));
        is_cut.then(|| Some([part(from, middle)?, part(middle, to)?]))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_log::Position;
    use millrace_rows::{Micros, Month};

    fn batch(rows: &[u32]) -> InsertBatch<()> {
        let section = |(index, &rows): (usize, &u32)| Section {
            position: SectionPosition {
                frame: Position {
                    segment: 1,
                    offset: 64,
                },
                section: index as u32,
            },
            rows,
            row_bytes: u64::from(rows) * 100,
            keys: Vec::new(),
            is_suspect: false,
            source: (),
        };
        let sections: Vec<_> = rows.iter().enumerate().map(section).collect();
        InsertBatch {
            key: InsertKey {
                insert_target: "events(uuid)".into(),
                month: Month(202_611),
            },
            span: LogSpan::of(&sections).unwrap(),
            sections,
            range: None,
            start_mark: Some(0xc0ffee),
            rows_mark: Some(0xbeef),
            attempt: 2,
            in_doubt: true,
            is_suspect: false,
            boot_id: Some(Uuid::nil()),
            is_part: false,
        }
    }

    #[test]
    fn a_token_names_table_month_start_range_rows_and_attempt() {
        assert_eq!(
            batch(&[1, 1]).token("n-live"),
            "n-live-events-202611-00c0ffee-1:64.0-1:64.1-0000beef-2"
        );
        let [left, _] = batch(&[10]).halves().unwrap();
        let mark = rows_mark(&left.sections);
        assert_eq!(
            left.token("n-live"),
            format!("n-live-events-202611-00c0ffee-1:64.0-1:64.0.0..5-{mark:08x}-0")
        );
        let earlier = InsertBatch {
            start_mark: None,
            rows_mark: None,
            ..batch(&[1, 1])
        };
        assert_eq!(
            earlier.token("n-live"),
            "n-live-events-202611-1:64.0-1:64.1-2",
            "an insert that is under way during an upgrade keeps its name"
        );
    }

    #[test]
    fn rows_are_told_apart_by_the_keys_of_the_last_section_that_has_some() {
        let keyed = |ids: &[u128]| {
            let mut sections = batch(&vec![1; ids.len()]).sections;
            for (section, id) in sections.iter_mut().zip(ids) {
                let key = RowKey {
                    id: Uuid::from_u128(*id),
                    received_at: Micros(7),
                    index: None,
                };
                section.keys = vec![key; usize::from(*id > 0)];
            }
            rows_mark(&sections)
        };
        assert_eq!(keyed(&[1, 2]), keyed(&[1, 2]));
        for other in [&[1, 3][..], &[1, 0], &[2], &[1, 2, 0]] {
            assert_ne!(keyed(other), keyed(&[1, 2]), "{other:?}");
        }
        assert_ne!(keyed(&[1, 0]), keyed(&[2, 0]));
        assert_ne!(
            rows_mark(&batch(&[1]).sections),
            rows_mark(&batch(&[2]).sections)
        );
    }

    #[test]
    fn a_token_stays_when_damage_takes_the_ends_of_its_batch() {
        let mut damaged = batch(&[1, 1, 1]);
        let token = damaged.token("n-live");
        damaged.sections.remove(0);
        damaged.sections.pop();
        assert_eq!(damaged.token("n-live"), token);
    }

    #[test]
    fn halves_hold_every_row_once_down_to_single_rows() {
        let mut waiting = vec![batch(&[3, 1, 5])];
        let mut single = 0;
        while let Some(next) = waiting.pop() {
            match next.halves() {
                Some(halves) => {
                    let rows: u64 = halves.iter().map(InsertBatch::rows).sum();
                    assert_eq!(rows, next.rows());
                    assert!(halves.iter().all(|half| !half.in_doubt));
                    waiting.extend(halves);
                }
                None => single += next.rows(),
            }
        }
        assert_eq!(single, 9);
    }
}
