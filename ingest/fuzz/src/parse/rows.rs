//! Reads the rows that the parser made.

use millrace_rows::testing::{self, Event};
use millrace_rows::{Batch, Table};

/// Compared columns of a row of `rejected_events`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    pub index: u32,
    pub code: String,
    pub raw: String,
}

pub fn events(batch: &Batch) -> Vec<Event> {
    rows(batch, Table::Events, testing::events)
}

pub fn rejected(batch: &Batch) -> Vec<Rejected> {
    let rows = rows(batch, Table::RejectedEvents, testing::rejected);
    let compared = |row: testing::Rejected| Rejected {
        index: row.index,
        code: row.code,
        raw: row.raw,
    };
    rows.into_iter().map(compared).collect()
}

fn rows<T>(batch: &Batch, table: Table, read: impl Fn(&[u8]) -> Vec<T>) -> Vec<T> {
    let mut rows = Vec::new();
    for group in batch.groups.iter().filter(|group| group.table == table) {
        let of_group = read(&group.bytes);
        assert_eq!(of_group.len() as u64, u64::from(group.rows));
        rows.extend(of_group);
    }
    rows
}
