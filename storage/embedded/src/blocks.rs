//! ClickHouse's compressed blocks, the framing of `compress=1` and `decompress=1`.
//!
//! ```text
//! checksum  16 bytes  CityHash128 (version 1.0.2) of all that follows
//! method     1 byte   0x82 LZ4, 0x02 stored
//! size       4 bytes  little-endian, compressed bytes including these nine bytes of header
//! raw size   4 bytes  little-endian, bytes after decompression
//! data
//! ```

use std::io::{self, Read};

use cityhash_rs::cityhash_102_128;

use crate::exception::Exception;
use crate::held_bytes::Reservation;

const CHECKSUM_BYTES: usize = 16;
const HEADER_BYTES: usize = 9;
const METHOD_LZ4: u8 = 0x82;
const METHOD_NONE: u8 = 0x02;

/// Largest size a block's header may state, compressed or not; ClickHouse itself allows 1 GiB, its
/// writers make 1 MiB.
const BLOCK_BYTES_MAX: usize = 128 << 20;
/// Memory of a reader that is in no budget: for both buffers, grown to twice the size of ordinary
/// blocks.
const BUFFERS_BYTES_FREE: usize = 5 << 20;

/// Bytes we put into one block when writing.
const WRITE_BYTES_MAX: usize = 1 << 20;

/// Reads the decompressed content of consecutive blocks; each checksum is verified before any of
/// its block's bytes are returned.
pub(crate) struct BlockReader<R> {
    source: R,
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

    /// Loads the next block into `raw`. Returns false at a clean end, which is between two blocks.
    fn load(&mut self) -> io::Result<bool> {
        let mut prefix = [0; CHECKSUM_BYTES + HEADER_BYTES];
        let got = read_full(&mut self.source, &mut prefix)?;
        if got == 0 {
            return Ok(false);
        }
        if got < prefix.len() {
            return Err(failure(
                33,
                "Compressed data ends inside the header of a block",
                "CANNOT_READ_ALL_DATA",
            ));
        }
        let (checksum, header) = prefix.split_at(CHECKSUM_BYTES);
        let (size, raw_size) = (u32_at(header, 1), u32_at(header, 5));
        if !(HEADER_BYTES..=BLOCK_BYTES_MAX).contains(&size) || raw_size > BLOCK_BYTES_MAX {
            return Err(failure(
                39,
                "Too large or impossible size of a compressed block",
                "TOO_LARGE_SIZE_COMPRESSED",
            ));
        }
        self.reserve(size, raw_size)?;
        self.compressed.clear();
        self.compressed.extend_from_slice(header);
        let rest = size - HEADER_BYTES;
        if (&mut self.source)
            .take(rest as u64)
            .read_to_end(&mut self.compressed)?
            < rest
        {
            return Err(failure(
                33,
                "Compressed data ends inside a block",
                "CANNOT_READ_ALL_DATA",
            ));
        }
        if checksum_of(&self.compressed) != checksum {
            return Err(failure(
                40,
                "Checksum doesn't match: corrupted data",
                "CHECKSUM_DOESNT_MATCH",
            ));
        }
        self.decompress(raw_size)?;
        Ok(true)
    }

    /// Reserves memory for a block of these sizes, if it is large.
    fn reserve(&mut self, size: usize, raw_size: usize) -> io::Result<()> {
        // Buffers stay as large as they were.
        let bytes = self.compressed.capacity().max(size) + self.raw.capacity().max(raw_size);
        if bytes <= BUFFERS_BYTES_FREE || self.reservation.reserve(bytes) {
            return Ok(());
        }
        Err(failure(
            241,
            "Memory limit exceeded: large compressed blocks of others take all there is; send blocks of 1 MiB",
            "MEMORY_LIMIT_EXCEEDED",
        ))
    }

