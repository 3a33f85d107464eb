//! Rows as ClickHouse reads them.

use millrace_rows::{Batch, Micros, Table};
use uuid::Uuid;

/// A row of `events`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub uuid: Uuid,
    pub event: String,
    pub properties: String,
    pub timestamp: Micros,
    pub team_id: i64,
    pub distinct_id: String,
    pub created_at: Micros,
    pub historical: bool,
}

/// What counts of a row of `rejected_events`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    pub index: u32,
    pub code: String,
    pub raw: String,
}

pub fn events(batch: &Batch) -> Vec<Event> {
    rows(batch, Table::Events, |input| Event {
        uuid: {
            let (high, low) = (input.i64() as u64, input.i64() as u64);
            Uuid::from_u64_pair(high, low)
        },
        event: input.string(),
        properties: input.string(),
        timestamp: Micros(input.i64()),
        team_id: input.i64(),
        distinct_id: input.string(),
        created_at: Micros(input.i64()),
        historical: input.bytes(1)[0] == 1,
    })
}

pub fn rejected(batch: &Batch) -> Vec<Rejected> {
    rows(batch, Table::RejectedEvents, |input| {
        input.bytes(16);
        input.string();
        let index = u32::from_le_bytes(input.bytes(4).try_into().unwrap());
        let code = input.string();
        input.string();
        input.string();
        let raw = input.string();
        input.bytes(1);
        Rejected { index, code, raw }
    })
}

fn rows<T>(batch: &Batch, table: Table, mut read: impl FnMut(&mut Input<'_>) -> T) -> Vec<T> {
    let mut rows = Vec::new();
    for group in batch.groups.iter().filter(|group| group.table == table) {
        let mut input = Input(&group.bytes);
        for _ in 0..group.rows {
            rows.push(read(&mut input));
        }
        assert!(input.0.is_empty(), "bytes behind the last row");
    }
    rows
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(count);
        self.0 = tail;
        head
    }

    fn i64(&mut self) -> i64 {
        i64::from_le_bytes(self.bytes(8).try_into().unwrap())
    }

    fn string(&mut self) -> String {
        let (mut len, mut shift) = (0, 0);
        loop {
            let byte = self.bytes(1)[0];
            len |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        String::from_utf8(self.bytes(len).to_vec()).unwrap()
    }
}
