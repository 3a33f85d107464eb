//! Encodes and decodes one frame; pure. The layout is in the crate's documentation.

use crate::block_headers::headers_crc;
use crate::fields::{Fields, put, u16_at, u32_at, u64_at};
use crate::section::{FrameSection, Section, SectionHeader};
use crate::segment::NUMBER_MAX;
use crate::{Frame, Position};

/// Bytes of the fixed header.
pub(crate) const FRAME_HEADER_BYTES: usize = 48;
/// Bytes of the commit trailer.
pub(crate) const TRAILER_BYTES: usize = 16;
/// Bytes of the smallest frame that can be: one section with nothing in it.
pub(crate) const FRAME_BYTES_MIN: u64 = 96;
/// Frames start at multiples of this, so that a search need not try every byte.
pub(crate) const ALIGN_BYTES: u64 = 8;

/// The first bytes of a frame.
pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"MFRM");
const TRAILER_MAGIC: u32 = u32::from_le_bytes(*b"MEND");
/// Frame version. Version 1, whose CRCs covered every byte of blocks, is no longer read.
const VERSION: u16 = 2;
const HEADER_CRC_AT: usize = 44;
const KEY_BYTES: usize = 24;

/// Encoder of frames around payloads that are not copied.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    /// Fixed header and section headers; kept between frames, so that appending allocates
    /// nothing once it has grown.
    pub headers: Vec<u8>,
    tail: [u8; ALIGN_BYTES as usize + TRAILER_BYTES],
    tail_start: usize,
    payload_bytes: u64,
}

