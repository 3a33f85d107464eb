//! Rows of a request, gathered by table and month.

use millrace_rows::{
    Batch, EventRow, Lane, Micros, Month, PersonUpdateRow, RejectedRow, RowGroup, RowKey, Table,
};
use std::collections::BTreeMap;

/// Keys of a group that are kept, at most.
const KEYS_MAX: usize = 8;
/// Buffers kept for reuse, at most, and bytes that they may hold together.
const SPARE_MAX: usize = 1_024;
const SPARE_BYTES_MAX: usize = 16 << 20;
/// Groups that are searched one by one: requests have one or two.
const NEAR_MAX: usize = 8;
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Gathers one request's rows; its buffers are reused.
#[derive(Debug, Default)]
pub struct Rows {
    groups: Vec<RowGroup>,
    /// Index of groups behind the first [`NEAR_MAX`]: there may be as many as rows.
    far: BTreeMap<(Table, Month), usize>,
    /// Stride of each group, a power of two: one row in so many has its key kept.
    strides: Vec<u32>,
    spare: Vec<Vec<u8>>,
    /// Bytes that the spare buffers hold.
    spare_bytes: usize,
    /// Bytes of rows that the next group is expected to get.
    bytes_expected: usize,
    /// Day of the last event and its group: neighbours are mostly of one day.
    last: Option<(i64, usize)>,
}

impl Rows {
    /// Starts with a body of so many bytes; drops rows of one that was refused halfway.
    pub fn start(&mut self, body_bytes: usize) {
        let refused = std::mem::take(&mut self.groups);
        self.recycle(refused.into_iter().map(|group| group.bytes));
        // Most requests are of one month, and rows are hardly longer than their JSON.
        self.bytes_expected = body_bytes;
        self.far.clear();
        self.strides.clear();
        self.last = None;
    }

    /// Appends a row of `events`.
    #[inline]
    pub fn push_event(&mut self, row: &EventRow<'_>) {
        let day = row.timestamp.0.div_euclid(MICROS_PER_DAY);
        let at = match self.last {
            Some((last, at)) if last == day => at,
            _ => {
                let at = self.group(Table::Events, row.timestamp);
                self.last = Some((day, at));
                at
            }
        };
        if let Some(group) = self.groups.get_mut(at) {
            row.append_to(&mut group.bytes);
            note(group, self.strides.get_mut(at), row.key());
        }
    }

    /// Appends a row of `rejected_events`.
    #[cold]
    pub fn push_rejected(&mut self, row: &RejectedRow<'_>) {
        let at = self.group(Table::RejectedEvents, row.received_at);
        if let Some(group) = self.groups.get_mut(at) {
            row.append_to(&mut group.bytes);
            note(group, self.strides.get_mut(at), row.key());
        }
    }

    /// Appends a row of `person_updates`.
    #[inline(never)]
    pub fn push_person_update(&mut self, row: &PersonUpdateRow<'_>) {
        let at = self.group(Table::PersonUpdates, row.created_at);
        if let Some(group) = self.groups.get_mut(at) {
            row.append_to(&mut group.bytes);
            note(group, self.strides.get_mut(at), row.key());
        }
    }

    /// Hands the rows over.
    pub fn finish(&mut self, lane: Lane) -> Batch {
        self.far.clear();
        self.strides.clear();
        self.last = None;
        Batch {
            lane,
            groups: std::mem::take(&mut self.groups),
        }
    }

    /// Takes buffers back.
    pub fn recycle(&mut self, buffers: impl IntoIterator<Item = Vec<u8>>) {
        for buffer in buffers {
            let bytes = self.spare_bytes + buffer.capacity();
            if self.spare.len() < SPARE_MAX && bytes <= SPARE_BYTES_MAX {
                self.spare_bytes = bytes;
                self.spare.push(buffer);
            }
        }
    }

