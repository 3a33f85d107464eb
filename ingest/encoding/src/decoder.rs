//! Decoder that takes one encoding off.

use crate::blocks::Blocks;
use crate::decode_error::DecodeError;
use crate::encoding::Encoding;
use crate::{base64, brotli, deflate, lz64, zstd};

/// Decoders of one core; their tables are reused.
#[derive(Default)]
pub struct Decoder {
    deflate: deflate::Inflater,
    zstd: Option<zstd::Context>,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}

impl Decoder {
    /// Decodes `body` into `out`, which is emptied first, and never grown past `bytes_max`.
    ///
    /// [`Encoding::Identity`] copies.
    ///
    /// # Errors
    ///
    /// See [`DecodeError`]; the content of `out` is then undefined.
    pub fn decode(
        &mut self,
        encoding: Encoding,
        body: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<(), DecodeError> {
        let mut blocks = Blocks::of(body.len());
        self.decode_part(encoding, body, out, bytes_max, &mut blocks)
    }

    /// Decodes one of several parts, or a body that is not to be decoded in one call, as
    /// [`decode`](Self::decode) does.
    pub(crate) fn decode_part(
        &mut self,
        encoding: Encoding,
        body: &[u8],
        out: &mut Vec<u8>,
        bytes_max: usize,
        blocks: &mut Blocks,
    ) -> Result<(), DecodeError> {
        out.clear();
        match encoding {
            Encoding::Identity if body.len() > bytes_max => Err(DecodeError::TooLarge),
            Encoding::Identity => {
                out.extend_from_slice(body);
                Ok(())
            }
            Encoding::Gzip => self.deflate.gzip(body, out, bytes_max, blocks),
            Encoding::Deflate => self.deflate.deflate(body, out, bytes_max, blocks),
            Encoding::Brotli => brotli::decode(body, out, bytes_max),
            Encoding::Zstd => {
                let context = self.zstd.get_or_insert_with(zstd::Context::new);
                context.decode(body, out, bytes_max, blocks)
            }
            Encoding::Base64 => base64::decode(body, out, bytes_max),
            Encoding::Lz64 => lz64::decode(body, out, bytes_max),
        }
    }
}
