//! Frames and segments as bytes, for fuzzers: encoded, decoded, and with corrected checksums, so
//! that changed bytes are tested for their contents and not only for their checksum.

use crate::block_headers::{headers_crc, proven_headers_crc};
use crate::fields::{put, u16_at, u32_at, u64_at};
use crate::frame::{ALIGN_BYTES, Encoder, FRAME_HEADER_BYTES, FrameHeader, MAGIC, trailer};
use crate::segment::SEGMENT_HEADER_BYTES;
use crate::{Frame, Position, Section};
use millrace_blocks::{bytes_of, seal};

/// Bytes of a section header before its insert target.
const SECTION_BYTES: usize = 32;
const SECTION_CRC_AT: usize = 24;

/// Encodes a frame as it is appended.
///
/// # Errors
///
/// The reason why the sections cannot be a frame.
pub fn encode_frame(
    sections: &[Section<'_>],
    salt: u64,
    sequence: u64,
) -> Result<Vec<u8>, &'static str> {
    let mut encoder = Encoder::default();
    encoder.encode(sections)?;
    encoder.seal(salt, sequence);
    let mut out = encoder.headers.clone();
    for section in sections {
        out.extend_from_slice(section.blocks);
    }
    out.extend_from_slice(encoder.tail());
    Ok(out)
}

/// Decodes a whole frame, each byte checked as in a recovery; returns it with each section's
/// blocks.
///
/// # Errors
///
/// The reason why the bytes are not a frame.
pub fn decode_frame(bytes: &[u8]) -> Result<(Frame, Vec<&[u8]>), &'static str> {
    const SHORT: &str = "the frame is cut short";
    let header = FrameHeader::decode(bytes.get(..FRAME_HEADER_BYTES).unwrap_or(bytes))?;
    if header.frame_bytes() != Some(bytes.len() as u64) {
        return Err(SHORT);
    }
    let (headers, rest) = bytes
        .split_at_checked(header.all_headers_bytes() as usize)
        .ok_or(SHORT)?;
    let frame = header.frame(headers, Position::FIRST)?;
    let (mut payload, tail) = rest
        .split_at_checked(rest.len() - header.tail_bytes())
        .ok_or(SHORT)?;
    let mut runs = Vec::new();
    for section in &frame.sections {
        let (run, more) = payload
            .split_at_checked(section.blocks_bytes as usize)
            .ok_or(SHORT)?;
        if proven_headers_crc(run) != Some(section.block_headers_crc) {
            return Err("the checksum of a section does not fit");
        }
        runs.push(run);
        payload = more;
    }
    if !header.committed_by(headers, tail) {
        return Err("the frame is not committed");
    }
    Ok((frame, runs))
}

/// Corrects every checksum of the frame that the bytes begin with, as far as they go.
pub fn reseal_frame(bytes: &mut [u8]) {
    let (Some(sections), Some(headers_bytes)) = (u16_at(bytes, 6), u32_at(bytes, 24)) else {
        return;
    };
    let head_bytes = FRAME_HEADER_BYTES.saturating_add(headers_bytes as usize);
    if let Some((head, payload)) = bytes.split_at_mut_checked(head_bytes) {
        reseal_sections(head, payload, sections);
        let crc = crc32fast::hash(head.get(FRAME_HEADER_BYTES..).unwrap_or_default());
        put(head, 40, &crc.to_le_bytes());
    }
    let Some(covered) = bytes.get(..FRAME_HEADER_BYTES - 4) else {
        return;
    };
    let crc = crc32fast::hash(covered);
    put(bytes, FRAME_HEADER_BYTES - 4, &crc.to_le_bytes());
    let Ok(header) = FrameHeader::decode(bytes) else {
        return;
    };
    let end = header
        .frame_bytes()
        .and_then(|end| usize::try_from(end).ok());
    let Some(frame) = end.and_then(|end| bytes.get_mut(..end)) else {
        return;
    };
    let pad = header.tail_bytes() - 16;
    let commit = trailer(
        frame.get(..head_bytes).unwrap_or_default(),
        pad,
        header.sequence,
    );
    let at = frame.len() - commit.len();
    put(frame, at, &commit);
}

fn reseal_sections(head: &mut [u8], mut payload: &mut [u8], sections: u16) {
    let mut at = FRAME_HEADER_BYTES;
    for _ in 0..sections {
        let (Some(blocks), Some(target), Some(keys)) = (
            u64_at(head, at + 16),
            u16_at(head, at + 28),
            u16_at(head, at + 30),
        ) else {
            return;
        };
        let Some((run, rest)) = usize::try_from(blocks)
            .ok()
            .and_then(|blocks| payload.split_at_mut_checked(blocks))
        else {
            return;
        };
        reseal_blocks(run);
        let crc = headers_crc(run).unwrap_or_default();
        put(head, at + SECTION_CRC_AT, &crc.to_le_bytes());
        payload = rest;
        at += SECTION_BYTES + usize::from(target) + usize::from(keys) * 24;
    }
}

/// Corrects the checksum of every block of a run, as far as it is one.
pub fn reseal_blocks(mut run: &mut [u8]) {
    while let Some(bytes) = bytes_of(run).and_then(|bytes| usize::try_from(bytes).ok()) {
        let Some((block, rest)) = run.split_at_mut_checked(bytes) else {
            return;
        };
        seal(block);
        run = rest;
    }
}

/// Corrects every checksum of a segment: its header's, and those of bytes that look like a frame.
pub fn reseal_segment(bytes: &mut [u8], number: u64) {
    put(bytes, 16, &number.to_le_bytes());
    if let Some(covered) = bytes.get(..60) {
        let crc = crc32fast::hash(covered);
        put(bytes, 60, &crc.to_le_bytes());
    }
    let mut at = SEGMENT_HEADER_BYTES as usize;
    while let Some(rest) = bytes.get_mut(at..).filter(|rest| !rest.is_empty()) {
        if u32_at(rest, 0) == Some(MAGIC) {
            reseal_frame(rest);
        }
        at += ALIGN_BYTES as usize;
    }
}
