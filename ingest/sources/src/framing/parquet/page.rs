//! The header of a page, and what the page takes in memory, before the library believes it. (Format: parquet.thrift of
//! Apache Parquet, `PageHeader`.)

use super::columns::Leaf;
use super::thrift::{Thrift, kind};
use flate2::read::MultiGzDecoder;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use std::io::{self, Read};

/// The largest page. Most writers cut them at 1 MiB, DuckDB at 100 MB.
pub(super) const PAGE_BYTES_MAX: u64 = 128 << 20;
const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const PLAIN_DICTIONARY: i64 = 2;
const DELTA_LENGTH_BYTE_ARRAY: i64 = 6;
const DELTA_BYTE_ARRAY: i64 = 7;
const RLE_DICTIONARY: i64 = 8;
/// Most that deflate makes of a byte.
const DEFLATE_RATIO_MAX: u64 = 1_032;
/// Most that LZ4 makes of a byte.
const LZ4_RATIO_MAX: u64 = 255;
const LZ4_FRAME: &[u8] = &[0x04, 0x22, 0x4d, 0x18];
/// What a page may turn out to be without being unpacked twice.
const HARMLESS_BYTES: u64 = 16 << 20;

/// What a page says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageHeader {
    kind: i64,
    unpacked_bytes: u64,
    packed_bytes: u64,
    values: u64,
    encoding: i64,
    /// Bytes of the levels of a page of the second version, which are not packed.
    level_bytes: u64,
    is_packed: bool,
}

