//! Joins small row groups of many requests into one section.

use crate::pack::{PackedGroup, SAMPLE_KEYS_MAX, section_header};
use millrace_blocks::Compressor;
use millrace_log::{Section, SectionHeader};
use millrace_rows::{Month, RowGroup, Table};

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
        self.rows.clear();
        self.blocks.clear();
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
