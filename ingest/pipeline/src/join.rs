//! Joins small row groups of many requests into one section.

use crate::pack::{PackedGroup, SAMPLE_KEYS_MAX, section_header};
use millrace_blocks::Compressor;
use millrace_log::{Section, SectionHeader};
use millrace_rows::{Month, RowGroup, Table};

/// Capacity that a buffer keeps when it is used for less than a quarter of what it holds: a large
/// commit group must not leave the thread holding its size for ever, and many in a row must not
/// take new memory each.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// Joins small groups of one table and month into one section.
#[derive(Default)]
pub struct Joiner {
    compressor: Compressor,
    joins: Vec<Join>,
}

struct Join {
    table: Table,
    month: Month,
    rows: Vec<u8>,
    blocks: Vec<u8>,
    header: SectionHeader,
}

impl Joiner {
    /// Returns the sections of a group of requests. The buffers behind them are reused by the next
    /// call.
    pub fn sections<'a>(
        &'a mut self,
        groups: impl Iterator<Item = &'a PackedGroup>,
    ) -> Vec<Section<'a>> {
        self.joins.retain_mut(|join| {
            let used = join.header.rows > 0;
            join.clear();
            used
        });
        let mut sections = Vec::new();
        for group in groups {
            match group {
                PackedGroup::Blocks { header, blocks } => sections.push(Section { header, blocks }),
                PackedGroup::Rows(group) => self.join(group),
            }
        }
        for join in &mut self.joins {
            self.compressor.compress_into(&join.rows, &mut join.blocks);
        }
        let joined = self.joins.iter().filter(|join| join.header.rows > 0);
        sections.extend(joined.map(|join| Section {
            header: &join.header,
            blocks: &join.blocks,
        }));
        sections
    }

    fn join(&mut self, group: &RowGroup) {
        let same = |join: &Join| join.table == group.table && join.month == group.month;
        match self.joins.iter_mut().find(|join| same(join)) {
            Some(join) => join.add(group),
            None => self.joins.push(Join::of(group)),
        }
    }
}

impl Join {
    fn of(group: &RowGroup) -> Self {
        Self {
            table: group.table,
            month: group.month,
            rows: group.bytes.clone(),
            blocks: Vec::new(),
            header: section_header(group),
        }
    }

    fn clear(&mut self) {
        empty(&mut self.rows);
        empty(&mut self.blocks);
        self.header.rows = 0;
        self.header.uncompressed_bytes = 0;
        self.header.keys.clear();
    }

    fn add(&mut self, group: &RowGroup) {
        self.rows.extend_from_slice(&group.bytes);
        self.header.rows += group.rows;
        self.header.uncompressed_bytes += group.bytes.len() as u64;
        let left = SAMPLE_KEYS_MAX.saturating_sub(self.header.keys.len());
        self.header
            .keys
            .extend(group.keys.iter().take(left).map(|key| key.to_bytes()));
    }
}

/// Empties a buffer, and gives memory back that its last use did not need.
fn empty(buffer: &mut Vec<u8>) {
    let used = buffer.len();
    buffer.clear();
    if buffer.capacity() > KEPT_BYTES_MAX && used < buffer.capacity() / 4 {
        buffer.shrink_to(KEPT_BYTES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(count: usize) -> Vec<PackedGroup> {
        let group = || RowGroup {
            table: Table::Events,
            month: Month(202_611),
            rows: 1,
            bytes: vec![0; 60 << 10],
            keys: Vec::new(),
        };
        (0..count).map(|_| PackedGroup::Rows(group())).collect()
    }

    #[test]
    fn the_memory_of_large_groups_is_kept_for_others_and_not_for_small_ones() {
        let mut joiner = Joiner::default();
        let (large, small) = (groups(200), groups(1));
        for (groups, is_large_after) in [
            (&large, true),
            (&large, true),
            // The buffer is looked at when it is used again.
            (&small, true),
            (&small, false),
            (&large, true),
        ] {
            assert_eq!(joiner.sections(groups.iter()).len(), 1);
            let [join] = &joiner.joins[..] else {
                panic!("one table and month");
            };
            assert_eq!(join.rows.capacity() > KEPT_BYTES_MAX, is_large_after);
        }
    }
}
