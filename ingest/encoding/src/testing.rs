//! Decoding of a body as a server does it, without its threads and its catalog: for fuzzing and
//! counting. And streams that no compressor writes.

use crate::blockwise::gzip_trailer;
use crate::{
    BodyBuf, BodyDecodeError, DecodeLimits, Encoding, Expansion, Hints, keys_at_beginning, keys_in,
};

/// Blocks of deflate without output: twice one with a code of 128 literals of its own and one with
/// the fixed code, so that the tables of both are made again.
const BLOCKS_OF_NOTHING: [u8; 33] = [
    0x04, 0x40, 0x82, 0x0d, 0xca, 0xb6, 0x6d, 0xdb, 0xb6, 0x6d, 0xdb, 0xb6, 0x7d, 0x7b, 0xfb, 0x0b,
    0x40, 0x00, 0x24, 0xd8, 0xa0, 0x6c, 0xdb, 0xb6, 0x6d, 0xdb, 0xb6, 0x6d, 0xdb, 0xb7, 0xb7, 0xbf,
    0x00,
];
/// Head of a gzip member that has neither a name nor any other field.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0, 0xff];
/// Last block of deflate, empty.
const LAST_BLOCK: [u8; 2] = [0x03, 0x00];
/// Beginning of a frame of zstd: its head, and a raw block of five spaces.
const ZSTD_HEAD: [u8; 14] = [
    0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x28, 0x00, 0x00, b' ', b' ', b' ', b' ', b' ',
];
/// Block of zstd that copies three of the spaces, and brings the three largest tables for that.
const ZSTD_TABLES: [u8; 16] = [
    0x6c, 0x00, 0x00, 0x00, 0x01, 0xa8, 0xf4, 0x3f, 0xf3, 0x1f, 0xf4, 0x3f, 0x00, 0x00, 0x00, 0x04,
];
/// Last block of zstd, empty.
const ZSTD_LAST_BLOCK: [u8; 3] = [0x01, 0x00, 0x00];

/// Beginning of a stream of Brotli with 256 trees for each of literals, insertions and distances,
/// whose tables are made before the first tree comes.
const BROTLI_OF_TREES: [u8; 24] = [
    0xcf, 0xff, 0xff, 0x7f, 0xfe, 0x1f, 0x00, 0x02, 0x00, 0xe0, 0xff, 0x02, 0xc0, 0xff, 0x05, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
];

/// Returns Brotli that takes 3.3 MB for tables, and has no output.
#[must_use]
pub fn brotli_of_trees() -> Vec<u8> {
    BROTLI_OF_TREES.to_vec()
}

/// Builds at most so many bytes of deflate blocks without output and without an end.
#[must_use]
pub fn blocks_of_nothing(bytes: usize) -> Vec<u8> {
    BLOCKS_OF_NOTHING.repeat(bytes / BLOCKS_OF_NOTHING.len())
}

/// Builds gzip of a text that is already deflated, with so many bytes of
/// [blocks of nothing](blocks_of_nothing) before it; and an empty member behind it, so that nothing
/// at its end gives the size of the output.
#[must_use]
pub fn gzip_behind_blocks(blocks_bytes: usize, deflated: &[u8], text: &[u8]) -> Vec<u8> {
    let blocks = blocks_of_nothing(blocks_bytes);
    let (trailer, trailer_of_nothing) = (gzip_trailer(text), gzip_trailer(b""));
    let parts: [&[u8]; 7] = [
        &GZIP_HEAD,
        &blocks,
        deflated,
        &trailer,
        &GZIP_HEAD,
        &LAST_BLOCK,
        &trailer_of_nothing,
    ];
    parts.concat()
}

/// Builds a frame of at most so many bytes of zstd, with three spaces as output for each sixteen.
#[must_use]
pub fn zstd_of_tables(bytes: usize) -> Vec<u8> {
    let blocks = ZSTD_TABLES.repeat(bytes / ZSTD_TABLES.len());
    [&ZSTD_HEAD[..], &blocks, &ZSTD_LAST_BLOCK].concat()
}

/// Body as a server decodes it.
#[derive(Debug)]
pub struct Decoded {
    /// Decoded JSON; `None` if it was sent as it is.
    pub json: Result<Option<BodyBuf>, BodyDecodeError>,
    /// True if a known key was found on the way.
    pub is_key_known: bool,
}

/// Decodes a body as often and as far as a server does. `key` is the one that the head names;
/// `decode` is given the limits.
#[must_use]
pub fn decode(
    sent: &[u8],
    hints: Hints,
    key: Option<&str>,
    expansion: Expansion,
    decode: impl Fn(DecodeLimits) -> Result<Option<BodyBuf>, BodyDecodeError>,
    is_known: impl Fn(&str) -> bool,
) -> Decoded {
    let mut is_key_known = key.is_some_and(&is_known);
    let mut tried = if hints.may_take_long(sent.len()) && hints.may_be_encoded(sent) {
        let keys = match (key, encoding_of(sent, hints)) {
            (None, encoding @ (Encoding::Gzip | Encoding::Deflate | Encoding::Zstd)) => {
                keys_at_beginning(encoding, sent)
            }
            _ => Vec::new(),
        };
        is_key_known |= keys.iter().any(|key| is_known(key));
        let limits = expansion.limits(is_key_known);
        next_limits((sent, hints), expansion, DecodeLimits::of_all(0), limits)
    } else {
        expansion.limits(is_key_known).on_core(sent.len())
    };
    let mut is_searched = false;
    let mut json = decode(tried);
    while let Err(BodyDecodeError::TooLarge(encoded)) = &json {
        let encoding = encoded.encoding;
        if key.is_none() && !is_key_known {
            is_key_known = encoded.keys.iter().any(|key| is_known(key));
        }
        if let Some(bytes_max) = expansion.searched_bytes_max(encoding)
            && bytes_max > tried.of(encoding)
            && key.is_none()
            && !is_key_known
            && !is_searched
        {
            is_searched = true;
            let bytes = encoded.inner.as_deref().unwrap_or(sent);
            let keys = keys_in(encoding, bytes, bytes_max);
            is_key_known = keys.iter().any(|key| is_known(key));
        }
        let limits = expansion.limits(is_key_known);
        if tried.of(encoding) >= limits.of(encoding) {
            break;
        }
        tried = next_limits((sent, hints), expansion, tried, limits);
        json = decode(tried);
    }
    Decoded { json, is_key_known }
}

/// Limits of the next try. Only of a whole body something tells its likely size: a form, parts and
/// image tags begin with text, and name no encoding of the whole.
fn next_limits(
    (sent, hints): (&[u8], Hints),
    expansion: Expansion,
    tried: DecodeLimits,
    limits: DecodeLimits,
) -> DecodeLimits {
    if hints.form {
        return limits;
    }
    expansion.next_limits(encoding_of(sent, hints), sent, tried, limits)
}

/// Encoding of the whole, by the head or by the first bytes.
fn encoding_of(sent: &[u8], hints: Hints) -> Encoding {
    match hints.content_encoding {
        Encoding::Identity => Encoding::of_magic(sent),
        named => named,
    }
}
