//! The bytes of an insert, read from the log when they are sent and not before.

use super::rows::Layout;
use super::unit::{RowRange, Unit, spread};
use bytes::Bytes;
use millrace_clickhouse::INSERT_BYTES_MAX;
use millrace_log::block::{BlockError, Compressor, decompress_into_vec};
use millrace_log::{FrameSection, LogHandle, ReadError};
use millrace_rows::RowKey;

/// Keys of a cut section that are asked for at most.
const SAMPLE_KEYS_MAX: usize = 32;
/// A section that holds more is not ours: the commit thread makes them far smaller.
const SECTION_BYTES_MAX: usize = 2 * INSERT_BYTES_MAX as usize;

/// What an insert sends.
#[derive(Debug)]
pub struct Payload {
    /// ClickHouse blocks of RowBinary.
    pub blocks: Vec<Bytes>,
    /// A sample of the rows, spread over them.
    pub keys: Vec<RowKey>,
}

/// Why an insert's bytes cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// The disk refuses; trying again may help.
    #[error(transparent)]
    Read(ReadError),
    /// The bytes are no longer what was appended, and will not be again.
    #[error("{0}")]
    Damaged(String),
    /// The section cannot be cut into rows.
    #[error("{0}")]
    Uncuttable(String),
}

/// Reads what `unit` sends. Blocks.
///
/// # Errors
/// If the log cannot be read, or a section must be cut and cannot.
pub fn payload(log: &LogHandle, unit: &Unit<FrameSection>) -> Result<Payload, PayloadError> {
    let mut blocks = Vec::with_capacity(unit.sections.len());
    if let Some(first) = unit.first() {
        let reader = log.reader(first.frame);
        for section in &unit.sections {
            blocks.push(reader.read_blocks(&section.source).map_err(read_error)?);
        }
    }
    let keys = unit.sample_keys();
    if unit.range.is_none() && !keys.is_empty() {
        return Ok(Payload { blocks, keys });
    }
    let rows = unpacked(&blocks).map_err(|error| PayloadError::Uncuttable(error.to_string()))?;
    let cut = cut(&unit.key.insert_target, &rows, unit.range)?;
    if unit.range.is_none() {
        // Not cut, but nothing says by which keys the rows are found.
        return Ok(Payload {
            blocks,
            keys: cut.keys,
        });
    }
    let mut packed = Vec::new();
    Compressor::new().compress_into(cut.bytes, &mut packed);
    Ok(Payload {
        blocks: vec![packed.into()],
        keys: cut.keys,
    })
}

/// The rows of `payload`, to be set aside.
///
/// # Errors
/// If a block does not decompress.
pub fn unpacked(blocks: &[Bytes]) -> Result<Vec<u8>, BlockError> {
    let mut rows = Vec::new();
    for block in blocks {
        let room = SECTION_BYTES_MAX.saturating_sub(rows.len());
        decompress_into_vec(block, &mut rows, room)?;
    }
    Ok(rows)
}

/// Whether the rows of a section can be told apart.
///
/// # Errors
/// If they cannot, with the reason.
pub fn check_cuttable(insert_target: &str, blocks: &[Bytes]) -> Result<(), PayloadError> {
    let rows = unpacked(blocks).map_err(|error| PayloadError::Uncuttable(error.to_string()))?;
    cut(insert_target, &rows, None).map(|_| ())
}

struct CutRows<'a> {
    bytes: &'a [u8],
    keys: Vec<RowKey>,
}

fn cut<'a>(
    insert_target: &str,
    bytes: &'a [u8],
    range: Option<RowRange>,
) -> Result<CutRows<'a>, PayloadError> {
    let uncuttable = |reason: String| PayloadError::Uncuttable(reason);
    let layout = Layout::of(insert_target)
        .ok_or_else(|| uncuttable(format!("`{insert_target}` has unknown columns")))?;
    let rows = layout
        .rows(bytes)
        .map_err(|error| uncuttable(error.to_string()))?;
    let wanted = range.map_or(0..rows.len(), |it| it.from as usize..it.to as usize);
    let kept = rows
        .get(wanted)
        .ok_or_else(|| uncuttable(format!("the section has only {} rows", rows.len())))?;
    let span = match (kept.first(), kept.last()) {
        (Some(first), Some(last)) => first.bytes.start..last.bytes.end,
        _ => 0..0,
    };
    let keys: Vec<RowKey> = kept.iter().filter_map(|row| row.key).collect();
    Ok(CutRows {
        bytes: bytes.get(span).unwrap_or_default(),
        keys: spread(&keys, SAMPLE_KEYS_MAX),
    })
}

fn read_error(error: ReadError) -> PayloadError {
    match error {
        ReadError::Corrupt { .. } => PayloadError::Damaged(error.to_string()),
        _ => PayloadError::Read(error),
    }
}