impl Encoder {
    /// Encodes all but what [`seal`](Self::seal) adds.
    pub fn encode(&mut self, sections: &[Section<'_>]) -> Result<(), &'static str> {
        self.headers.clear();
        self.headers.resize(FRAME_HEADER_BYTES, 0);
        self.payload_bytes = 0;
        for section in sections {
            self.section(section)?;
        }
        let count = u16::try_from(sections.len()).map_err(|_| "more than 65 535 sections")?;
        if count == 0 {
            return Err("no sections");
        }
        let (_, section_headers) = self.headers.split_at(FRAME_HEADER_BYTES);
        let headers_crc = crc32fast::hash(section_headers);
        let headers_bytes = u32::try_from(section_headers.len())
            .map_err(|_| "more than 4 GiB of section headers")?;
        let headers = self.headers.as_mut_slice();
        put(headers, 0, &MAGIC.to_le_bytes());
        put(headers, 4, &VERSION.to_le_bytes());
        put(headers, 6, &count.to_le_bytes());
        put(headers, 24, &headers_bytes.to_le_bytes());
        put(headers, 32, &self.payload_bytes.to_le_bytes());
        put(headers, 40, &headers_crc.to_le_bytes());
        let pad = pad_bytes(self.headers.len() as u64 + self.payload_bytes);
        self.tail_start = ALIGN_BYTES as usize - pad as usize;
        Ok(())
    }

    /// Sets salt, sequence and checksums.
    pub fn seal(&mut self, salt: u64, sequence: u64) {
        put(&mut self.headers, 8, &salt.to_le_bytes());
        put(&mut self.headers, 16, &sequence.to_le_bytes());
        let crc = crc32fast::hash(self.headers.get(..HEADER_CRC_AT).unwrap_or_default());
        put(&mut self.headers, HEADER_CRC_AT, &crc.to_le_bytes());
        let pad = ALIGN_BYTES as usize - self.tail_start;
        let trailer = trailer(&self.headers, pad, sequence);
        put(&mut self.tail, ALIGN_BYTES as usize, &trailer);
    }

    /// Bytes behind the payloads: padding and trailer.
    pub fn tail(&self) -> &[u8] {
        self.tail.get(self.tail_start..).unwrap_or_default()
    }

    /// Bytes of the whole frame.
    pub fn frame_bytes(&self) -> u64 {
        self.headers.len() as u64 + self.payload_bytes + self.tail().len() as u64
    }

    fn section(&mut self, section: &Section<'_>) -> Result<(), &'static str> {
        let SectionHeader {
            insert_target,
            month,
            rows,
            uncompressed_bytes,
            keys,
        } = section.header;
        let target_bytes = u16::try_from(insert_target.len())
            .map_err(|_| "an insert target of more than 65 535 bytes")?;
        let keys_count = u16::try_from(keys.len()).map_err(|_| "more than 65 535 keys")?;
        let blocks_bytes = section.blocks.len() as u64;
        let out = &mut self.headers;
        out.extend_from_slice(&month.to_le_bytes());
        out.extend_from_slice(&rows.to_le_bytes());
        out.extend_from_slice(&uncompressed_bytes.to_le_bytes());
        out.extend_from_slice(&blocks_bytes.to_le_bytes());
        let block_headers_crc =
            headers_crc(section.blocks).ok_or("the blocks are not a run of blocks")?;
        out.extend_from_slice(&block_headers_crc.to_le_bytes());
        out.extend_from_slice(&target_bytes.to_le_bytes());
        out.extend_from_slice(&keys_count.to_le_bytes());
        out.extend_from_slice(insert_target.as_bytes());
        out.extend_from_slice(keys.as_flattened());
        self.payload_bytes += blocks_bytes;
        Ok(())
    }
}

fn pad_bytes(bytes: u64) -> u64 {
    bytes.wrapping_neg() % ALIGN_BYTES
}

/// Encodes the trailer. Its CRC covers both headers (and through the sums in them every payload
/// byte), the padding and the sequence: if it fits, all of the frame is there.
pub(crate) fn trailer(headers: &[u8], pad: usize, sequence: u64) -> [u8; TRAILER_BYTES] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(headers);
    hasher.update([0u8; ALIGN_BYTES as usize].get(..pad).unwrap_or_default());
    hasher.update(&sequence.to_le_bytes());
    let mut out = [0; TRAILER_BYTES];
    put(&mut out, 0, &sequence.to_le_bytes());
    put(&mut out, 8, &hasher.finalize().to_le_bytes());
    put(&mut out, 12, &TRAILER_MAGIC.to_le_bytes());
    out
}

/// A frame's fixed header, sound by its CRC.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct FrameHeader {
    pub salt: u64,
    pub sequence: u64,
    pub sections: u16,
    pub headers_bytes: u32,
    pub payload_bytes: u64,
    headers_crc: u32,
}

impl FrameHeader {
    /// Decodes the first [`FRAME_HEADER_BYTES`] of a frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        const SHORT: &str = "the frame header is cut short";
        let covered = bytes.get(..HEADER_CRC_AT).ok_or(SHORT)?;
        if u32_at(bytes, 0) != Some(MAGIC) {
            return Err("no frame starts here");
        }
        if u32_at(bytes, HEADER_CRC_AT).ok_or(SHORT)? != crc32fast::hash(covered) {
            return Err("the frame header's checksum does not fit");
        }
        if u16_at(bytes, 4) != Some(VERSION) {
            return Err("the frame's version is unknown");
        }
        let sequence = u64_at(bytes, 16).ok_or(SHORT)?;
        if sequence > NUMBER_MAX {
            return Err("the frame's sequence is none");
        }
        Ok(Self {
            sections: u16_at(bytes, 6).ok_or(SHORT)?,
            salt: u64_at(bytes, 8).ok_or(SHORT)?,
            sequence,
            headers_bytes: u32_at(bytes, 24).ok_or(SHORT)?,
            payload_bytes: u64_at(bytes, 32).ok_or(SHORT)?,
            headers_crc: u32_at(bytes, 40).ok_or(SHORT)?,
        })
    }

