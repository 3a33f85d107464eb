//! The bytes of an insert, read from the log when they are sent and not before.

use super::rows::Layout;
use super::section::Section;
use super::sought::Sought;
use super::unit::{RowRange, Unit};
use bytes::Bytes;
use millrace_clickhouse::{Body, INSERT_BYTES_MAX, InsertError, InsertOutcome};
use millrace_log::block::{BlockError, Compressor, decompress_into_vec};
use millrace_log::{FrameSection, LogHandle, ReadError, Reader};
use millrace_rows::{RowKey, Table};
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A section that holds more is not ours: the commit thread makes them far smaller.
const SECTION_BYTES_MAX: usize = 2 * INSERT_BYTES_MAX as usize;

/// Bytes of the log that are read at a time if sections are smaller: enough that handing a read to another thread does not
/// count, little enough that they are still in the processor's cache when they are sent.
const PIECE_BYTES: u64 = 256 << 10;

/// Between two pieces. An insert sent at once kept a core from requests for 20 ms, and their 99th
/// percentile was 11 instead of 7 ms. Four inserts can still send some 500 MB/s, more than a server takes.
const PIECE_PAUSE: Duration = Duration::from_millis(2);

/// What an insert sends. A cut section is in memory; anything else is read while it is sent.
#[derive(Debug)]
pub struct Payload {
    log: LogHandle,
    unit: Arc<Unit<FrameSection>>,
    /// Sections of the unit that make a piece each.
    pieces: Vec<Range<usize>>,
    /// The rows of a cut section, in ClickHouse blocks.
    pub cut: Option<Bytes>,
    /// The rows, for who looks for them.
    pub sought: Sought,
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

impl Payload {
    /// What `unit` sends; reads the log only if the rows are to be cut, or are in doubt, or their keys are
    /// not known. Blocks.
    ///
    /// # Errors
    /// If the log cannot be read, or a section must be cut and cannot.
    pub fn of(log: &LogHandle, unit: &Arc<Unit<FrameSection>>) -> Result<Self, PayloadError> {
        let mut payload = Self {
            log: log.clone(),
            unit: Arc::clone(unit),
            pieces: pieces(unit),
            cut: None,
            sought: Sought::default(),
        };
        let known = unit.known_keys();
        payload.sought = match unit.range {
            Some(range) => payload.cut(range)?,
            None if unit.in_doubt || known.is_empty() => all_rows(log, unit)?,
            None => Sought::rows(known, &[]).into_block(),
        };
        Ok(payload)
    }

    /// Takes rows of the only section, and says how to look for them.
    fn cut(&mut self, range: RowRange) -> Result<Sought, PayloadError> {
        let blocks = read(&self.log, &self.unit.sections).map_err(read_error)?;
        let rows =
            unpacked(&blocks).map_err(|error| PayloadError::Uncuttable(error.to_string()))?;
        let cut = cut(&self.unit.key.insert_target, &rows, Some(range))?;
        let mut packed = Vec::new();
        Compressor::new().compress_into(cut.bytes, &mut packed);
        self.cut = Some(packed.into());
        let table = self.unit.key.table();
        let sought = Sought::rows(left_of(table, cut.keys), &left_of(table, cut.others));
        Ok(match self.unit.in_doubt {
            true => sought,
            false => sought.into_block(),
        })
    }
}

/// All rows of whole sections, of which each may be there by itself. Of a damaged section those count that its
/// header names; one that cannot be cut was never sent by halves.
fn all_rows(log: &LogHandle, unit: &Unit<FrameSection>) -> Result<Sought, PayloadError> {
    let mut keys = Vec::new();
    let mut is_cuttable = true;
    for section in &unit.sections {
        match keys_of(log, &unit.key.insert_target, section) {
            Ok(found) if !found.is_empty() => keys.extend(found),
            Err(PayloadError::Read(error)) => return Err(PayloadError::Read(error)),
            Ok(_) | Err(PayloadError::Damaged(_)) => keys.extend_from_slice(&section.keys),
            Err(PayloadError::Uncuttable(_)) => {
                is_cuttable = false;
                keys.extend_from_slice(&section.keys);
            }
        }
    }
    let sought = Sought::rows(left_of(unit.key.table(), keys), &[]);
    Ok(match unit.sections.len() > 1 || is_cuttable {
        true => sought,
        false => sought.into_block(),
    })
}

/// The rows that can be there: of an event that came again under its uuid `events` keeps the last, in one block from the
/// insert on.
fn left_of(table: Option<Table>, mut keys: Vec<RowKey>) -> Vec<RowKey> {
    if table == Some(Table::Events) {
        keys.sort_unstable_by_key(|key| (key.id, Reverse(key.received_at)));
        keys.dedup_by_key(|key| key.id);
    }
    keys
}

/// The keys of a section's rows.
fn keys_of(
    log: &LogHandle,
    insert_target: &str,
    section: &Section<FrameSection>,
) -> Result<Vec<RowKey>, PayloadError> {
    let blocks = read(log, std::slice::from_ref(section)).map_err(read_error)?;
    let rows = unpacked(&blocks).map_err(|error| PayloadError::Uncuttable(error.to_string()))?;
    Ok(cut(insert_target, &rows, None)?.keys)
}

impl Body for Payload {
    fn len_bytes(&self) -> u64 {
        match &self.cut {
            Some(cut) => cut.len() as u64,
            None => blocks_bytes(&self.unit.sections),
        }
    }

