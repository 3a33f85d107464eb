//! ClickHouse's compressed blocks as a stream: the framing of `decompress=1`.

use std::io::{self, Read};

use millrace_blocks::{BLOCK_HEADER_BYTES, BlockError, BlockHeader, split_block};

use crate::exception::Exception;
use crate::held_bytes::Reservation;

/// Largest size a block's header may state, compressed or not; ClickHouse itself allows 1 GiB, its
/// writers make 1 MiB.
const BLOCK_BYTES_MAX: usize = 128 << 20;
/// Memory of a reader that needs no reservation: both buffers, each of at most twice the size of an
/// ordinary block.
const UNRESERVED_BYTES_MAX: usize = 5 << 20;

/// Reads the decompressed content of consecutive blocks; each checksum is verified before any of
/// its block's bytes are returned.
pub(crate) struct BlockReader<R> {
    source: R,
    /// The block, with its header.
    compressed: Vec<u8>,
    raw: Vec<u8>,
    /// Number of bytes of `raw` already returned.
    returned: usize,
    /// Memory of the buffers, once they are larger than ordinary blocks need.
    reservation: Reservation,
}

// === impl BlockReader ===

impl<R: Read> BlockReader<R> {
    pub(crate) fn new(source: R, reservation: Reservation) -> Self {
        Self {
            source,
            compressed: Vec::new(),
            raw: Vec::new(),
            returned: 0,
            reservation,
        }
    }

    /// Loads the next block into `raw`. Returns false if the source ended after a whole block.
    fn load(&mut self) -> io::Result<bool> {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        let got = read_full(&mut self.source, &mut bytes)?;
        if got == 0 {
            return Ok(false);
        }
        if got < bytes.len() {
            return Err(failure(
                33,
                "Compressed data ends inside the header of a block",
                "CANNOT_READ_ALL_DATA",
            ));
        }
        let header = BlockHeader::decode(&bytes);
        let largest = header.covered_bytes.max(header.uncompressed_bytes);
        let data_bytes = header.data_bytes().filter(|_| largest <= BLOCK_BYTES_MAX);
        let Some(data_bytes) = data_bytes else {
            return Err(failure(
                39,
                "Too large or impossible size of a compressed block",
                "TOO_LARGE_SIZE_COMPRESSED",
            ));
        };
        self.reserve(header.covered_bytes, header.uncompressed_bytes)?;
        // Exact sizes: buffers that grow while they are filled would take more than was reserved.
        self.compressed.clear();
        self.compressed.reserve_exact(bytes.len() + data_bytes);
        self.compressed.extend_from_slice(&bytes);
        (&mut self.source)
            .take(data_bytes as u64)
            .read_to_end(&mut self.compressed)?;
        let (block, _) = split_block(&self.compressed).map_err(failure_of)?;
        self.returned = 0;
        let raw_bytes = block.uncompressed_bytes();
        self.raw
            .reserve_exact(raw_bytes.saturating_sub(self.raw.len()));
        self.raw.resize(raw_bytes, 0);
        block.decompress_to(&mut self.raw).map_err(failure_of)?;
        Ok(true)
    }

    /// Reserves memory for a block of these sizes, if it is large.
    fn reserve(&mut self, size: usize, raw_size: usize) -> io::Result<()> {
        // Buffers stay as large as they were.
        let bytes = self.compressed.capacity().max(size) + self.raw.capacity().max(raw_size);
        if bytes <= UNRESERVED_BYTES_MAX || self.reservation.reserve(bytes) {
            return Ok(());
        }
        Err(failure(
            241,
            "Memory limit exceeded: large compressed blocks of other requests use the whole budget; send blocks of 1 MiB",
            "MEMORY_LIMIT_EXCEEDED",
        ))
    }
}

impl<R: Read> Read for BlockReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.returned == self.raw.len() {
            if !self.load()? {
                return Ok(0);
            }
        }
        let rest = self.raw.get(self.returned..).unwrap_or_default();
        let count = rest.len().min(out.len());
        if let (Some(from), Some(to)) = (rest.get(..count), out.get_mut(..count)) {
            to.copy_from_slice(from);
        }
        self.returned += count;
        Ok(count)
    }
}

