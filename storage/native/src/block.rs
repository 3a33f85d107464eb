//! A block, piece by piece, so that it need not be in memory beside the rows it is made of.

use crate::PIECE_BYTES;
use crate::column::{BlockColumn, Column};
use crate::columns::{Columns, decode};
use crate::error::NativeError;
use crate::property::PropertyPlan;
use crate::sort::Order;
use millrace_rows::rowbinary::put_varint;
use std::fmt;

/// Rows of `events` as one block of ClickHouse's Native format, in the order of the table.
pub struct NativeBlock<R> {
    rows: R,
    columns: Columns,
    order: Order,
    /// The columns, each with the bytes before its values.
    heads: Vec<(BlockColumn, Vec<u8>)>,
    pieces: Vec<Piece>,
}

/// Values of one column, with its head if they are the first.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Index of the column in the block.
    column: usize,
    /// First row, in the order of the block.
    from: usize,
    /// Row behind the last one.
    to: usize,
    bytes: usize,
}

impl<R: AsRef<[u8]>> NativeBlock<R> {
    /// Makes a block of rows that are encoded as the insert target says. Beside the rows it needs
    /// some 100 bytes of memory for each, a third of it only for now.
    ///
    /// # Errors
    /// If the bytes are no such rows, or not fit for a block. They can be sent as they are.
    pub fn of(insert_target: &str, rows: R) -> Result<Self, NativeError> {
        Self::with_properties(insert_target, rows, &PropertyPlan::default())
    }

    /// Makes a block like [`NativeBlock::of`], with the property columns of the projects that have
    /// rows in it behind the others.
    ///
    /// # Errors
    /// As [`NativeBlock::of`].
    pub fn with_properties(
        insert_target: &str,
        rows: R,
        plan: &PropertyPlan,
    ) -> Result<Self, NativeError> {
        let list = Column::list(insert_target).ok_or(NativeError::UnknownColumns)?;
        let (columns, keys) = decode(&list, rows.as_ref(), plan)?;
        let order = Order::of(keys);
        let heads = heads(&list, &columns, &order.rows);
        let pieces = pieces(&heads, &columns, &order);
        Ok(Self {
            rows,
            columns,
            order,
            heads,
            pieces,
        })
    }

    /// Returns true if two rows have equal keys in the table's order: it keeps only one of them.
    #[must_use]
    pub const fn has_equal_keys(&self) -> bool {
        self.order.has_equal_keys
    }

    /// Names of the property columns, which an insert names behind those of its target.
    pub fn property_names(&self) -> impl Iterator<Item = &str> {
        self.columns.extracted().names()
    }

    /// Number of rows.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.order.rows.len()
    }

    /// Bytes of all pieces.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes as u64).sum()
    }

    /// Returns a piece of the block by its index, from 0; `None` behind the last. One has
    /// [`PIECE_BYTES`] at most, unless a single cell, a dictionary or the nulls of a column have
    /// more.
    #[must_use]
    pub fn piece(&self, index: usize) -> Option<Vec<u8>> {
        let piece = self.pieces.get(index)?;
        let (column, head) = self.heads.get(piece.column)?;
        let order = self.order.rows.get(piece.from..piece.to)?;
        let mut out = Vec::with_capacity(piece.bytes);
        if piece.from == 0 {
            out.extend_from_slice(head);
        }
        let rows = self.rows.as_ref();
        self.columns.append_values(*column, (rows, order), &mut out);
        Some(out)
    }
}

impl<R> fmt::Debug for NativeBlock<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeBlock")
            .field("rows", &self.order.rows.len())
            .field("has_equal_keys", &self.order.has_equal_keys)
            .finish_non_exhaustive()
    }
}

/// Returns the columns with the bytes before their values. The numbers of columns and rows, with
/// which the block begins, are before the first.
fn heads(list: &[Column], columns: &Columns, order: &[u32]) -> Vec<(BlockColumn, Vec<u8>)> {
    let extracted = columns.extracted().len();
    let mut before = Vec::new();
    put_varint(&mut before, (list.len() + extracted) as u64);
    put_varint(&mut before, order.len() as u64);
    let head = |column: BlockColumn| {
        let mut head = std::mem::take(&mut before);
        head.extend_from_slice(&columns.head(column, order));
        (column, head)
    };
    let own = list.iter().copied().map(BlockColumn::Row);
    let all = own.chain((0..extracted).map(BlockColumn::Property));
    all.map(head).collect()
}

/// Cuts the columns into pieces.
fn pieces(heads: &[(BlockColumn, Vec<u8>)], columns: &Columns, order: &Order) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (nth, (column, head)) in heads.iter().enumerate() {
        let mut piece = Piece {
            column: nth,
            from: 0,
            to: 0,
            bytes: head.len(),
        };
        for &row in &order.rows {
            let bytes = columns.cell_bytes(*column, row);
            if piece.to > piece.from && piece.bytes + bytes > PIECE_BYTES {
                pieces.push(piece);
                piece = Piece {
                    from: piece.to,
                    bytes: 0,
                    ..piece
                };
            }
            piece.to += 1;
            piece.bytes += bytes;
        }
        pieces.push(piece);
    }
    pieces
}