    /// Index of the group for a table and the month of an instant.
    #[cold]
    fn group(&mut self, table: Table, at: Micros) -> usize {
        let month = Month::of(at);
        let mut near = self.groups.iter().take(NEAR_MAX);
        if let Some(at) = near.position(|group| group.table == table && group.month == month) {
            return at;
        }
        let at = self.groups.len();
        if at >= NEAR_MAX {
            let far = *self.far.entry((table, month)).or_insert(at);
            if far < at {
                return far;
            }
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= bytes.capacity();
        bytes.clear();
        bytes.reserve(std::mem::take(&mut self.bytes_expected));
        self.groups.push(RowGroup {
            table,
            month,
            rows: 0,
            bytes,
            keys: Vec::with_capacity(KEYS_MAX),
        });
        self.strides.push(1);
        at
    }
}

/// Counts a row, and keeps its key if it is its turn. Once the keys are full, every other one is
/// dropped and from then on half as many are kept: so the keys are spread over the group however
/// large it becomes.
#[inline]
fn note(group: &mut RowGroup, stride: Option<&mut u32>, key: RowKey) {
    let Some(stride) = stride else { return };
    if group.rows & (*stride - 1) == 0 {
        if group.keys.len() == KEYS_MAX {
            let mut nth = 0;
            group.keys.retain(|_| {
                nth += 1;
                nth % 2 == 1
            });
            *stride *= 2;
        }
        if group.rows & (*stride - 1) == 0 {
            group.keys.push(key);
        }
    }
    group.rows += 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_rows::ProjectId;
    use uuid::Uuid;

    fn push(rows: &mut Rows, number: u128, timestamp: i64) {
        rows.push_event(&EventRow {
            uuid: Uuid::from_u128(number),
            event: b"e",
            properties: &[b"{}"],
            timestamp: Micros(timestamp),
            team_id: ProjectId(1),
            distinct_id: b"d",
            created_at: Micros(0),
            historical_migration: false,
        });
    }

    #[test]
    fn rows_are_grouped_by_month() {
        let mut rows = Rows::default();
        for (number, day) in [0, 30, 31, 1, 59, 58, 0].into_iter().enumerate() {
            push(&mut rows, number as u128, day * MICROS_PER_DAY);
        }
        let batch = rows.finish(Lane::Live);
        let months: Vec<_> = batch.groups.iter().map(|g| (g.month.0, g.rows)).collect();
        assert_eq!(months, [(197_001, 4), (197_002, 2), (197_003, 1)]);
        rows.recycle(batch.groups.into_iter().map(|it| it.bytes));
        assert_eq!(rows.spare.len(), 3);
    }

    #[test]
    fn each_month_has_one_group_however_many_there_are() {
        let mut rows = Rows::default();
        for _ in 0..2 {
            for month in 0..100 {
                push(&mut rows, 0, month * 31 * MICROS_PER_DAY);
            }
            assert_eq!(rows.groups.len(), 100);
        }
        let batch = rows.finish(Lane::Live);
        assert!(batch.groups.iter().all(|group| group.rows == 2));
        assert!(rows.far.is_empty());
    }

    #[test]
    fn keys_are_few_and_spread_over_the_group() {
        for count in [1, 7, 8, 9, 100, 10_000_u128] {
            let mut rows = Rows::default();
            for number in 0..count {
                push(&mut rows, number, 0);
            }
            let batch = rows.finish(Lane::Live);
            let keys: Vec<u128> = batch.groups[0]
                .keys
                .iter()
                .map(|k| k.id.as_u128())
                .collect();
            assert!(keys.len() <= KEYS_MAX && keys[0] == 0, "{keys:?}");
            let last = *keys.last().unwrap();
            assert!(last >= count / 2 || count == 1, "{count}: {keys:?}");
            assert!(
                keys.windows(3).all(|w| w[1] - w[0] == w[2] - w[1]),
                "{keys:?}"
            );
        }
    }
}
