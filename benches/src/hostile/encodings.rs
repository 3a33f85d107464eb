//! Compressors, and one whose output is made to be expensive to decode.

use super::payloads::Piece;
use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use millrace_encoding::testing::{gzip_behind_blocks, zstd_of_tables};
use millrace_encoding::{Encoding, Hints};
use std::io::Write;

/// Encoding that a text is sent in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Gzip, as most clients send.
    Gzip,
    /// Brotli, as a compressor writes it.
    Brotli,
    /// Zstandard, as a compressor writes it.
    Zstd,
    /// LZString, by the name that some clients give it.
    Lz64,
    /// Gzip in base64, as the query parameter `data` of an image tag.
    ImageTag,
    /// Brotli of copies of two bytes each, which take no bit: the most steps for each byte sent
    /// that the format allows.
    Copies,
    /// Gzip after blocks without output, and before an empty member, so that no trailer gives the
    /// size of the output.
    Blocks,
    /// Zstandard after blocks of little but tables.
    Tables,
    /// Event in many parts, each of them a beginning of the text as [`Compression::Copies`].
    Parts,
}

/// Bytes as sent before the text of [`Compression::Blocks`] and [`Compression::Tables`].
const BLOCKS_BYTES: usize = 8 << 10;
/// Number of the properties of [`Compression::Parts`].
const PARTS: usize = 16;
/// Boundary between the parts of [`Compression::Parts`].
pub const BOUNDARY: &str = "b";

/// Distance that [`Compression::Copies`] copies from: the last distance that decoders start with.
const DISTANCE: usize = 4;
/// Bytes of one copy of [`Compression::Copies`].
const COPY_BYTES: usize = 2;

impl Compression {
    /// All encodings.
    pub const ALL: [Self; 9] = [
        Self::Gzip,
        Self::Brotli,
        Self::Zstd,
        Self::Lz64,
        Self::ImageTag,
        Self::Copies,
        Self::Blocks,
        Self::Tables,
        Self::Parts,
    ];

    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Lz64 => "lz64",
            Self::ImageTag => "data of GET",
            Self::Copies => "br of copies",
            Self::Blocks => "gzip of blocks",
            Self::Tables => "zstd of tables",
            Self::Parts => "parts of br",
        }
    }

    /// The encoding that the innermost decoder reads.
    #[must_use]
    pub const fn encoding(self) -> Encoding {
        match self {
            Self::Gzip | Self::ImageTag | Self::Blocks => Encoding::Gzip,
            Self::Lz64 => Encoding::Lz64,
            Self::Brotli | Self::Copies | Self::Parts => Encoding::Brotli,
            Self::Zstd | Self::Tables => Encoding::Zstd,
        }
    }

    /// Hints that a request gives about its encoding.
    #[must_use]
    pub fn hints(self) -> Hints {
        match self {
            Self::ImageTag | Self::Parts => Hints::default(),
            _ => Hints {
                content_encoding: self.encoding(),
                ..Hints::default()
            },
        }
    }

    /// Returns true if the encoding can send a piece repeatedly.
    #[must_use]
    pub const fn may_write(self, piece: Piece) -> bool {
        match (self, piece) {
            (Self::Copies | Self::Parts, Piece::Same(bytes)) => {
                DISTANCE.is_multiple_of(bytes.len())
            }
            (Self::Copies | Self::Parts, _) => false,
            _ => true,
        }
    }

    /// Returns true if the encoding has more blocks than its text is worth.
    #[must_use]
    pub const fn is_of_blocks(self) -> bool {
        matches!(self, Self::Blocks | Self::Tables)
    }

    /// Encodes a text.
    ///
    /// # Errors
    /// The compressor failed.
    pub fn compress(self, text: &[u8]) -> Result<Vec<u8>> {
        self.compress_behind(BLOCKS_BYTES, text)
    }

    /// Encodes a text with so many bytes of blocks before it, if the encoding is made of them.
    ///
    /// # Errors
    /// The compressor failed.
    pub fn compress_behind(self, blocks_bytes: usize, text: &[u8]) -> Result<Vec<u8>> {
        Ok(match self {
            Self::Gzip => {
                let mut writer =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
                writer.write_all(text)?;
                writer.finish()?
            }
            Self::Brotli => {
                let mut writer = brotli::CompressorWriter::new(Vec::new(), 1 << 16, 5, 22);
                writer.write_all(text)?;
                writer.into_inner()
            }
            Self::Zstd => zstd::encode_all(text, 3)?,
            Self::Lz64 => lz_str::compress_to_base64(std::str::from_utf8(text)?).into_bytes(),
            Self::ImageTag => URL_SAFE.encode(Self::Gzip.compress(text)?).into_bytes(),
            Self::Copies => copies(text)?,
            Self::Blocks => {
                let level = flate2::Compression::best();
                let mut writer = flate2::write::DeflateEncoder::new(Vec::new(), level);
                writer.write_all(text)?;
                gzip_behind_blocks(blocks_bytes, &writer.finish()?, text)
            }
            Self::Tables => {
                let text = zstd::encode_all(text, 3)?;
                [zstd_of_tables(blocks_bytes), text].concat()
            }
            Self::Parts => parts(text)?,
        })
    }
}

