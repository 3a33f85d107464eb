//! Encodes bytes of a file: compresses, hashes and counts them. This is work for a processor, so it
//! runs on blocking threads.

use super::settings::StreamCompression;
use brotli::CompressorWriter;
use bytes::Bytes;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::io::{self, Write};
use zstd::stream::write::Encoder as ZstdEncoder;

/// Default level of gzip itself.
const GZIP_LEVEL: u32 = 6;
/// Quality of Brotli: about as fast as gzip, and smaller.
const BROTLI_QUALITY: u32 = 4;
/// Default level of zstd itself.
const ZSTD_LEVEL: i32 = 3;
/// Window of Brotli: 2^22 bytes, the largest that every decoder takes.
const BROTLI_WINDOW: u32 = 22;
const BROTLI_BUFFER_BYTES: usize = 64 << 10;

/// Encoder of one file.
pub(super) struct Encoder {
    stream: Stream,
    hash: Sha256,
    bytes: u64,
}

/// Size and hash of a finished file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileDigest {
    /// Size as it is stored, in bytes.
    pub(super) bytes: u64,
    /// SHA-256 of the stored bytes, in lowercase hexadecimal.
    pub(super) sha256: String,
}

enum Stream {
    Plain,
    Gzip(GzEncoder<Vec<u8>>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Zstd(ZstdEncoder<'static, Vec<u8>>),
}

impl Encoder {
    pub(super) fn new(compression: Option<StreamCompression>) -> io::Result<Self> {
        let level = flate2::Compression::new(GZIP_LEVEL);
        let stream = match compression {
            None => Stream::Plain,
            Some(StreamCompression::Gzip) => Stream::Gzip(GzEncoder::new(Vec::new(), level)),
            Some(StreamCompression::Brotli) => Stream::Brotli(Box::new(CompressorWriter::new(
                Vec::new(),
                BROTLI_BUFFER_BYTES,
                BROTLI_QUALITY,
                BROTLI_WINDOW,
            ))),
            Some(StreamCompression::Zstd) => {
                let mut encoder = ZstdEncoder::new(Vec::new(), ZSTD_LEVEL)?;
                encoder.include_checksum(true)?;
                Stream::Zstd(encoder)
            }
        };
        Ok(Self {
            stream,
            hash: Sha256::new(),
            bytes: 0,
        })
    }

    /// Encodes the next pieces, and returns the bytes that can be stored by now.
    pub(super) fn encode(&mut self, pieces: Vec<Bytes>) -> io::Result<Vec<Bytes>> {
        let encoded = match &mut self.stream {
            Stream::Plain => pieces,
            Stream::Gzip(encoder) => {
                write_all(encoder, &pieces)?;
                vec![std::mem::take(encoder.get_mut()).into()]
            }
            Stream::Brotli(encoder) => {
                write_all(encoder.as_mut(), &pieces)?;
                vec![std::mem::take(encoder.get_mut()).into()]
            }
            Stream::Zstd(encoder) => {
                write_all(encoder, &pieces)?;
                vec![std::mem::take(encoder.get_mut()).into()]
            }
        };
        self.count(&encoded);
        Ok(encoded)
    }

    /// Returns the remaining bytes, and the digest of the whole file.
    pub(super) fn finish(mut self) -> io::Result<(Bytes, FileDigest)> {
        let stream = std::mem::replace(&mut self.stream, Stream::Plain);
        let rest: Bytes = match stream {
            Stream::Plain => Bytes::new(),
            Stream::Gzip(encoder) => encoder.finish()?.into(),
            Stream::Brotli(encoder) => encoder.into_inner().into(),
            Stream::Zstd(encoder) => encoder.finish()?.into(),
        };
        self.count(std::slice::from_ref(&rest));
        let digest = FileDigest {
            bytes: self.bytes,
            sha256: hexadecimal(&self.hash.finalize()),
        };
        Ok((rest, digest))
    }

    fn count(&mut self, encoded: &[Bytes]) {
        for piece in encoded {
            self.hash.update(piece);
            self.bytes += piece.len() as u64;
        }
    }
}

fn write_all(encoder: &mut dyn Write, pieces: &[Bytes]) -> io::Result<()> {
    pieces.iter().try_for_each(|piece| encoder.write_all(piece))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // A String takes whatever is written.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn encoded(compression: Option<StreamCompression>, pieces: &[Bytes]) -> (Vec<u8>, FileDigest) {
        let mut encoder = Encoder::new(compression).unwrap();
        let mut file = Vec::new();
        for pieces in pieces.chunks(3) {
            encoder
                .encode(pieces.to_vec())
                .unwrap()
                .iter()
                .for_each(|piece| file.extend(piece));
        }
        let (rest, digest) = encoder.finish().unwrap();
        file.extend(rest);
        (file, digest)
    }

    fn decoded(compression: Option<StreamCompression>, file: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        let mut reader: Box<dyn Read> = match compression {
            None => Box::new(file),
            Some(StreamCompression::Gzip) => Box::new(flate2::read::GzDecoder::new(file)),
            Some(StreamCompression::Brotli) => Box::new(brotli::Decompressor::new(file, 4096)),
            Some(StreamCompression::Zstd) => {
                Box::new(zstd::stream::read::Decoder::new(file).unwrap())
            }
        };
        reader.read_to_end(&mut plain).unwrap();
        plain
    }

    #[test]
    fn encoded_files_can_be_read_back_and_match_their_digest() {
        use StreamCompression::{Brotli, Gzip, Zstd};
        let line =
            |n: usize| Bytes::from(format!("{{\"n\":{n},\"s\":\"{}\"}}\n", "é".repeat(n % 90)));
        let some: Vec<_> = (0..5_000).map(line).collect();
        for compression in [None, Some(Gzip), Some(Brotli), Some(Zstd)] {
            for pieces in [&[][..], &[Bytes::new()], &some[..1], &some[..]] {
                let (file, digest) = encoded(compression, pieces);
                assert_eq!(
                    decoded(compression, &file),
                    pieces.concat(),
                    "{compression:?}"
                );
                assert_eq!(digest.bytes, file.len() as u64);
                assert_eq!(digest.sha256, hexadecimal(&Sha256::digest(&file)));
            }
        }
    }
}
