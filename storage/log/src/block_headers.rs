//! Sums the headers of runs of blocks: what a section header holds to prove its blocks.

use millrace_blocks::{BLOCK_HEADER_BYTES, bytes_of, proven_header};

/// CRC-32 over the headers of a run of blocks; `None` if it is no such run. Each header holds a
/// checksum over the rest of its block, so the CRC covers every byte and costs next to nothing.
pub(crate) fn headers_crc(mut run: &[u8]) -> Option<u32> {
    let mut hasher = crc32fast::Hasher::new();
    while !run.is_empty() {
        let (header, _) = run.split_at_checked(BLOCK_HEADER_BYTES)?;
        let bytes = usize::try_from(bytes_of(header)?).ok()?;
        hasher.update(header);
        run = run.split_at_checked(bytes)?.1;
    }
    Some(hasher.finalize())
}

/// CRC-32 over the headers of a run that was read back: `None` also if a checksum does not fit.
pub(crate) fn proven_headers_crc(mut run: &[u8]) -> Option<u32> {
    let mut hasher = crc32fast::Hasher::new();
    while !run.is_empty() {
        let bytes = usize::try_from(bytes_of(run)?).ok()?;
        let (block, rest) = run.split_at_checked(bytes)?;
        hasher.update(proven_header(block)?);
        run = rest;
    }
    Some(hasher.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_blocks::{Compressor, store_into};

    #[test]
    fn the_crc_of_block_headers_covers_every_byte() {
        let mut run = Vec::new();
        Compressor::new().compress_into(b"an event, an event, an event", &mut run);
        store_into(b"another event", &mut run);
        let sum = headers_crc(&run);
        assert!(sum.is_some() && proven_headers_crc(&run) == sum);
        for bit in 0..run.len() * 8 {
            let mut bad = run.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(proven_headers_crc(&bad), sum, "bit {bit}");
        }
        let swapped = [&run[run.len() - 38..], &run[..run.len() - 38]].concat();
        assert_ne!(proven_headers_crc(&swapped), sum, "another order");
    }
}