/// Multipart event whose properties are all the same beginning of the text.
fn parts(text: &[u8]) -> Result<Vec<u8>> {
    let property = copies(text.get(..text.len() / PARTS).unwrap_or_default())?;
    let event = br#"{"event":"a","distinct_id":"b"}"#;
    let disposition = "Content-Disposition: form-data; name=";
    let mut sent = Vec::new();
    write!(sent, "--{BOUNDARY}\r\n{disposition}\"event\"\r\n\r\n")?;
    sent.extend_from_slice(event);
    for number in 0..PARTS {
        let name = format!("event.properties.{number}");
        write!(sent, "\r\n--{BOUNDARY}\r\n{disposition}\"{name}\"\r\n")?;
        sent.extend_from_slice(b"Content-Encoding: br\r\n\r\n");
        sent.extend_from_slice(&property);
    }
    write!(sent, "\r\n--{BOUNDARY}--\r\n")?;
    Ok(sent)
}

/// Brotli (RFC 7932): the longest run in copies, the text before and after it uncompressed.
fn copies(text: &[u8]) -> Result<Vec<u8>> {
    let (mut start, mut len) = (0, 0);
    let mut at = DISTANCE;
    while at < text.len() {
        let repeated = text.iter().skip(at).zip(text.iter().skip(at - DISTANCE));
        let run = repeated.take_while(|(one, other)| one == other).count();
        if run > len {
            (start, len) = (at, run);
        }
        at += run + 1;
    }
    len -= len % COPY_BYTES;
    ensure!(len > text.len() / 4, "the text has no run of four bytes");
    let (before, rest) = text.split_at(start);
    let (run, after) = rest.split_at(len);
    let mut bits = BitWriter::default();
    // The largest window, of 16 MiB.
    bits.push(0b1111, 4);
    bits.uncompressed(before);
    for part in run.chunks(1 << 24) {
        bits.meta_block(part.len(), false);
        // One type of block of literals, commands and distances each; no postfix, no direct
        // codes; a context mode; one tree for literals, one for distances.
        bits.push(0, 3 + 6 + 2 + 2);
        // Prefix codes of one symbol: any literal; insert nothing, copy two bytes from the last
        // distance; any distance.
        for symbol_bits in [8, 10, 6] {
            bits.push(0b0001, 4);
            bits.push(0, symbol_bits);
        }
    }
    bits.uncompressed(after);
    // The last block, which is empty.
    bits.push(0b11, 2);
    Ok(bits.bytes)
}

/// Writes bits, the lowest first.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    /// Number of bits used in the last byte; 0 if it is full.
    used: u32,
}

impl BitWriter {
    fn push(&mut self, value: usize, count: u32) {
        for bit in 0..count {
            if self.used == 0 {
                self.bytes.push(0);
            }
            if let Some(last) = self.bytes.last_mut() {
                *last |= u8::from(value >> bit & 1 == 1) << self.used;
            }
            self.used = (self.used + 1) % u8::BITS;
        }
    }

    /// Writes the header of a block that is not the last, of at most 2^24 bytes.
    fn meta_block(&mut self, len: usize, is_uncompressed: bool) {
        let (nibbles, length_bits) = match len {
            0..=0x1_0000 => (0, 16),
            0x1_0001..=0x10_0000 => (1, 20),
            _ => (2, 24),
        };
        self.push(0, 1);
        self.push(nibbles, 2);
        self.push(len - 1, length_bits);
        self.push(usize::from(is_uncompressed), 1);
    }

    fn uncompressed(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(1 << 16) {
            self.meta_block(part.len(), true);
            self.used = 0;
            self.bytes.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_encoding::Decoder;

    #[test]
    fn every_compression_decodes_to_the_original_text() {
        for piece in ["[", "1,", "{\"\":"] {
            let text = format!("{{\"x\":[{}1]}}", piece.repeat(300_000));
            for compression in Compression::ALL {
                // An event in parts has the text several times.
                if compression == Compression::Parts {
                    continue;
                }
                let sent = compression.compress(text.as_bytes()).unwrap();
                let blocks_bytes = match compression.is_of_blocks() {
                    true => BLOCKS_BYTES,
                    false => 0,
                };
                let sent_max = text.len() / 200 + blocks_bytes;
                assert!(sent.len() < sent_max, "{compression:?}");
                let mut out = Vec::new();
                let sent = match compression {
                    Compression::ImageTag => URL_SAFE.decode(&sent).unwrap(),
                    _ => sent,
                };
                Decoder::default()
                    .decode(compression.encoding(), &sent, &mut out, 2 * text.len())
                    .unwrap();
                let out = out.trim_ascii_start();
                assert!(out == text.as_bytes(), "{compression:?} of {piece}");
            }
        }
    }

    #[test]
    fn copies_are_allowed_for_pieces_that_divide_the_distance() {
        for (piece, may_be) in [("1,", true), ("NaN,", true), ("{},", false)] {
            assert_eq!(
                Compression::Copies.may_write(Piece::Same(piece.as_bytes())),
                may_be
            );
        }
        assert!(copies(b"no run of any length").is_err());
    }
}
