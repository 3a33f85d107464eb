//! Encodings of a body, and the decoder that takes one off.

use crate::blocks::Blocks;
use crate::{base64, brotli, deflate, lz64, zstd};
use millrace_parse::{ApiError, ErrorType};
use std::borrow::Cow;

use http::StatusCode;

/// Encoding of a whole body, or of a form's field `data`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Not encoded.
    #[default]
    Identity,
    /// RFC 1952, one or several members.
    Gzip,
    /// RFC 1950, or, as many clients do, bare RFC 1951.
    Deflate,
    /// RFC 7932.
    Brotli,
    /// RFC 8878, one or several frames.
    Zstd,
    /// RFC 4648, either alphabet, padded or not.
    Base64,
    /// LZString's `compressToBase64`.
    Lz64,
}

impl Encoding {
    /// Encoding of a `Content-Encoding` or `compression` value; `None` for an unknown one, which
    /// includes lists of several.
    #[must_use]
    pub fn of_name(name: &[u8]) -> Option<Self> {
        let table: [(&[u8], Self); 14] = [
            (b"gzip", Self::Gzip),
            (b"gzip-js", Self::Gzip),
            (b"identity", Self::Identity),
            (b"", Self::Identity),
            (b"none", Self::Identity),
            (b"x-gzip", Self::Gzip),
            (b"deflate", Self::Deflate),
            (b"br", Self::Brotli),
            (b"zstd", Self::Zstd),
            (b"base64", Self::Base64),
            (b"b64", Self::Base64),
            (b"lz64", Self::Lz64),
            (b"lz-string", Self::Lz64),
            (b"lz_string", Self::Lz64),
        ];
        let name = name.trim_ascii();
        let found = table
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, encoding)| *encoding)
    }

    /// Returns true if a decoded byte costs several times as much as with others.
    #[must_use]
    pub const fn is_slow(self) -> bool {
        matches!(self, Self::Brotli | Self::Lz64)
    }

    /// Encoding that a body's first bytes give away; none of them can begin a JSON text.
    #[must_use]
    pub fn of_magic(body: &[u8]) -> Self {
        match body {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            // CMF says deflate, and the two bytes are a multiple of 31.
            [0x78, flags, ..] if (0x7800 + u16::from(*flags)).is_multiple_of(31) => Self::Deflate,
            _ => Self::Identity,
        }
    }
}

impl Encoding {
    /// Encoding that a request names; [`Encoding::Identity`] when it names none.
    ///
    /// # Errors
    ///
    /// 415 for a name that is not [known](Self::of_name).
    pub fn named(name: Option<&[u8]>) -> Result<Self, ApiError> {
        let Some(name) = name else {
            return Ok(Self::Identity);
        };
        Self::of_name(name).ok_or_else(|| Self::unsupported(&String::from_utf8_lossy(name)))
    }

    /// Builds a 415 for an encoding that is not supported.
    #[must_use]
    pub fn unsupported(name: &str) -> ApiError {
        let name: Cow<'_, str> = name.chars().take(64).collect();
        ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ErrorType::InvalidRequest,
            "unsupported_media_type",
            format!(
                "The encoding {name:?} is not taken. Use one of gzip, deflate, br, zstd, base64 or lz64."
            ),
        )
    }
}

/// Reason why a body could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes are not of the encoding that was named.
    Broken(Cow<'static, str>),
    /// The output would be larger than allowed.
    TooLarge,
    /// The body is made of many blocks with little output.
    TooManyBlocks,
}

impl DecodeError {
    pub(crate) fn broken(detail: &'static str) -> Self {
        Self::Broken(Cow::Borrowed(detail))
    }
}

/// Builds a 413 for a body that is made of many blocks with little output.
pub(crate) fn too_many_blocks() -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        ErrorType::InvalidRequest,
        "body_too_complex",
        "The body is compressed in too many blocks for what it says. Compress it without a flush behind every few bytes.",
    )
}

/// Builds a 400 for a body that is not in the encoding it names.
pub(crate) fn invalid_encoding(detail: Cow<'static, str>) -> ApiError {
    ApiError::new(
        StatusCode::BAD_REQUEST,
        ErrorType::InvalidRequest,
        "invalid_encoding",
        detail,
    )
}

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

/// Size past which a buffer is made as large as it may become: growing copies, and while it does,
/// both buffers are there.
pub(crate) const LARGE_BYTES: usize = 4 << 20;

/// Next size to try when `len` bytes were not enough; `None` at the limit.
pub(crate) fn grown(len: usize, bytes_max: usize) -> Option<usize> {
    let next = match len {
        LARGE_BYTES.. => bytes_max,
        _ => len.saturating_mul(4).max(16 << 10).min(bytes_max),
    };
    (len < bytes_max).then_some(next)
}

/// Lengthens `out` to `len` bytes: the first `kept` stay as they are, and zeros, or anything,
/// follow. A large one is allocated anew with the capacity that is allowed: its zeros come from the
/// system and take no memory until they are written.
pub(crate) fn lengthen(out: &mut Vec<u8>, kept: usize, len: usize, bytes_max: usize) {
    if len <= LARGE_BYTES || out.capacity() >= len {
        out.resize(len, 0);
        return;
    }
    out.truncate(kept);
    out.shrink_to_fit();
    let mut longer = vec![0; bytes_max.max(len)];
    if let Some(start) = longer.get_mut(..out.len()) {
        start.copy_from_slice(out);
    }
    longer.truncate(len);
    *out = longer;
}
