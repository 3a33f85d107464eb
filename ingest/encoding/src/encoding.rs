//! Encodings of a body, and how requests name them.

use http::StatusCode;
use millrace_parse::{ApiError, ErrorType};
use std::borrow::Cow;

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
                "The encoding {name:?} is not accepted. Use one of gzip, deflate, br, zstd, base64 \
                 or lz64."
            ),
        )
    }
}
