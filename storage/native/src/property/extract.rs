//! Property columns of a block.

use super::json::find;
use super::plan::{PathTree, PropertyPlan};
use super::values::{BlockValues, FoundValue, Values};
use millrace_rows::PropertyType;

/// Property columns of rows that are being read.
#[derive(Debug)]
pub(crate) struct Extractor<'p> {
    plan: &'p PropertyPlan,
    /// Values of all columns of the plan.
    values: Vec<Values>,
    /// True for columns of projects that have rows.
    is_filled: Vec<bool>,
    /// Texts that had escapes, without them.
    unescaped: Vec<u8>,
    /// Project of the last row: rows of one often follow one another.
    last: Option<(i64, &'p PathTree)>,
}

/// Property columns of a block.
#[derive(Debug, Default)]
pub(crate) struct Extracted {
    columns: Vec<ExtractedColumn>,
    unescaped: Vec<u8>,
}

#[derive(Debug)]
struct ExtractedColumn {
    name: String,
    kind: PropertyType,
    values: BlockValues,
}

impl<'p> Extractor<'p> {
    /// An extractor for the rows of a block; `None` if there is nothing to look for.
    pub(crate) fn new(plan: &'p PropertyPlan) -> Option<Self> {
        let columns = plan.columns();
        (!plan.is_empty()).then(|| Self {
            plan,
            values: columns
                .iter()
                .map(|column| Values::new(column.kind, column.bytes_max))
                .collect(),
            is_filled: vec![false; columns.len()],
            unescaped: Vec::new(),
            last: None,
        })
    }

    /// Reads the properties of a row, which begin at a position of the rows.
    #[inline]
    pub(crate) fn read(&mut self, (team_id, row): (i64, usize), (text, start): (&[u8], usize)) {
        let tree = self.tree(team_id);
        if tree.columns.is_empty() {
            return;
        }
        let (values, unescaped) = (&mut self.values, &mut self.unescaped);
        find(text, &tree.keys, &mut |column, place| {
            let start = start + place.start;
            if let (Some(values), Some(json)) = (values.get_mut(column), text.get(place)) {
                values.set(row, FoundValue { json, start }, unescaped);
            }
        });
    }

    fn tree(&mut self, team_id: i64) -> &'p PathTree {
        if let Some((last, tree)) = self.last
            && last == team_id
        {
            return tree;
        }
        let tree = self.plan.tree(team_id);
        for column in &tree.columns {
            if let Some(is_filled) = self.is_filled.get_mut(*column) {
                *is_filled = true;
            }
        }
        self.last = Some((team_id, tree));
        tree
    }

    /// Returns the columns of a block with so many rows.
    pub(crate) fn finish(self, rows: usize) -> Extracted {
        let columns = self.plan.columns().iter().zip(self.values);
        let filled = columns.zip(self.is_filled).filter(|(_, filled)| *filled);
        let columns = filled.filter_map(|((column, values), _)| {
            Some(ExtractedColumn {
                name: column.name(),
                kind: column.kind,
                values: values.into_block(rows)?,
            })
        });
        Extracted {
            columns: columns.collect(),
            unescaped: self.unescaped,
        }
    }
}

impl Extracted {
    /// Number of the columns.
    pub(crate) const fn len(&self) -> usize {
        self.columns.len()
    }

    /// Names of the columns, in their order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    /// Name and type of a column.
    pub(crate) fn name_and_type(&self, column: usize) -> (&str, &'static str) {
        let column = self.columns.get(column);
        column.map_or(("", ""), |it| (it.name.as_str(), it.kind.clickhouse_name()))
    }

    /// Appends what a block has of a column before its values.
    pub(crate) fn append_head(&self, column: usize, order: &[u32], out: &mut Vec<u8>) {
        if let Some(column) = self.columns.get(column) {
            column.values.append_head(order, out);
        }
    }

    /// Bytes that a block has of a row in a column.
    #[inline]
    pub(crate) fn cell_bytes(&self, column: usize, row: u32) -> usize {
        let column = self.columns.get(column);
        column.map_or(0, |column| column.values.cell_bytes(row))
    }

    /// Appends the values of a column: those of `order`, which has indexes of `rows`.
    pub(crate) fn append_values(
        &self,
        column: usize,
        (rows, order): (&[u8], &[u32]),
        out: &mut Vec<u8>,
    ) {
        if let Some(column) = self.columns.get(column) {
            let texts = (rows, self.unescaped.as_slice());
            column.values.append_values(texts, order, out);
        }
    }
}
