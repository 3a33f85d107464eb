//! Bytes of a batch, read from the log when they are sent and not before.

use super::blocking::run_blocking;
use super::insert_batch::{InsertBatch, RowRange};
use super::row_keys::{KeyedRow, lookup_of};
use super::row_lookup::RowLookup;
use super::rows::{Layout, Row};
use super::salvage::{Salvaged, salvage};
use super::section::Section;
use bytes::Bytes;
use millrace_blocks::{BlockError, Compressor, decompress_into_vec};
use millrace_clickhouse::{Body, INSERT_BYTES_MAX, InsertError, InsertOutcome};
use millrace_log::{FrameSection, LogHandle, ReadError, Reader};
use millrace_rows::counted;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Upper bound of a section's bytes: the commit thread makes them far smaller.
const SECTION_BYTES_MAX: usize = 2 * INSERT_BYTES_MAX as usize;

/// Bytes of the log that are read at a time if sections are smaller: enough that handing a read to
/// another thread costs little in comparison, few enough that they are still in the processor's
/// cache when they are sent.
const PIECE_BYTES: u64 = 256 << 10;

/// Pause between two pieces. A batch sent at once kept a core from requests for 20 ms, and their
/// 99th percentile was 11 instead of 7 ms. Four batches can still send some 500 MB/s, more than a
/// server takes.
pub const PIECE_PAUSE: Duration = Duration::from_millis(2);

/// Payload of a batch. A cut section is in memory; anything else is read while it is sent.
#[derive(Debug)]
pub struct Payload {
    log: LogHandle,
    batch: Arc<InsertBatch<FrameSection>>,
    /// Ranges of the batch's sections that make a piece each.
    pieces: Vec<Range<usize>>,
    /// Rows of a cut section, in ClickHouse blocks.
    pub cut: Option<Bytes>,
    /// True if other rows of the cut section are damaged in the log.
    pub is_salvaged: bool,
    /// Lookup of the rows.
    pub lookup: RowLookup,
}

/// Reason why a batch has no payload.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// The disk fails; trying again may help.
    #[error(transparent)]
    Read(ReadError),
    /// Trying again does not help.
    #[error(transparent)]
    Unusable(#[from] UnusableRows),
}

/// Permanent reason why rows cannot be sent as they are wanted.
#[derive(Debug, thiserror::Error)]
pub enum UnusableRows {
    /// The bytes are no longer what was appended, and will not be again.
    #[error("{reason}")]
    Damaged {
        reason: String,
        /// Rows of a cut section that can be read all the same, fewer than were to be cut out.
        sound_rows: u64,
    },
    /// The section cannot be cut into rows.
    #[error("{0}")]
    Uncuttable(String),
}

impl Payload {
    /// Prepares the payload of `batch`; reads the log only if the rows are to be cut, or are in
    /// doubt, or their keys are unknown. Blocks.
    ///
    /// # Errors
    /// If the log cannot be read, or a section must be cut and cannot.
    pub fn of(
        log: &LogHandle,
        batch: &Arc<InsertBatch<FrameSection>>,
    ) -> Result<Self, PayloadError> {
        let mut payload = Self {
            log: log.clone(),
            batch: Arc::clone(batch),
            pieces: pieces(batch),
            cut: None,
            is_salvaged: false,
            lookup: RowLookup::default(),
        };
        let known = batch.known_keys();
        payload.lookup = match batch.range {
            Some(range) => payload.cut(range)?,
            None if batch.in_doubt || known.is_empty() => all_rows(log, batch)?,
            None => RowLookup::rows(known, &[]).into_block(),
        };
        Ok(payload)
    }

    /// Cuts rows out of the only section, and returns their lookup.
    fn cut(&mut self, range: RowRange) -> Result<RowLookup, PayloadError> {
        let table = self.batch.key.table();
        let (packed, lookup) = match read(&self.log, &self.batch.sections) {
            Ok(blocks) => {
                let rows = unpacked_rows(&blocks)?;
                let cut = cut(&self.batch.key.insert_target, &rows, Some(range))?;
                let lookup = lookup_of(table, cut.rows, cut.others);
                (packed(cut.bytes), lookup)
            }
            Err(error @ ReadError::Corrupt { .. }) => {
                let salvaged = self.salvaged(range, &error)?;
                self.is_salvaged = true;
                let lookup = lookup_of(table, salvaged.rows, salvaged.others);
                (packed(&salvaged.bytes), lookup)
            }
            Err(error) => return Err(PayloadError::Read(error)),
        };
        self.cut = Some(packed);
        Ok(match self.batch.in_doubt {
            true => lookup,
            false => lookup.into_block(),
        })
    }

