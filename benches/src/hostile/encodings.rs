//! Compressors, and one that is made to cost its reader much.

use super::shapes::Piece;
use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use millrace_encoding::testing::{gzip_behind_blocks, zstd_of_tables};
use millrace_encoding::{Encoding, Hints};
use std::io::Write;

/// How a text is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// As most clients send it.
    Gzip,
    /// By a compressor.
    Brotli,
    /// Likewise.
    Zstd,
    /// LZString, as some clients name it.
    Lz64,
    /// Gzip in base64, as the field `data` of a picture's address.
    ImageTag,
    /// Brotli of copies of two bytes each, which take no bit: the most steps for each byte sent that there are.
    Copies,
    /// Gzip behind blocks of which nothing comes out, and with another member, so that nothing says how much does.
    Blocks,
    /// Zstd behind blocks of little else than tables.
    Tables,
    /// An event in many parts, each as [`Compression::Copies`] of a part of the text.
    Parts,
}

/// Bytes as sent of [`Compression::Blocks`] and [`Compression::Tables`] that are before the text.
const BLOCKS_BYTES: usize = 8 << 10;

/// Parts of [`Compression::Parts`] that are properties, and what is between them.
const PARTS: usize = 16;
pub const BOUNDARY: &str = "b";
/// From where [`Compression::Copies`] copies: what decoders begin with as the last distance.
const DISTANCE: usize = 4;
/// Bytes of one of its copies.
const COPY_BYTES: usize = 2;

impl Compression {
    /// All there are.
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

    /// Its name in reports.
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

    /// What it is decoded by in the end.
    #[must_use]
    pub const fn encoding(self) -> Encoding {
        match self {
            Self::Gzip | Self::ImageTag | Self::Blocks => Encoding::Gzip,
            Self::Lz64 => Encoding::Lz64,
            Self::Brotli | Self::Copies | Self::Parts => Encoding::Brotli,
            Self::Zstd | Self::Tables => Encoding::Zstd,
        }
    }

    /// What a request says of it.
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

    /// Whether it can send many of a piece.
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

    /// Whether it is made of more blocks than its text is worth.
    #[must_use]
    pub const fn is_of_blocks(self) -> bool {
        matches!(self, Self::Blocks | Self::Tables)
    }

    /// A text as it is sent.
    ///
    /// # Errors
    /// The compressor failed.
    pub fn compress(self, text: &[u8]) -> Result<Vec<u8>> {
        self.compress_behind(BLOCKS_BYTES, text)
    }

    /// The same with so many bytes of blocks before it, where it is made of them.
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

/// An event whose properties are all the same beginning of the text.
fn parts(text: &[u8]) -> Result<Vec<u8>> {
    let property = copies(text.get(..text.len() / PARTS).unwrap_or_default())?;
    let event = br#"{"event":"a","distinct_id":"b"}"#;
    let mut sent = Vec::new();
    write!(
        sent,
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"event\"\r\n\r\n"
    )?;
    sent.extend_from_slice(event);
    for number in 0..PARTS {
        let name = format!("event.properties.{number}");
        write!(
            sent,
            "\r\n--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n"
        )?;
        sent.extend_from_slice(b"Content-Encoding: br\r\n\r\n");
        sent.extend_from_slice(&property);
    }
    write!(sent, "\r\n--{BOUNDARY}--\r\n")?;
    Ok(sent)
}

/// Brotli (RFC 7932): what is before the longest run and behind it as it is, the run in copies.
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
    let mut bits = Bits::default();
    // The largest window, of 16 MiB.
    bits.push(0b1111, 4);
    bits.as_it_is(before);
    for part in run.chunks(1 << 24) {
        bits.meta_block(part.len(), false);
        // One type of block of literals, commands and distances each; no postfix, no direct codes; a context
        // mode; one tree for literals, one for distances.
        bits.push(0, 3 + 6 + 2 + 2);
        // Prefix codes of one symbol: any literal; insert nothing, copy two bytes from the last distance; any
        // distance.
        for symbol_bits in [8, 10, 6] {
            bits.push(0b0001, 4);
            bits.push(0, symbol_bits);
        }
    }
    bits.as_it_is(after);
    // The last block, which is empty.
    bits.push(0b11, 2);
    Ok(bits.bytes)
}

/// Bits, the lowest first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    /// Bits of the last byte that are used; none if it is full.
    used: u32,
}

impl Bits {
    fn push(&mut self, value: usize, count: u32) {
        for place in 0..count {
            if self.used == 0 {
                self.bytes.push(0);
            }
            if let Some(last) = self.bytes.last_mut() {
                *last |= u8::from(value >> place & 1 == 1) << self.used;
            }
            self.used = (self.used + 1) % u8::BITS;
        }
    }

    /// The head of a block that is not the last, of at most 2^24 bytes.
    fn meta_block(&mut self, len: usize, is_as_it_is: bool) {
        let (nibbles, length_bits) = match len {
            0..=0x1_0000 => (0, 16),
            0x1_0001..=0x10_0000 => (1, 20),
            _ => (2, 24),
        };
        self.push(0, 1);
        self.push(nibbles, 2);
        self.push(len - 1, length_bits);
        self.push(usize::from(is_as_it_is), 1);
    }

    fn as_it_is(&mut self, bytes: &[u8]) {
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
    fn what_is_compressed_is_decoded_to_the_same() {
        for piece in ["[", "1,", "{\"\":"] {
            let text = format!("{{\"x\":[{}1]}}", piece.repeat(300_000));
            for compression in Compression::ALL {
                if compression == Compression::Parts {
                    continue;
                }
                let sent = compression.compress(text.as_bytes()).unwrap();
                let blocks_bytes = if compression.is_of_blocks() {
                    BLOCKS_BYTES
                } else {
                    0
                };
                assert!(
                    sent.len() < text.len() / 200 + blocks_bytes,
                    "{compression:?}"
                );
                let mut out = Vec::new();
                let sent = match compression {
                    Compression::ImageTag => URL_SAFE.decode(&sent).unwrap(),
                    _ => sent,
                };
                Decoder::default()
                    .decode(compression.encoding(), &sent, &mut out, 2 * text.len())
                    .unwrap();
                assert!(
                    out.trim_ascii_start() == text.as_bytes(),
                    "{compression:?} of {piece}"
                );
            }
        }
    }

    #[test]
    fn only_short_pieces_are_sent_in_copies() {
        for (piece, may_be) in [("1,", true), ("NaN,", true), ("{},", false)] {
            assert_eq!(
                Compression::Copies.may_write(Piece::Same(piece.as_bytes())),
                may_be
            );
        }
        assert!(copies(b"no run of any length").is_err());
    }
}
