//! Reads the sound blocks of a damaged run.

use super::head::{METHOD_LZ4, METHOD_NONE};
use super::read::split_block;
use crate::block::{HEAD_BYTES, bytes_of};

/// Place of the method in a block.
const METHOD_AT: usize = HEAD_BYTES - 9;

/// The rows of a damaged run's sound blocks: the first stretch begins where the run does, each other one behind
/// a damaged place, wherever that leaves it within a row. At most `bytes_max` bytes in all.
#[must_use]
pub fn decompress_sound(run: &[u8], bytes_max: usize) -> Vec<Vec<u8>> {
    let mut stretches = vec![Vec::new()];
    let (mut rest, mut room) = (run, bytes_max);
    while !rest.is_empty() {
        let stretch = stretches.last_mut();
        let sound = stretch.and_then(|stretch| take_block(rest, stretch, &mut room));
        rest = match sound {
            Some(behind) => behind,
            None => {
                let Some(next) = next_block(rest) else { break };
                stretches.push(Vec::new());
                next
            }
        };
    }
    stretches
}

/// Appends what the first block holds; what is behind it, if it is sound and there is room.
fn take_block<'a>(run: &'a [u8], out: &mut Vec<u8>, room: &mut usize) -> Option<&'a [u8]> {
    let (block, behind) = split_block(run).ok()?;
    let before = out.len();
    if block.uncompressed_bytes() > *room || block.append_to(out).is_err() {
        return None;
    }
    *room -= out.len() - before;
    Some(behind)
}

/// The first sound block behind a damaged one. Where that one ends is in its head, unless the damage is there.
fn next_block(run: &[u8]) -> Option<&[u8]> {
    let is_sound = |from: &&[u8]| split_block(from).is_ok();
    let by_head = bytes_of(run.get(..HEAD_BYTES)?).and_then(|bytes| run.get(bytes as usize..));
    if let Some(next) = by_head.filter(is_sound) {
        return Some(next);
    }
    let others = (1..run.len()).filter_map(|at| run.get(at..));
    others.filter(|from| may_begin(from)).find(is_sound)
}

/// Looks for what any block begins with, before its checksum is reckoned.
fn may_begin(run: &[u8]) -> bool {
    let method = run.get(METHOD_AT);
    let bytes = run.get(..HEAD_BYTES).and_then(bytes_of);
    method.is_some_and(|method| [METHOD_LZ4, METHOD_NONE].contains(method))
        && bytes.is_some_and(|bytes| bytes <= run.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Compressor;

    #[test]
    fn what_is_not_damaged_is_read_wherever_the_damage_is() {
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
            // Its checksum, its sizes, and its data.
            for byte in [3, 18, 22, 700] {
                let mut bad = run.clone();
                bad[ends[damaged] + byte] ^= 0x10;
                let found = decompress_sound(&bad, 1 << 20);
                let behind = pieces[damaged + 1..].concat();
                assert_eq!(found[0], pieces[..damaged].concat(), "{damaged} at {byte}");
                assert_eq!(found[1..].concat(), behind, "{damaged} at {byte}");
            }
        }
        assert_eq!(decompress_sound(&run, 1 << 20), [rows]);
        assert_eq!(decompress_sound(b"no blocks at all", 1 << 20), [b""]);
    }
}