/// Reads until `buffer` is full or the source ends.
pub(crate) fn read_full(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match source.read(rest) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Error of a block with ClickHouse's number and wording.
fn failure_of(error: BlockError) -> io::Error {
    match error {
        BlockError::Short => failure(
            33,
            "Compressed data ends inside a block",
            "CANNOT_READ_ALL_DATA",
        ),
        BlockError::Checksum => failure(
            40,
            "Checksum doesn't match: corrupted data",
            "CHECKSUM_DOESNT_MATCH",
        ),
        BlockError::Method(method) => failure(
            89,
            &format!("Compression method 0x{method:02x} is not supported here; use LZ4"),
            "UNKNOWN_COMPRESSION_METHOD",
        ),
        _ => failure(
            271,
            "A compressed block has another size than its header says",
            "CANNOT_DECOMPRESS",
        ),
    }
}

fn failure(code: u32, message: &str, name: &str) -> io::Error {
    io::Error::other(Exception::new(code, message, name))
}

#[cfg(test)]
mod tests {
    use millrace_blocks::{Compressor, seal, store_into};

    use super::*;
    use crate::held_bytes::HeldBytes;
    use crate::upload::from_io;

    fn read_within(budget: &HeldBytes, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut reader = BlockReader::new(bytes, budget.reservation());
        reader.read_to_end(&mut out).map(|_| out)
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        read_within(&HeldBytes::new(0), bytes)
    }

    #[test]
    fn large_blocks_share_a_budget_and_ordinary_ones_need_none() {
        const ORDINARY_BYTES: usize = 1 << 20;
        let budget = HeldBytes::new(24 << 20);
        let length = |bytes: &[u8]| read_within(&budget, bytes).map(|raw| raw.len());
        let (large, ordinary) = (one_block(20 << 20), one_block(ORDINARY_BYTES));
        assert_eq!(length(&large).unwrap(), 20 << 20);
        let mut of_others = budget.reservation();
        assert!(of_others.reserve(24 << 20));
        let error = length(&large).unwrap_err();
        assert!(error.to_string().contains("MEMORY_LIMIT"), "{error}");
        assert_eq!(length(&ordinary.repeat(3)).unwrap(), 3 * ORDINARY_BYTES);
        drop(of_others);
        assert_eq!(length(&large).unwrap(), 20 << 20);
    }

    #[test]
    fn buffers_take_no_more_than_the_largest_block_needs() {
        // Pseudo-random bytes, which compression makes no shorter.
        let noise = |bytes: usize| -> Vec<u8> {
            let next = |state: u64| state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let states = std::iter::successors(Some(1), |state| Some(next(*state)));
            states
                .map(|state| (state >> 56) as u8)
                .take(bytes)
                .collect()
        };
        let blocks = [block_of(&noise(3 << 20)), block_of(&noise(5 << 20))].concat();
        let budget = HeldBytes::new(64 << 20);
        let mut reader = BlockReader::new(blocks.as_slice(), budget.reservation());
        assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 8 << 20);
        let taken = reader.compressed.capacity() + reader.raw.capacity();
        assert!(taken <= (10 << 20) + (64 << 10), "{taken}");
    }

    /// One compressed block of zeros, however many.
    fn one_block(raw_bytes: usize) -> Vec<u8> {
        block_of(&vec![0; raw_bytes])
    }

    fn block_of(raw: &[u8]) -> Vec<u8> {
        let data = lz4_flex::block::compress(raw);
        let covered_bytes = 9 + data.len() as u32;
        let mut block = vec![0; 16];
        block.push(0x82);
        block.extend(covered_bytes.to_le_bytes());
        block.extend((raw.len() as u32).to_le_bytes());
        block.extend(data);
        seal(&mut block);
        block
    }

    fn packed(raw: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        Compressor::new().compress_into(raw, &mut packed);
        packed
    }

    #[test]
    fn blocks_are_read_back() {
        for length in [0_usize, 1, 100, 1 << 20, (3 << 20) + 1] {
            let raw: Vec<u8> = (0..length).map(|at| (at * at / 7) as u8).collect();
            let mut stored = Vec::new();
            store_into(&raw, &mut stored);
            for blocks in [packed(&raw), stored] {
                assert_eq!(read(&blocks).unwrap(), raw, "{length} bytes");
            }
        }
    }

    #[test]
    fn truncated_and_corrupted_blocks_are_errors() {
        let packed = packed(b"rows of an insert, rows of an insert");
        for cut in 1..packed.len() {
            assert!(read(&packed[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[at] ^= 1;
            assert!(read(&damaged).is_err(), "flipped at {at}");
        }
    }

    #[test]
    fn errors_have_the_codes_of_clickhouse() {
        let sound = packed(b"rows of an insert, rows of an insert");
        let with = |at: usize, bytes: &[u8]| {
            let mut block = sound.clone();
            block[at..at + bytes.len()].copy_from_slice(bytes);
            seal(&mut block);
            block
        };
        let too_large = (BLOCK_BYTES_MAX as u32 + 1).to_le_bytes();
        let mut of_another_checksum = sound.clone();
        of_another_checksum[0] ^= 1;
        for (name, block, code) in [
            ("a cut header", sound[..20].to_vec(), 33),
            ("a cut block", sound[..sound.len() - 1].to_vec(), 33),
            ("fewer bytes than its header", with(17, &[8, 0, 0, 0]), 39),
            ("too many bytes", with(17, &too_large), 39),
            ("too many bytes of rows", with(21, &too_large), 39),
            ("another checksum", of_another_checksum, 40),
            ("another method", with(16, &[0x90]), 89),
            ("another size", with(21, &[1, 0, 0, 0]), 271),
        ] {
            let error = read(&block).unwrap_err();
            assert_eq!(from_io(&error).code, code, "{name}");
        }
    }
}
