//! Rows of a batch as they are sent: as they are in the log, or made a native block.
//!
//! Whole batches of events are made blocks when they are sent for the first time. All others, and
//! rows that no block can be made of, as they are damaged, go as they are: whatever the server
//! refuses of a block it is sent once more, as rows, before it is dead-lettered. So does a block
//! with a property column that the server does not have.

use super::filled_columns::FilledColumns;
use super::insert_batch::InsertBatch;
use super::limits::Limits;
use super::options::InsertFormat;
use super::source::{PIECE_PAUSE, Payload, PayloadError};
use bytes::Bytes;
use millrace_blocks::{Compressor, decompress_into_vec};
use millrace_clickhouse::{Body, BodyFormat, INSERT_BYTES_MAX, INSERT_ROWS_MAX, InsertError};
use millrace_log::{FrameSection, LogHandle};
use millrace_native::{BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, NativeBlock, PIECE_BYTES, PropertyPlan};
use millrace_rows::Table;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

// What fits into a batch fits into a block.
const _: () = assert!(INSERT_ROWS_MAX == BLOCK_ROWS_MAX as u64);
const _: () = assert!(INSERT_BYTES_MAX == BLOCK_BYTES_MAX as u64);

/// Fewest rows of a block. A refused one is halved, which one row cannot be.
const ROWS_MIN: u64 = 2;

/// Rows of a batch, ready to be sent.
#[derive(Debug)]
pub struct SentRows {
    /// The rows as they are in the log.
    pub payload: Payload,
    /// The rows as a block, if they are sent as one.
    native: Option<NativeRows>,
}

#[derive(Debug)]
struct NativeRows {
    keys_differ: bool,
    pieces: Pieces,
    /// Names of the property columns, as an insert lists them.
    more_columns: String,
    filled: FilledColumns,
    plan: Arc<PropertyPlan>,
    /// True once the server did not know a column.
    is_refused: AtomicBool,
}

#[derive(Debug)]
enum Pieces {
    /// Made when they are sent.
    Plain(Box<NativeBlock<Vec<u8>>>),
    /// In ClickHouse's compressed blocks.
    Packed(Vec<Bytes>),
}

impl SentRows {
    /// Prepares the rows of `batch` in a format, or as they are. Blocks.
    ///
    /// # Errors
    /// As [`Payload::of`].
    pub fn of(
        log: &LogHandle,
        batch: &Arc<InsertBatch<FrameSection>>,
        format: InsertFormat,
        filled: &FilledColumns,
    ) -> Result<Self, PayloadError> {
        let payload = Payload::of(log, batch)?;
        let native = NativeRows::of(log, batch, format, filled);
        Ok(Self { payload, native })
    }

    /// The block, if the rows are still sent as one.
    fn native(&self) -> Option<&NativeRows> {
        let native = self.native.as_ref();
        native.filter(|native| !native.is_refused.load(Ordering::Relaxed))
    }
}

impl NativeRows {
    /// Makes a block of a batch; `None` if its rows are to be sent as they are.
    fn of(
        log: &LogHandle,
        batch: &InsertBatch<FrameSection>,
        format: InsertFormat,
        filled: &FilledColumns,
    ) -> Option<Self> {
        let is_compressed = match format {
            InsertFormat::RowBinary => return None,
            InsertFormat::NativePlain => false,
            InsertFormat::NativeLz4 => true,
        };
        if !may_be_block(batch) {
            return None;
        }
        let plan = filled.plan();
        let block = match block_of(log, batch, &plan) {
            Ok(block) => block,
            Err(reason) => {
                // What is damaged is reported when it is sent.
                let rows = batch.rows();
                tracing::debug!(rows, "rows are sent as they are, not as a block: {reason}");
                return None;
            }
        };
        let more_columns = block.property_names().collect::<Vec<_>>().join(",");
        Some(Self {
            keys_differ: !block.has_equal_keys(),
            more_columns,
            filled: filled.clone(),
            plan,
            is_refused: AtomicBool::new(false),
            pieces: match is_compressed {
                true => Pieces::Packed(packed(&block)),
                false => Pieces::Plain(Box::new(block)),
            },
        })
    }

