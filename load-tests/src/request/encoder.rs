//! Compression of request bodies.

use crate::plan::Compression;
use anyhow::{Context, Result, anyhow};
use libdeflater::{CompressionLvl, Compressor};

pub(super) enum Encoder {
    None,
    Gzip(Compressor),
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Encoder {
    pub(super) fn new(compression: Compression, level: i32) -> Result<Self> {
        Ok(match compression {
            Compression::None => Self::None,
            Compression::Gzip => Self::Gzip(Compressor::new(
                CompressionLvl::new(level)
                    .map_err(|_| anyhow!("gzip has no level {level}; 0 to 12"))?,
            )),
            Compression::Zstd => Self::Zstd(
                zstd::bulk::Compressor::new(level)
                    .with_context(|| format!("zstd has no level {level}"))?,
            ),
        })
    }

    pub(super) const fn coding(&self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Gzip(_) => Some("gzip"),
            Self::Zstd(_) => Some("zstd"),
        }
    }

    /// Compresses `body` into the beginning of `out` and returns the compressed size in bytes.
    pub(super) fn encode(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<usize> {
        match self {
            Self::None => Ok(0),
            Self::Gzip(compressor) => {
                let bound = compressor.gzip_compress_bound(body.len());
                out.resize(bound, 0);
                compressor.gzip_compress(body, out).context("gzip")
            }
            Self::Zstd(compressor) => {
                out.resize(zstd::zstd_safe::compress_bound(body.len()), 0);
                compressor
                    .compress_to_buffer(body, out.as_mut_slice())
                    .context("zstd")
            }
        }
    }
}
