//! Copy of a request's rows, as far as they are looked at.
//!
//! The copy of a table ends within a row where that is cheaper than to look for its end. An event
//! that is larger than all of the copy is copied whole if it is the first one, so that large events
//! can be seen, too.

use crate::shared::Shared;
use millrace_rows::{Batch, RowGroup, StoredEvent, Table};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of a table's rows that are copied of one request.
const TABLE_BYTES_MAX: usize = 32 << 10;
/// Bytes of a first event that is copied beyond that.
const EVENT_BYTES_MAX: usize = 2 << 20;

/// Copied rows of a request. They count as bytes of the queue until they are dropped.
#[derive(Debug)]
pub struct RowCopy {
    /// Rows of accepted events.
    pub events: Vec<u8>,
    /// Rows of rejected events.
    pub rejected: Vec<u8>,
    /// True if the accepted events are in the order of the request: there is one group of them.
    pub is_in_order: bool,
    shared: Arc<Shared>,
}

impl RowCopy {
    /// Copies the rows of a batch.
    pub fn of(batch: &Batch, shared: &Arc<Shared>) -> Self {
        let mut event_groups = groups(batch, Table::Events);
        let copy = Self {
            events: copied(groups(batch, Table::Events)),
            rejected: copied(groups(batch, Table::RejectedEvents)),
            is_in_order: event_groups.next().is_none() || event_groups.next().is_none(),
            shared: Arc::clone(shared),
        };
        shared
            .queued_bytes
            .fetch_add(copy.bytes(), Ordering::Relaxed);
        copy
    }

    /// Bytes of the copy.
    pub fn bytes(&self) -> usize {
        self.events.len() + self.rejected.len()
    }
}

impl Drop for RowCopy {
    fn drop(&mut self) {
        let bytes = self.bytes();
        self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn groups(batch: &Batch, table: Table) -> impl Iterator<Item = &RowGroup> {
    batch
        .groups
        .iter()
        .filter(move |group| group.table == table)
}

fn copied<'a>(groups: impl Iterator<Item = &'a RowGroup>) -> Vec<u8> {
    let mut copy = Vec::new();
    for group in groups {
        let mut bytes_max = TABLE_BYTES_MAX.saturating_sub(copy.len());
        if copy.is_empty() {
            bytes_max = bytes_max.max(first_event_bytes(group));
        }
        let rows = group.bytes.as_slice();
        let part = rows.get(..bytes_max).unwrap_or(rows);
        copy.extend_from_slice(part);
        if part.len() < rows.len() {
            // The last row may be cut off, so nothing may follow.
            break;
        }
    }
    copy
}

/// Bytes of a group's first row; 0 if it need not be whole, or is too large.
fn first_event_bytes(group: &RowGroup) -> usize {
    if group.table != Table::Events {
        return 0;
    }
    let first = StoredEvent::take(&mut group.bytes.as_slice());
    let bytes = first.map_or(0, |row| row.row_bytes);
    if bytes > EVENT_BYTES_MAX { 0 } else { bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{batch, event_group, rejected_group};

    fn copy(batch: &Batch) -> (RowCopy, Arc<Shared>) {
        let shared = Arc::default();
        (RowCopy::of(batch, &shared), shared)
    }

    #[test]
    fn small_rows_are_copied_whole_and_counted_until_they_are_dropped() {
        let batch = batch(vec![
            event_group(202_611, &["a", "b"]),
            rejected_group(&["{}"]),
        ]);
        let (copy, shared) = copy(&batch);
        assert_eq!(copy.events, batch.groups[0].bytes);
        assert_eq!(copy.rejected, batch.groups[1].bytes);
        assert!(copy.is_in_order);
        let queued = || shared.queued_bytes.load(Ordering::Relaxed);
        assert_eq!(queued(), copy.bytes());
        drop(copy);
        assert_eq!(queued(), 0);
    }

    #[test]
    fn events_of_several_months_are_not_in_order() {
        for (months, expected) in [(0, true), (1, true), (2, false)] {
            let groups = (0..months).map(|month| event_group(202_601 + month, &["a"]));
            let (copy, _) = copy(&batch(groups.collect()));
            assert_eq!(copy.is_in_order, expected, "{months}");
        }
    }

    #[test]
    fn a_copy_ends_within_a_row_unless_that_is_the_first() {
        let small = vec!["name"; 2_000];
        let (cut, _) = copy(&batch(vec![
            event_group(202_601, &small),
            event_group(202_602, &["a"]),
        ]));
        assert_eq!(cut.events.len(), TABLE_BYTES_MAX);
        let long = "n".repeat(TABLE_BYTES_MAX * 2);
        let group = event_group(202_601, &[&long, "b"]);
        let first_bytes = first_event_bytes(&group);
        let (whole, _) = copy(&batch(vec![group]));
        assert_eq!(whole.events.len(), first_bytes);
        let too_long = "n".repeat(EVENT_BYTES_MAX);
        let (none, _) = copy(&batch(vec![event_group(202_601, &[&too_long])]));
        assert_eq!(none.events.len(), TABLE_BYTES_MAX);
        let (raw, _) = copy(&batch(vec![rejected_group(&[&long])]));
        assert_eq!(raw.rejected.len(), TABLE_BYTES_MAX);
    }
}