    fn decompress(&mut self, raw_size: usize) -> io::Result<()> {
        let method = self.compressed.first().copied().unwrap_or_default();
        let data = self.compressed.get(HEADER_BYTES..).unwrap_or_default();
        self.returned = 0;
        self.raw.resize(raw_size, 0);
        let written = match method {
            METHOD_LZ4 => lz4_flex::block::decompress_into(data, &mut self.raw)
                .map_err(|_| failure(271, "Cannot decompress an LZ4 block", "CANNOT_DECOMPRESS"))?,
            METHOD_NONE if data.len() == raw_size => {
                self.raw.copy_from_slice(data);
                raw_size
            }
            _ => {
                return Err(failure(
                    89,
                    &format!("Compression method 0x{method:02x} is not supported here; use LZ4"),
                    "UNKNOWN_COMPRESSION_METHOD",
                ));
            }
        };
        if written != raw_size {
            return Err(failure(
                271,
                "A compressed block has another size than its header says",
                "CANNOT_DECOMPRESS",
            ));
        }
        Ok(())
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

/// Appends `raw` to `out` as LZ4 blocks.
pub(crate) fn compress_into(raw: &[u8], out: &mut Vec<u8>) {
    for chunk in raw.chunks(WRITE_BYTES_MAX) {
        let mut block =
            vec![0; HEADER_BYTES + lz4_flex::block::get_maximum_output_size(chunk.len())];
        let (header, data) = block.split_at_mut(HEADER_BYTES);
        // The buffer has the size that compression can at most need, so this cannot fail.
        let Ok(written) = lz4_flex::block::compress_into(chunk, data) else {
            continue;
        };
        let size = (HEADER_BYTES + written) as u32;
        let fields = std::iter::once(METHOD_LZ4)
            .chain(size.to_le_bytes())
            .chain((chunk.len() as u32).to_le_bytes());
        for (slot, byte) in header.iter_mut().zip(fields) {
            *slot = byte;
        }
        block.truncate(HEADER_BYTES + written);
        out.extend_from_slice(&checksum_of(&block));
        out.extend_from_slice(&block);
    }
}

/// Checksum in the block's byte order: the two halves swapped against the number's own order.
fn checksum_of(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    cityhash_102_128(bytes).rotate_right(64).to_le_bytes()
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    u32::from_le_bytes(field.copied().unwrap_or_default()) as usize
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

fn failure(code: u32, message: &str, name: &str) -> io::Error {
    io::Error::other(Exception::new(code, message, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held_bytes::HeldBytes;

    fn read_within(budget: &HeldBytes, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut reader = BlockReader::new(bytes, budget.reservation());
        reader.read_to_end(&mut out).map(|_| out)
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        read_within(&HeldBytes::new(0), bytes)
    }

    /// One compressed block of zeros.
    fn block(raw_size: usize) -> Vec<u8> {
        let data = lz4_flex::block::compress(&vec![0; raw_size]);
        let mut block = vec![METHOD_LZ4];
        block.extend(((HEADER_BYTES + data.len()) as u32).to_le_bytes());
        block.extend((raw_size as u32).to_le_bytes());
        block.extend(data);
        [checksum_of(&block).to_vec(), block].concat()
    }

    #[test]
    fn large_blocks_share_a_budget_and_ordinary_ones_need_none() {
        let budget = HeldBytes::new(24 << 20);
        let length = |bytes: &[u8]| read_within(&budget, bytes).map(|raw| raw.len());
        let (large, ordinary) = (block(20 << 20), block(WRITE_BYTES_MAX));
        assert_eq!(length(&large).unwrap(), 20 << 20);
        let mut of_others = budget.reservation();
        assert!(of_others.reserve(24 << 20));
        let error = length(&large).unwrap_err();
        assert!(error.to_string().contains("MEMORY_LIMIT"), "{error}");
        assert_eq!(length(&ordinary.repeat(3)).unwrap(), 3 * WRITE_BYTES_MAX);
        drop(of_others);
        assert_eq!(length(&large).unwrap(), 20 << 20);
    }

    #[test]
    fn compressed_blocks_are_read_back() {
        for length in [0, 1, 100, WRITE_BYTES_MAX, 3 * WRITE_BYTES_MAX + 1] {
            let raw: Vec<u8> = (0..length).map(|at| (at * at / 7) as u8).collect();
            let mut packed = Vec::new();
            compress_into(&raw, &mut packed);
            assert_eq!(read(&packed).unwrap(), raw, "{length} bytes");
        }
    }

    #[test]
    fn truncated_and_corrupted_blocks_are_errors() {
        let mut packed = Vec::new();
        compress_into(b"rows of an insert, rows of an insert", &mut packed);
        for cut in 1..packed.len() {
            assert!(read(&packed[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[at] ^= 1;
            assert!(read(&damaged).is_err(), "flipped at {at}");
        }
    }
}
