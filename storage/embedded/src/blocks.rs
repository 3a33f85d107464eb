//! ClickHouse's compressed blocks as a stream: the framing of `decompress=1`.

use std::io::{self, Read};

use millrace_blocks::{BLOCK_HEADER_BYTES, BlockError, BlockHeader, split_block};

use crate::exception::Exception;

/// Largest size a block's header may state, compressed or not; ClickHouse itself allows 1 GiB, its
/// writers make 1 MiB.
const BLOCK_BYTES_MAX: usize = 128 << 20;

/// Reads the decompressed content of consecutive blocks; each checksum is verified before any of
/// its block's bytes are returned.
pub(crate) struct BlockReader<R> {
    source: R,
    /// The block, with its header.
    compressed: Vec<u8>,
    raw: Vec<u8>,
    /// Number of bytes of `raw` already returned.
    returned: usize,
}

// === impl BlockReader ===

impl<R: Read> BlockReader<R> {
    pub(crate) fn new(source: R) -> Self {
        Self {
            source,
            compressed: Vec::new(),
            raw: Vec::new(),
            returned: 0,
        }
    }

    /// Loads the next block into `raw`. Returns false at a clean end, which is between two blocks.
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
        self.compressed.clear();
        self.compressed.extend_from_slice(&bytes);
        (&mut self.source)
            .take(data_bytes as u64)
            .read_to_end(&mut self.compressed)?;
        let (block, _) = split_block(&self.compressed).map_err(failure_of)?;
        self.returned = 0;
        self.raw.resize(block.uncompressed_bytes(), 0);
        block.decompress_to(&mut self.raw).map_err(failure_of)?;
        Ok(true)
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
    use crate::upload::from_io;

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        BlockReader::new(bytes).read_to_end(&mut out).map(|_| out)
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
