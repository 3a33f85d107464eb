//! Target `frame`: bytes that are read as a frame of the log are byte for byte what we would
//! write.

use millrace_blocks::{Compressor, decompress_into_vec, store_into};
use millrace_log::testing::SeededRng;
use millrace_log::testing::bytes::{decode_frame, encode_frame, reseal_blocks, reseal_frame};
use millrace_log::{Section, SectionHeader};
use std::cell::RefCell;

/// Most bytes of rows that blocks may decompress to in this test.
const ROWS_BYTES_MAX: usize = 1 << 20;
/// Bytes above which the rows of a section make several compressed blocks.
const LONG_BYTES: usize = 130_000;
/// Unused bytes of a frame's header, which we write as zeros.
const UNUSED: std::ops::Range<usize> = 28..32;

thread_local! {
    static COMPRESSOR: RefCell<Compressor> = RefCell::new(Compressor::new());
}

/// Reads the bytes as a frame, as they are and with corrected checksums; or makes a frame of them
/// and damages it.
///
/// # Panics
///
/// If a frame is read that we would have written otherwise, or damage is not detected.
pub fn frame(data: &[u8]) {
    frame_blocks(data);
}

/// Runs [`frame`] and returns the number of blocks of the longest section of the frame.
///
/// # Panics
///
/// As [`frame`] does.
pub fn frame_blocks(data: &[u8]) -> usize {
    let Some((&choice, data)) = data.split_first() else {
        return 0;
    };
    match choice % 3 {
        0 => {
            let mut sealed = data.to_vec();
            reseal_frame(&mut sealed);
            read(data).max(read(&sealed))
        }
        1 => {
            let mut run = data.to_vec();
            reseal_blocks(&mut run);
            let mut rows = Vec::new();
            let result = decompress_into_vec(&run, &mut rows, ROWS_BYTES_MAX);
            assert!(rows.len() <= ROWS_BYTES_MAX, "{result:?}");
            0
        }
        _ => write(data, u64::from(choice)),
    }
}

/// Reads a frame, writes it again, and compares; returns the blocks of its longest section.
fn read(bytes: &[u8]) -> usize {
    let Ok((frame, runs)) = decode_frame(bytes) else {
        return 0;
    };
    let sections: Vec<_> = frame
        .sections
        .iter()
        .zip(&runs)
        .map(|(section, run)| Section {
            header: &section.header,
            blocks: run,
        })
        .collect();
    let salt = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
    // A frame of no sections is never written.
    if sections.is_empty() || bytes[UNUSED] != [0; 4] {
        return 0;
    }
    let again = encode_frame(&sections, salt, frame.sequence).unwrap();
    assert_eq!(again, bytes, "written as it was read");
    longest(&runs)
}

/// Number of blocks of the longest section.
fn longest(runs: &[&[u8]]) -> usize {
    let count = |mut run: &[u8]| {
        let mut blocks = 0;
        // A block starts with its checksum (16 bytes) and method (1 byte). The size counts the
        // bytes after the checksum.
        while let Some(size) = run.get(17..21) {
            let size = u32::from_le_bytes(size.try_into().unwrap()) as usize;
            run = &run[16 + size..];
            blocks += 1;
        }
        blocks
    };
    runs.iter().copied().map(count).max().unwrap_or_default()
}

/// Writes a frame of one to three sections, reads it, and damages it.
fn write(data: &[u8], seed: u64) -> usize {
    let mut rng = SeededRng::new(seed ^ (data.len() as u64) << 8);
    let count = 1 + rng.below(3) as usize;
    let owned: Vec<_> = data
        .chunks(data.len().div_ceil(count).max(1))
        .zip(0_u32..)
        .map(|(part, index)| {
            let name = String::from_utf8_lossy(&part[..part.len().min(40)]).into_owned();
            let header = SectionHeader {
                insert_target: name,
                month: rng.next_u64() as u32,
                rows: index,
                uncompressed_bytes: rng.next_u64(),
                keys: part.as_chunks().0.iter().take(3).copied().collect(),
            };
            // Long sections are too rare in a fuzzer's inputs.
            let times = match rng.below(8) {
                0 => LONG_BYTES / part.len() + 1,
                _ => 1,
            };
            let part = part.repeat(times);
            let mut blocks = Vec::new();
            if rng.below(2) == 0 {
                store_into(&part, &mut blocks);
            } else {
                COMPRESSOR.with_borrow_mut(|c| c.compress_into(&part, &mut blocks));
            }
            (header, blocks, part)
        })
        .collect();
    let sections: Vec<_> = owned
        .iter()
        .map(|(header, blocks, _)| Section { header, blocks })
        .collect();
    let Ok(mut bytes) = encode_frame(&sections, rng.next_u64(), 1) else {
        assert!(sections.is_empty());
        return 0;
    };
    let (frame, runs) = decode_frame(&bytes).unwrap();
    let blocks = longest(&runs);
    for (section, (header, _, _)) in frame.sections.iter().zip(&owned) {
        assert_eq!(section.header, *header);
    }
    for (run, (_, _, part)) in runs.iter().zip(&owned) {
        let mut rows = Vec::new();
        decompress_into_vec(run, &mut rows, ROWS_BYTES_MAX).unwrap();
        assert_eq!(rows, *part);
    }
    let at = rng.below(bytes.len() as u64) as usize;
    bytes[at] ^= 1 + rng.below(255) as u8;
    assert!(decode_frame(&bytes).is_err(), "byte {at} is damaged");
    blocks
}