    /// Cuts rows out of the only section, which is damaged, if all of them can be read and it is
    /// known that they are these.
    fn salvaged(&self, range: RowRange, error: &ReadError) -> Result<Salvaged, PayloadError> {
        let blocks = read_unproven(&self.log, &self.batch.sections).map_err(PayloadError::Read)?;
        let section = self.batch.sections.first();
        let salvaged = section
            .and_then(|section| salvage(&self.batch.key, section, &blocks.concat(), Some(range)));
        let sound_rows = salvaged.as_ref().map_or(0, Salvaged::count);
        let whole = salvaged.filter(|it| it.count() == range.rows());
        let damaged = || UnusableRows::Damaged {
            reason: error.to_string(),
            sound_rows,
        };
        Ok(whole.ok_or_else(damaged)?)
    }
}

/// Compresses rows into blocks.
fn packed(rows: &[u8]) -> Bytes {
    let mut packed = Vec::new();
    Compressor::new().compress_into(rows, &mut packed);
    packed.into()
}

/// Looks up all rows of whole sections, each of which may be stored by itself. Of a damaged section
/// the keys in its header count; one that cannot be cut was never sent by halves.
fn all_rows(log: &LogHandle, batch: &InsertBatch<FrameSection>) -> Result<RowLookup, PayloadError> {
    let mut rows = Vec::<KeyedRow>::new();
    let (mut is_cuttable, mut is_sample) = (true, false);
    for section in &batch.sections {
        let of_header = section.keys.iter().copied().map(KeyedRow::from);
        match keys_of(log, &batch.key.insert_target, section) {
            Ok(found) if !found.is_empty() => rows.extend(found),
            Err(error @ PayloadError::Read(_)) => return Err(error),
            Ok(_) | Err(PayloadError::Unusable(UnusableRows::Damaged { .. })) => {
                is_sample = true;
                rows.extend(of_header);
            }
            Err(PayloadError::Unusable(UnusableRows::Uncuttable(_))) => {
                (is_cuttable, is_sample) = (false, true);
                rows.extend(of_header);
            }
        }
    }
    let lookup = lookup_of(batch.key.table(), rows, Vec::new()).with_samples(is_sample);
    Ok(match batch.sections.len() > 1 || is_cuttable {
        true => lookup,
        false => lookup.into_block(),
    })
}

/// Reads the keys of a section's rows.
fn keys_of(
    log: &LogHandle,
    insert_target: &str,
    section: &Section<FrameSection>,
) -> Result<Vec<KeyedRow>, PayloadError> {
    let blocks = read(log, std::slice::from_ref(section)).map_err(read_error)?;
    let rows = unpacked_rows(&blocks)?;
    Ok(cut(insert_target, &rows, None)?.rows)
}

