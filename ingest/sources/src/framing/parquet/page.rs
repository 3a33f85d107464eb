//! Reads the header of a page, and bounds the page's memory before the library unpacks it. (Format:
//! parquet.thrift of Apache Parquet, `PageHeader`.)

use super::columns::Leaf;
use flate2::read::MultiGzDecoder;
use millrace_rows::thrift::{Thrift, kind};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use std::io::{self, Read};

/// Most bytes of a page. Most writers cut pages at 1 MiB, DuckDB at 100 MB.
pub(super) const PAGE_BYTES_MAX: u64 = 128 << 20;
const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const PLAIN_DICTIONARY: i64 = 2;
const DELTA_LENGTH_BYTE_ARRAY: i64 = 6;
const DELTA_BYTE_ARRAY: i64 = 7;
const RLE_DICTIONARY: i64 = 8;
/// Most bytes that deflate unpacks a byte to.
const DEFLATE_RATIO_MAX: u64 = 1_032;
/// Most bytes that LZ4 unpacks a byte to.
const LZ4_RATIO_MAX: u64 = 255;
const LZ4_FRAME: &[u8] = &[0x04, 0x22, 0x4d, 0x18];
/// Bytes below which a page need not be unpacked twice to check its length.
const HARMLESS_BYTES: u64 = 16 << 20;

/// Header of a page.
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
    /// Reads a header; returns it with its length, or `None` if it is truncated or damaged.
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

    /// Reads the struct that is specific to the kind of page.
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

    /// Refuses a page that is too large, or a dictionary with more values than bytes.
    pub(super) fn check(&self) -> Result<(), ParquetError> {
        if self.held_bytes() > PAGE_BYTES_MAX {
            return Err(refused(format!(
                "a page of it has {} MiB, of which at most {} are read. Rewrite it with smaller pages",
                self.held_bytes() >> 20,
                PAGE_BYTES_MAX >> 20
            )));
        }
        if self.is_dictionary() && self.values > self.held_bytes() {
            return Err(refused("a dictionary of it has more values than bytes"));
        }
        Ok(())
    }

    /// Bytes of memory that the page takes, with the copies made of it for one batch of
    /// `batch_rows`; but without texts of `DELTA_BYTE_ARRAY`, whose length only the unpacked page
    /// shows.
    pub(super) fn cost_bytes(&self, leaf: &Leaf, batch_rows: u64, dictionary_bytes: u64) -> u64 {
        let unpacked = match leaf.codec {
            Compression::UNCOMPRESSED => 0,
            // Its decoder takes a buffer as large as the page.
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
            // Each value may be as long as the whole dictionary.
            PLAIN_DICTIONARY | RLE_DICTIONARY => leaf
                .batch_values(self.values, batch_rows)
                .saturating_mul(dictionary_bytes),
            _ => self.held_bytes(),
        };
        [levels, lengths, grown_bytes(copies)]
            .into_iter()
            .fold(pages, u64::saturating_add)
    }

    /// Bytes of [`Self::cost_bytes`] that are freed when the page is unpacked.
    pub(super) fn transient_bytes(&self, leaf: &Leaf) -> u64 {
        match leaf.codec {
            Compression::UNCOMPRESSED => 0,
            Compression::BROTLI(_) => self.packed_bytes + self.unpacked_bytes,
            _ => self.packed_bytes,
        }
    }

    /// Refuses a page that unpacks to more than its header claims: some codecs unpack to the end,
    /// the others stop at the claimed length.
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
            // The LZ4 frame format, which the library falls back to.
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

/// Bytes that growing copies take: their buffer doubles, and old and new are in memory together.
pub(super) fn grown_bytes(copied_bytes: u64) -> u64 {
    copied_bytes.saturating_mul(3)
}

/// Number of unpacked bytes, up to one above the limit. Damaged data is left to the library.
fn unpacked_bytes(reader: impl Read, limit: u64) -> u64 {
    io::copy(&mut reader.take(limit + 1), &mut io::sink()).unwrap_or_default()
}

/// Reads a size, which the format stores as a signed 32-bit number.
fn size(thrift: &mut Thrift<'_>) -> Option<u64> {
    let size = i32::try_from(thrift.number()?).ok()?;
    u64::try_from(size).ok()
}

pub(super) fn refused(reason: impl Into<String>) -> ParquetError {
    ParquetError::General(reason.into())
}
