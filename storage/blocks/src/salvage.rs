//! Reads the sound blocks of a damaged run.

use crate::header::{BLOCK_HEADER_BYTES, METHOD_LZ4, METHOD_NONE, bytes_of};
use crate::read::split_block;

/// Offset of the method in a block.
const METHOD_AT: usize = BLOCK_HEADER_BYTES - 9;

/// Rows of the sound blocks of a damaged run.
#[derive(Debug, PartialEq, Eq)]
pub struct SoundBlocks {
    /// Stretches of rows: the first begins where the run does, each other one behind damage, at any
    /// byte of a row.
    pub stretches: Vec<Vec<u8>>,
    /// True if the last stretch ends where the run does.
    pub is_to_end: bool,
}

/// Decompresses the sound blocks of a damaged run, to at most `bytes_max` bytes in all.
#[must_use]
pub fn decompress_sound(run: &[u8], bytes_max: usize) -> SoundBlocks {
    let (mut stretches, mut is_to_end) = (vec![Vec::new()], true);
    let (mut rest, mut left) = (run, bytes_max);
    while !rest.is_empty() {
        let stretch = stretches.last_mut();
        let sound = stretch.and_then(|stretch| take_block(rest, stretch, &mut left));
        rest = match sound {
            Some(behind) => behind,
            None => {
                let Some(next) = next_block(rest) else {
                    is_to_end = false;
                    break;
                };
                stretches.push(Vec::new());
                next
            }
        };
    }
    SoundBlocks {
        stretches,
        is_to_end,
    }
}

/// Appends the first block's rows and returns the rest of the run, if the block is sound and fits.
fn take_block<'a>(run: &'a [u8], out: &mut Vec<u8>, left: &mut usize) -> Option<&'a [u8]> {
    let (block, behind) = split_block(run).ok()?;
    let before = out.len();
    if block.uncompressed_bytes() > *left || block.append_to(out).is_err() {
        return None;
    }
    *left -= out.len() - before;
    Some(behind)
}

/// Returns the run from the first sound block behind a damaged one. The header has the damaged
/// one's end, unless the damage is there.
fn next_block(run: &[u8]) -> Option<&[u8]> {
    let is_sound = |from: &&[u8]| split_block(from).is_ok();
    let by_header =
        bytes_of(run.get(..BLOCK_HEADER_BYTES)?).and_then(|bytes| run.get(bytes as usize..));
    if let Some(next) = by_header.filter(is_sound) {
        return Some(next);
    }
    let others = (1..run.len()).filter_map(|at| run.get(at..));
    others.filter(|from| may_begin(from)).find(is_sound)
}

/// Returns true if a block may begin here: a cheap test before its checksum is computed.
fn may_begin(run: &[u8]) -> bool {
    let method = run.get(METHOD_AT);
    let bytes = run.get(..BLOCK_HEADER_BYTES).and_then(bytes_of);
    method.is_some_and(|method| [METHOD_LZ4, METHOD_NONE].contains(method))
        && bytes.is_some_and(|bytes| bytes <= run.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Compressor;

    #[test]
    fn sound_blocks_are_read_wherever_the_damage_is() {
        let rows: Vec<u8> = (0..300_000_u64).map(|at| ((at * at) >> 7) as u8).collect();
        let mut run = Vec::new();
        Compressor::new().compress_into(&rows, &mut run);
        let mut ends = vec![0];
        while let Ok((_, behind)) = split_block(&run[ends[ends.len() - 1]..]) {
            ends.push(run.len() - behind.len());
        }
        let pieces: Vec<&[u8]> = rows.chunks(64 << 10).collect();
        assert_eq!(pieces.len(), ends.len() - 1);
        for damaged in 0..pieces.len() {
            // Damage in its checksum, its sizes, and its data.
            for byte in [3, 18, 22, 700] {
                let mut bad = run.clone();
                bad[ends[damaged] + byte] ^= 0x10;
                let sound = decompress_sound(&bad, 1 << 20);
                let found = sound.stretches;
                assert_eq!(sound.is_to_end, damaged + 1 < pieces.len());
                let behind = pieces[damaged + 1..].concat();
                assert_eq!(found[0], pieces[..damaged].concat(), "{damaged} at {byte}");
                assert_eq!(found[1..].concat(), behind, "{damaged} at {byte}");
            }
        }
        let sound = decompress_sound(&run, 1 << 20);
        assert!(sound.stretches == [rows] && sound.is_to_end);
        let none = decompress_sound(b"no blocks at all", 1 << 20);
        assert!(none.stretches == [b""] && !none.is_to_end);
    }
}