    fn format(&self) -> BodyFormat {
        BodyFormat::Native {
            is_compressed: matches!(self.pieces, Pieces::Packed(_)),
            keys_differ: self.keys_differ,
        }
    }

    fn len_bytes(&self) -> u64 {
        match &self.pieces {
            Pieces::Plain(block) => block.len_bytes(),
            Pieces::Packed(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
        }
    }

    fn piece(&self, index: usize) -> Option<Bytes> {
        match &self.pieces {
            Pieces::Plain(block) => block.piece(index).map(Bytes::from),
            Pieces::Packed(pieces) => pieces.get(index).cloned(),
        }
    }
}

impl Body for SentRows {
    fn format(&self) -> BodyFormat {
        match self.native() {
            Some(native) => native.format(),
            None => self.payload.format(),
        }
    }

    fn more_columns(&self) -> &str {
        let native = self.native();
        native.map_or("", |native| native.more_columns.as_str())
    }

    fn columns_refused(&self) {
        if let Some(native) = self.native()
            && !native.more_columns.is_empty()
        {
            native.is_refused.store(true, Ordering::Relaxed);
            native.filled.refuse(&native.plan);
        }
    }

    fn len_bytes(&self) -> u64 {
        match self.native() {
            Some(native) => native.len_bytes(),
            None => self.payload.len_bytes(),
        }
    }

    async fn piece(&self, index: usize) -> Result<Option<Vec<Bytes>>, InsertError> {
        let Some(native) = self.native() else {
            return self.payload.piece(index).await;
        };
        let piece = native.piece(index);
        if index > 0 && piece.is_some() {
            tokio::time::sleep(PIECE_PAUSE).await;
        }
        Ok(piece.map(|piece| vec![piece]))
    }
}

/// Returns true if a block may be made of a batch.
fn may_be_block(batch: &InsertBatch<FrameSection>) -> bool {
    let (rows, row_bytes) = (batch.rows(), batch.row_bytes());
    batch.key.table() == Some(Table::Events)
        && !batch.is_part
        && batch.range.is_none()
        && rows >= ROWS_MIN
        && Limits::fits(rows, row_bytes)
}

/// Makes a block of the rows of a batch, or says why it cannot.
fn block_of(
    log: &LogHandle,
    batch: &InsertBatch<FrameSection>,
    plan: &PropertyPlan,
) -> Result<NativeBlock<Vec<u8>>, String> {
    let rows = rows_of(log, batch)?;
    let block = NativeBlock::with_properties(&batch.key.insert_target, rows, plan);
    let block = block.map_err(|error| error.to_string())?;
    match block.rows() as u64 == batch.rows() {
        true => Ok(block),
        false => Err("the headers of the sections count other rows".to_owned()),
    }
}

/// Reads the rows of a batch, one section after the other, so that few of them are there both
/// compressed and not.
fn rows_of(log: &LogHandle, batch: &InsertBatch<FrameSection>) -> Result<Vec<u8>, String> {
    let Some(first) = batch.sections.first() else {
        return Ok(Vec::new());
    };
    let mut reader = log.reader(first.position.frame);
    let mut rows = Vec::with_capacity(batch.row_bytes() as usize);
    let mut blocks = Vec::new();
    for section in &batch.sections {
        blocks.clear();
        let read = reader.read_blocks_into(&section.source, &mut blocks);
        read.map_err(|error| error.to_string())?;
        let left = BLOCK_BYTES_MAX.saturating_sub(rows.len());
        let unpacked = decompress_into_vec(&blocks, &mut rows, left);
        unpacked.map_err(|error| error.to_string())?;
    }
    Ok(rows)
}

/// Compresses a block. Its pieces are joined, since each that is handed to the connection wakes two
/// tasks.
fn packed(block: &NativeBlock<Vec<u8>>) -> Vec<Bytes> {
    let (mut compressor, mut pieces) = (Compressor::new(), Vec::new());
    let mut piece = Vec::new();
    for plain in (0..).map_while(|nth| block.piece(nth)) {
        compressor.compress_into(&plain, &mut piece);
        if piece.len() >= PIECE_BYTES {
            pieces.push(Bytes::from(std::mem::take(&mut piece)));
        }
    }
    if !piece.is_empty() {
        pieces.push(Bytes::from(piece));
    }
    pieces
}