impl Body for Payload {
    fn len_bytes(&self) -> u64 {
        match &self.cut {
            Some(cut) => cut.len() as u64,
            None => blocks_bytes(&self.batch.sections),
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
        // Frames just written are in the page cache, and read here: handing that to another thread
        // takes as long as the read.
        let cached = self.batch.sections.get(sections.clone());
        match read_together(
            &self.log,
            cached.unwrap_or_default(),
            Reader::read_cached_blocks_into,
        ) {
            Ok(Some(piece)) => return Ok(Some(vec![piece])),
            Ok(None) => {}
            Err(error) => return Err(unread(&error)),
        }
        let (log, batch) = (self.log.clone(), Arc::clone(&self.batch));
        let read = run_blocking(move || {
            let sections = batch.sections.get(sections).unwrap_or_default();
            read_together(&log, sections, |reader, section, out| {
                reader.read_blocks_into(section, out).map(|()| true)
            })
        });
        match read.await {
            Ok(piece) => Ok(piece.map(|piece| vec![piece])),
            Err(error) => Err(unread(&error)),
        }
    }
}

fn unread(error: &ReadError) -> InsertError {
    let outcome = match error {
        ReadError::Corrupt { .. } => InsertOutcome::Lost,
        _ => InsertOutcome::Unread,
    };
    InsertError {
        outcome,
        code: None,
        message: error.to_string(),
    }
}

/// Groups sections into pieces: neighbours together up to [`PIECE_BYTES`], larger ones alone.
fn pieces(batch: &InsertBatch<FrameSection>) -> Vec<Range<usize>> {
    let mut pieces: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (at, section) in batch.sections.iter().enumerate() {
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

/// Reads the blocks of sections as they lie in the log.
///
/// # Errors
/// As [`read_blocks`](millrace_log::Reader::read_blocks).
pub fn read(log: &LogHandle, sections: &[Section<FrameSection>]) -> Result<Vec<Bytes>, ReadError> {
    let Some(first) = sections.first() else {
        return Ok(Vec::new());
    };
    let mut reader = log.reader(first.position.frame);
    let sections = sections.iter();
    sections.map(|it| reader.read_blocks(&it.source)).collect()
}

/// Reads the blocks of sections as they are now, damaged or not.
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
    let mut reader = log.reader(first.position.frame);
    let sections = sections.iter();
    sections
        .map(|it| reader.read_unproven_blocks(&it.source))
        .collect()
}

/// Reads the blocks of sections into one buffer, since each buffer handed to the connection wakes
/// two tasks. `None` if `read` returns false for a section.
fn read_together(
    log: &LogHandle,
    sections: &[Section<FrameSection>],
    read: impl Fn(&mut Reader, &FrameSection, &mut Vec<u8>) -> Result<bool, ReadError>,
) -> Result<Option<Bytes>, ReadError> {
    let Some(first) = sections.first() else {
        return Ok(Some(Bytes::new()));
    };
    let mut reader = log.reader(first.position.frame);
    let mut blocks = Vec::with_capacity(blocks_bytes(sections) as usize);
    for section in sections {
        if !read(&mut reader, &section.source, &mut blocks)? {
            return Ok(None);
        }
    }
    Ok(Some(blocks.into()))
}

/// Decompresses the rows in blocks.
///
/// # Errors
/// If a block does not decompress.
pub fn unpacked(blocks: &[Bytes]) -> Result<Vec<u8>, BlockError> {
    let mut rows = Vec::new();
    for block in blocks {
        let left = SECTION_BYTES_MAX.saturating_sub(rows.len());
        decompress_into_vec(block, &mut rows, left)?;
    }
    Ok(rows)
}

/// Decompresses the rows in blocks whose checksums fit.
fn unpacked_rows(blocks: &[Bytes]) -> Result<Vec<u8>, UnusableRows> {
    unpacked(blocks).map_err(|error| UnusableRows::Uncuttable(error.to_string()))
}

/// Checks that the rows of a section that is not damaged can be told apart.
///
/// # Errors
/// If they cannot, with the reason: the blocks do not decompress although their checksums fit, the
/// table has columns that this version does not know, or the bytes are no rows of these columns.
pub fn check_cuttable(insert_target: &str, blocks: &[Bytes]) -> Result<(), UnusableRows> {
    cut(insert_target, &unpacked_rows(blocks)?, None).map(|_| ())
}

struct CutRows<'a> {
    bytes: &'a [u8],
    rows: Vec<KeyedRow>,
    /// The section's other rows.
    others: Vec<KeyedRow>,
}

fn cut<'a>(
    insert_target: &str,
    bytes: &'a [u8],
    range: Option<RowRange>,
) -> Result<CutRows<'a>, UnusableRows> {
    let uncuttable = |reason: String| UnusableRows::Uncuttable(reason);
    let layout = Layout::of(insert_target)
        .ok_or_else(|| uncuttable(format!("`{insert_target}` has unknown columns")))?;
    let rows = layout
        .rows(bytes)
        .map_err(|error| uncuttable(error.to_string()))?;
    let wanted = range.map_or(0..rows.len(), |it| it.from as usize..it.to as usize);
    let kept = rows.get(wanted.clone()).ok_or_else(|| {
        let found = counted(rows.len() as u64, "row");
        uncuttable(format!("the section has only {found}"))
    })?;
    let span = match (kept.first(), kept.last()) {
        (Some(first), Some(last)) => first.bytes.start..last.bytes.end,
        _ => 0..0,
    };
    let others = rows.iter().enumerate();
    let others = others.filter(|(nth, _)| !wanted.contains(nth));
    Ok(CutRows {
        bytes: bytes.get(span).unwrap_or_default(),
        rows: kept.iter().filter_map(Row::keyed).collect(),
        others: others.filter_map(|(_, row)| row.keyed()).collect(),
    })
}

fn read_error(error: ReadError) -> PayloadError {
    match error {
        ReadError::Corrupt { .. } => PayloadError::Unusable(UnusableRows::Damaged {
            reason: error.to_string(),
            sound_rows: 0,
        }),
        _ => PayloadError::Read(error),
    }
}