    async fn piece(&self, index: usize) -> Result<Option<Vec<Bytes>>, InsertError> {
        if let Some(cut) = &self.cut {
            return Ok((index == 0).then(|| vec![cut.clone()]));
        }
        let Some(sections) = self.pieces.get(index).cloned() else {
            return Ok(None);
        };
        if index > 0 {
            tokio::time::sleep(PIECE_PAUSE).await;
        }
        // What was just written is in memory, and read here: to have another thread do it takes as long
        // as reading it.
        let cached = self.unit.sections.get(sections.clone());
        match read_together(
            &self.log,
            cached.unwrap_or_default(),
            Reader::read_cached_blocks_into,
        ) {
            Ok(Some(piece)) => return Ok(Some(vec![piece])),
            Ok(None) => {}
            Err(error) => return Err(unread(&error)),
        }
        let (log, unit) = (self.log.clone(), Arc::clone(&self.unit));
        let read = tokio::task::spawn_blocking(move || {
            let sections = unit.sections.get(sections).unwrap_or_default();
            read_together(&log, sections, |reader, section, out| {
                reader.read_blocks_into(section, out).map(|()| true)
            })
        });
        match read.await {
            Ok(Ok(piece)) => Ok(piece.map(|piece| vec![piece])),
            Ok(Err(error)) => Err(unread(&error)),
            Err(error) => Err(failed(InsertOutcome::Unread, error.to_string())),
        }
    }
}

fn unread(error: &ReadError) -> InsertError {
    let outcome = match error {
        ReadError::Corrupt { .. } => InsertOutcome::Lost,
        _ => InsertOutcome::Unread,
    };
    failed(outcome, error.to_string())
}

fn failed(outcome: InsertOutcome, message: String) -> InsertError {
    InsertError {
        outcome,
        code: None,
        message,
    }
}

/// Neighbours together up to [`PIECE_BYTES`], larger sections alone.
fn pieces(unit: &Unit<FrameSection>) -> Vec<Range<usize>> {
    let mut pieces: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (at, section) in unit.sections.iter().enumerate() {
        bytes += section.source.blocks_bytes;
        match pieces.last_mut() {
            Some(piece) if bytes <= PIECE_BYTES => piece.end = at + 1,
            _ => {
                pieces.push(at..at + 1);
                bytes = section.source.blocks_bytes;
            }
        }
    }
    pieces
}

fn blocks_bytes(sections: &[Section<FrameSection>]) -> u64 {
    sections.iter().map(|it| it.source.blocks_bytes).sum()
}

/// The blocks of sections, as they lie in the log.
///
/// # Errors
/// As [`read_blocks`](millrace_log::Reader::read_blocks).
pub fn read(log: &LogHandle, sections: &[Section<FrameSection>]) -> Result<Vec<Bytes>, ReadError> {
    let Some(first) = sections.first() else {
        return Ok(Vec::new());
    };
    let mut reader = log.reader(first.place.frame);
    let sections = sections.iter();
    sections.map(|it| reader.read_blocks(&it.source)).collect()
}

/// The blocks of sections as they are now, damaged or not.
///
/// # Errors
/// As [`read_unproven_blocks`](millrace_log::Reader::read_unproven_blocks).
pub fn read_unproven(
    log: &LogHandle,
    sections: &[Section<FrameSection>],
) -> Result<Vec<Bytes>, ReadError> {
    let Some(first) = sections.first() else {
        return Ok(Vec::new());
    };
    let mut reader = log.reader(first.place.frame);
    let sections = sections.iter();
    sections
        .map(|it| reader.read_unproven_blocks(&it.source))
        .collect()
}

/// Blocks of sections in one buffer: each that is handed to the connection is a step of two tasks. `None` if `read`
/// says of a section that it did not read it.
fn read_together(
    log: &LogHandle,
    sections: &[Section<FrameSection>],
    read: impl Fn(&mut Reader, &FrameSection, &mut Vec<u8>) -> Result<bool, ReadError>,
) -> Result<Option<Bytes>, ReadError> {
    let Some(first) = sections.first() else {
        return Ok(Some(Bytes::new()));
    };
    let mut reader = log.reader(first.place.frame);
    let mut blocks = Vec::with_capacity(blocks_bytes(sections) as usize);
    for section in sections {
        if !read(&mut reader, &section.source, &mut blocks)? {
            return Ok(None);
        }
    }
    Ok(Some(blocks.into()))
}

/// The rows that blocks hold, to be set aside.
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
    /// Keys of the rows that are not taken.
    others: Vec<RowKey>,
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
        .get(wanted.clone())
        .ok_or_else(|| uncuttable(format!("the section has only {} rows", rows.len())))?;
    let span = match (kept.first(), kept.last()) {
        (Some(first), Some(last)) => first.bytes.start..last.bytes.end,
        _ => 0..0,
    };
    let others = rows.iter().enumerate();
    let others = others.filter(|(nth, _)| !wanted.contains(nth));
    Ok(CutRows {
        bytes: bytes.get(span).unwrap_or_default(),
        keys: kept.iter().filter_map(|row| row.key).collect(),
        others: others.filter_map(|(_, row)| row.key).collect(),
    })
}

fn read_error(error: ReadError) -> PayloadError {
    match error {
        ReadError::Corrupt { .. } => PayloadError::Damaged(error.to_string()),
        _ => PayloadError::Read(error),
    }
}