    /// Version of a frame whose fixed header is sound, if this program does not read it.
    pub fn other_version(bytes: &[u8]) -> Option<u16> {
        let covered = bytes.get(..HEADER_CRC_AT)?;
        let is_sound = u32_at(bytes, 0) == Some(MAGIC)
            && u32_at(bytes, HEADER_CRC_AT) == Some(crc32fast::hash(covered));
        u16_at(bytes, 4).filter(|&version| is_sound && version != VERSION)
    }

    /// Bytes of the fixed header and the section headers.
    pub fn all_headers_bytes(&self) -> u64 {
        FRAME_HEADER_BYTES as u64 + u64::from(self.headers_bytes)
    }

    /// Bytes of the whole frame; `None` beyond what a file can hold.
    pub fn frame_bytes(&self) -> Option<u64> {
        let before_pad = self.all_headers_bytes().checked_add(self.payload_bytes)?;
        before_pad.checked_add(self.tail_bytes() as u64)
    }

    /// Bytes of padding and trailer.
    pub fn tail_bytes(&self) -> usize {
        let before_pad = self.all_headers_bytes().wrapping_add(self.payload_bytes);
        pad_bytes(before_pad) as usize + TRAILER_BYTES
    }

    /// Returns true if `tail` is the padding and trailer that commit this frame; `headers` are both
    /// headers as read.
    pub fn committed_by(&self, headers: &[u8], tail: &[u8]) -> bool {
        let pad = tail.len().saturating_sub(TRAILER_BYTES);
        match tail.split_at_checked(pad) {
            Some((zeros, found)) => {
                zeros.iter().all(|&byte| byte == 0) && found == trailer(headers, pad, self.sequence)
            }
            None => false,
        }
    }

    /// Decodes the section headers; `headers` are both headers as read from `position`.
    pub fn frame(&self, headers: &[u8], position: Position) -> Result<Frame, &'static str> {
        const BAD: &str = "the section headers contradict themselves";
        let section_headers = headers.get(FRAME_HEADER_BYTES..).ok_or(BAD)?;
        if crc32fast::hash(section_headers) != self.headers_crc {
            return Err("the section headers' checksum does not fit");
        }
        let mut fields = Fields(section_headers);
        let mut blocks_at = Position {
            offset: position.offset + self.all_headers_bytes(),
            ..position
        };
        let payload_end = blocks_at.offset.checked_add(self.payload_bytes);
        let mut sections = Vec::with_capacity(usize::from(self.sections));
        for _ in 0..self.sections {
            let section = section_header(&mut fields, blocks_at).ok_or(BAD)?;
            let next = blocks_at.offset.checked_add(section.blocks_bytes);
            blocks_at.offset = next.ok_or(BAD)?;
            sections.push(section);
        }
        if !fields.0.is_empty() || payload_end != Some(blocks_at.offset) {
            return Err(BAD);
        }
        let end = Position {
            offset: position.offset + self.frame_bytes().ok_or(BAD)?,
            ..position
        };
        Ok(Frame {
            position,
            end,
            sequence: self.sequence,
            sections,
        })
    }
}

fn section_header(fields: &mut Fields<'_>, blocks_at: Position) -> Option<FrameSection> {
    let month = fields.u32()?;
    let rows = fields.u32()?;
    let uncompressed_bytes = fields.u64()?;
    let blocks_bytes = fields.u64()?;
    let block_headers_crc = fields.u32()?;
    let target_bytes = fields.u16()?;
    let keys_count = fields.u16()?;
    let target = fields.bytes(usize::from(target_bytes))?;
    let keys = fields.bytes(usize::from(keys_count) * KEY_BYTES)?;
    let (keys, _) = keys.as_chunks::<KEY_BYTES>();
    Some(FrameSection {
        header: SectionHeader {
            insert_target: std::str::from_utf8(target).ok()?.to_owned(),
            month,
            rows,
            uncompressed_bytes,
            keys: keys.to_vec(),
        },
        blocks_bytes,
        blocks_at,
        block_headers_crc,
    })
}
