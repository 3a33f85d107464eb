//! One insert, from the moment it is planned until its rows are settled.

use super::section::{Key, Place, Section};
use millrace_rows::RowKey;
use uuid::Uuid;

/// Keys asked for at most when the outcome of an insert is in doubt.
const SAMPLE_KEYS_MAX: usize = 32;

/// Rows `from..to` of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowRange {
    pub from: u32,
    pub to: u32,
}

/// Rows of one key that go to ClickHouse in one insert: sections that follow one another in the
/// log (among those of the key), or a range of the rows of one section.
#[derive(Clone, Debug)]
pub struct Unit<S> {
    pub key: Key,
    /// Never empty.
    pub sections: Vec<Section<S>>,
    /// Set when a section was cut: then it is the only one.
    pub range: Option<RowRange>,
    /// Rises when the rows are sent again although an earlier token may be spent.
    pub attempt: u32,
    /// Whether an insert under the present token may have been sent before this process began.
    pub in_doubt: bool,
    /// The run of the server in which the insert was (or will be) sent for the first time.
    pub run: Option<Uuid>,
    /// Whether it is a part of an insert that ClickHouse could not read. Such parts get one place
    /// of their own, so that they never keep the others waiting.
    pub is_part: bool,
}

impl<S> Unit<S> {
    pub fn first(&self) -> Option<Place> {
        self.sections.first().map(|section| section.place)
    }

    pub fn last(&self) -> Option<Place> {
        self.sections.last().map(|section| section.place)
    }

    /// Rows of the insert.
    pub fn rows(&self) -> u64 {
        match self.range {
            Some(range) => u64::from(range.to.saturating_sub(range.from)),
            None => self
                .sections
                .iter()
                .map(|section| u64::from(section.rows))
                .sum(),
        }
    }

    /// Bytes of the rows before compression; of a cut section, its share.
    pub fn row_bytes(&self) -> u64 {
        let whole: u64 = self.sections.iter().map(|section| section.row_bytes).sum();
        match (self.range, self.sections.first()) {
            (Some(_), Some(section)) => {
                whole.saturating_mul(self.rows()) / u64::from(section.rows.max(1))
            }
            _ => whole,
        }
    }

    /// The name of the insert. Positions in a log are used once, so the name is, too; `prefix`
    /// tells logs apart.
    pub fn token(&self, prefix: &str) -> String {
        let place = |place: Option<Place>| place.map_or_else(String::new, |it| it.to_string());
        let rows = self
            .range
            .map(|range| format!(".{}..{}", range.from, range.to))
            .unwrap_or_default();
        format!(
            "{prefix}-{}-{}-{}-{}{rows}-{}",
            self.key.table_name(),
            self.key.month,
            place(self.first()),
            place(self.last()),
            self.attempt,
        )
    }

    /// Keys spread over the insert; empty for a cut section, as nobody knows which of its keys
    /// are in the range.
    pub fn sample_keys(&self) -> Vec<RowKey> {
        if self.range.is_some() {
            return Vec::new();
        }
        let keys: Vec<RowKey> = self
            .sections
            .iter()
            .flat_map(|section| section.keys.iter().copied())
            .collect();
        spread(&keys, SAMPLE_KEYS_MAX)
    }
}

/// At most `count_max` of `items`, evenly spread, the first and the last among them.
pub fn spread<T: Copy>(items: &[T], count_max: usize) -> Vec<T> {
    if items.len() <= count_max {
        return items.to_vec();
    }
    let last = items.len() - 1;
    let steps = count_max.saturating_sub(1).max(1);
    (0..count_max)
        .filter_map(|step| items.get(step * last / steps).copied())
        .collect()
}

impl<S: Clone> Unit<S> {
    /// Two units with the same rows, both never sent; `None` when there is but one row.
    pub fn halves(&self) -> Option<[Self; 2]> {
        let half = |sections: &[Section<S>], range| Self {
            key: self.key.clone(),
            sections: sections.to_vec(),
            range,
            attempt: 0,
            in_doubt: false,
            run: None,
            is_part: true,
        };
        if self.sections.len() > 1 {
            let (left, right) = self.sections.split_at(self.sections.len() / 2);
            return Some([half(left, None), half(right, None)]);
        }
        let rows = self.sections.first()?.rows;
        let RowRange { from, to } = self.range.unwrap_or(RowRange { from: 0, to: rows });
        let middle = from + to.saturating_sub(from) / 2;
        let is_cut = from < middle && middle < to;
        is_cut.then(|| {
            [(from, middle), (middle, to)]
                .map(|(from, to)| half(&self.sections, Some(RowRange { from, to })))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_log::Position;
    use millrace_rows::Month;

    fn unit(rows: &[u32]) -> Unit<()> {
        let section = |(index, &rows): (usize, &u32)| Section {
            place: Place {
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
        Unit {
            key: Key {
                insert_target: "events(uuid)".into(),
                month: Month(202_611),
            },
            sections: rows.iter().enumerate().map(section).collect(),
            range: None,
            attempt: 2,
            in_doubt: true,
            run: Some(Uuid::nil()),
            is_part: false,
        }
    }

    #[test]
    fn a_token_names_table_month_range_and_attempt() {
        assert_eq!(
            unit(&[1, 1]).token("n-live"),
            "n-live-events-202611-1:64.0-1:64.1-2"
        );
        let [left, _] = unit(&[10]).halves().unwrap();
        assert_eq!(
            left.token("n-live"),
            "n-live-events-202611-1:64.0-1:64.0.0..5-0"
        );
    }

    #[test]
    fn halves_hold_every_row_once_down_to_single_rows() {
        let mut waiting = vec![unit(&[3, 1, 5])];
        let mut single = 0;
        while let Some(next) = waiting.pop() {
            match next.halves() {
                Some(halves) => {
                    let rows: u64 = halves.iter().map(Unit::rows).sum();
                    assert_eq!(rows, next.rows());
                    assert!(halves.iter().all(|half| !half.in_doubt));
                    waiting.extend(halves);
                }
                None => single += next.rows(),
            }
        }
        assert_eq!(single, 9);
    }

    #[test]
    fn a_sample_is_spread_from_first_to_last() {
        let items: Vec<u32> = (0..100).collect();
        let sample = spread(&items, 32);
        assert_eq!((sample.len(), sample[0], sample[31]), (32, 0, 99));
        assert_eq!(spread(&items[..3], 32), [0, 1, 2]);
    }
}