impl PageHeader {
    /// The header that begins here, and its length; nothing if it is cut off or damaged.
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut header = Self {
            is_packed: true,
            ..Self::default()
        };
        let mut thrift = Thrift::new(bytes);
        thrift.fields(|thrift, id, kind| {
            match (id, kind) {
                (1, kind::I16..=kind::I64) => header.kind = thrift.number()?,
                (2, kind::I16..=kind::I64) => header.unpacked_bytes = size(thrift)?,
                (3, kind::I16..=kind::I64) => header.packed_bytes = size(thrift)?,
                (5 | 7 | 8, kind::STRUCT) => header.read_inner(thrift, id)?,
                _ => return Some(false),
            }
            Some(true)
        })?;
        Some((header, thrift.read_bytes()))
    }

    /// The part that each kind of page has for itself.
    fn read_inner(&mut self, thrift: &mut Thrift<'_>, kind_of_page: i64) -> Option<()> {
        let is_second = kind_of_page == 8;
        thrift.fields(|thrift, id, kind| {
            match (id, kind) {
                (1, kind::I16..=kind::I64) => self.values = size(thrift)?,
                (2, kind::I16..=kind::I64) if !is_second => self.encoding = thrift.number()?,
                (4, kind::I16..=kind::I64) if is_second => self.encoding = thrift.number()?,
                (5 | 6, kind::I16..=kind::I64) if is_second => self.level_bytes += size(thrift)?,
                (7, kind::TRUE | kind::FALSE) if is_second => self.is_packed = kind == kind::TRUE,
                _ => return Some(false),
            }
            Some(true)
        })
    }

    /// Bytes of the page in the file.
    pub(super) fn packed_bytes(&self) -> u64 {
        self.packed_bytes
    }

    pub(super) fn is_dictionary(&self) -> bool {
        self.kind == DICTIONARY_PAGE
    }

    /// Bytes of the page in memory.
    pub(super) fn held_bytes(&self) -> u64 {
        self.unpacked_bytes.max(self.packed_bytes)
    }

    /// Refuses a page that is larger than any that is read, or whose values do not fit into it.
    pub(super) fn check(&self) -> Result<(), ParquetError> {
        if self.held_bytes() > PAGE_BYTES_MAX {
            return Err(refused(format!(
                "a page of it has {} MiB, of which at most {} are read. Write it anew with smaller pages",
                self.held_bytes() >> 20,
                PAGE_BYTES_MAX >> 20
            )));
        }
        if self.is_dictionary() && self.values > self.held_bytes() {
            return Err(refused("a dictionary of it has more values than bytes"));
        }
        Ok(())
    }

    /// Bytes of memory that the page takes, with what is made of it for one batch of `batch_rows`, but for texts that are
    /// put together anew: how long these are only the unpacked page says.
    pub(super) fn cost_bytes(&self, leaf: &Leaf, batch_rows: u64, dictionary_bytes: u64) -> u64 {
        let unpacked = match leaf.codec {
            Compression::UNCOMPRESSED => 0,
            // Its reader takes a buffer as large as the page.
            Compression::BROTLI(_) => 2 * self.unpacked_bytes,
            _ => self.unpacked_bytes,
        };
        let pages = self.packed_bytes + unpacked;
        if self.is_dictionary() {
            return pages + self.values * (16 + leaf.width);
        }
        let levels = if leaf.is_repeated {
            self.values * (8 + 16 + leaf.width)
        } else {
            0
        };
        let lengths = match self.encoding {
            DELTA_LENGTH_BYTE_ARRAY | DELTA_BYTE_ARRAY => self.values * 8,
            _ => 0,
        };
        let copies = match self.encoding {
            _ if !leaf.copies => 0,
            // Each value may be as long as all that the dictionary has of them.
            PLAIN_DICTIONARY | RLE_DICTIONARY => leaf
                .batch_values(self.values, batch_rows)
                .saturating_mul(dictionary_bytes),
            _ => self.held_bytes(),
        };
        [levels, lengths, grown_bytes(copies)]
            .into_iter()
            .fold(pages, u64::saturating_add)
    }

    /// Bytes of these that are given back when the page is unpacked.
    pub(super) fn passing_bytes(&self, leaf: &Leaf) -> u64 {
        match leaf.codec {
            Compression::UNCOMPRESSED => 0,
            Compression::BROTLI(_) => self.packed_bytes + self.unpacked_bytes,
            _ => self.packed_bytes,
        }
    }

    /// Refuses a page of which more would be unpacked than its header says: some codecs go on to the end, however far
    /// that is. The others stop at what the header says.
    pub(super) fn check_packed(
        &self,
        bytes: &[u8],
        codec: Compression,
    ) -> Result<(), ParquetError> {
        let levels = if self.kind == DATA_PAGE {
            0
        } else {
            self.level_bytes
        };
        let levels = usize::try_from(levels).unwrap_or(usize::MAX);
        let packed = bytes.get(levels..).unwrap_or_default();
        let length = packed.len() as u64;
        let limit = self.unpacked_bytes.saturating_sub(levels as u64);
        let unpacked = match codec {
            _ if !self.is_packed => 0,
            Compression::GZIP(_) if length * DEFLATE_RATIO_MAX <= HARMLESS_BYTES => 0,
            Compression::GZIP(_) => unpacked_bytes(MultiGzDecoder::new(packed), limit),
            Compression::BROTLI(_) => {
                unpacked_bytes(brotli::Decompressor::new(packed, 4_096), limit)
            }
            // The framed form, which the library falls back to.
            Compression::LZ4 if packed.starts_with(LZ4_FRAME) => {
                let most = length * LZ4_RATIO_MAX;
                if most > PAGE_BYTES_MAX { most } else { 0 }
            }
            _ => 0,
        };
        if unpacked > limit {
            return Err(refused("a page of it is larger than its header says"));
        }
        Ok(())
    }
}

/// Bytes that copies take, which grow by doubling: old and new lie beside each other.
pub(super) fn grown_bytes(copied_bytes: u64) -> u64 {
    copied_bytes.saturating_mul(3)
}

/// How much comes out, up to one byte past the limit. What is damaged the library says.
fn unpacked_bytes(reader: impl Read, limit: u64) -> u64 {
    io::copy(&mut reader.take(limit + 1), &mut io::sink()).unwrap_or_default()
}

/// A size: of 32 bits with a sign in the format.
fn size(thrift: &mut Thrift<'_>) -> Option<u64> {
    let size = i32::try_from(thrift.number()?).ok()?;
    u64::try_from(size).ok()
}

pub(super) fn refused(why: impl Into<String>) -> ParquetError {
    ParquetError::General(why.into())
}
