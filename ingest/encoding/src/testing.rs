//! The way of a body through a server, without its threads and its catalog: for what is fuzzed and counted. And streams
//! that no compressor writes.

use crate::blockwise::gzip_trailer;
use crate::{Expansion, Hints, Room, UnwrapError, Whole, keys_in};

/// Blocks of deflate of which nothing comes out: twice one with a code of 128 literals of its own and one with the code
/// that all know, so that both have their tables made again.
const BLOCKS_OF_NOTHING: [u8; 33] = [
    0x04, 0x40, 0x82, 0x0d, 0xca, 0xb6, 0x6d, 0xdb, 0xb6, 0x6d, 0xdb, 0xb6, 0x7d, 0x7b, 0xfb, 0x0b,
    0x40, 0x00, 0x24, 0xd8, 0xa0, 0x6c, 0xdb, 0xb6, 0x6d, 0xdb, 0xb6, 0x6d, 0xdb, 0xb7, 0xb7, 0xbf,
    0x00,
];
/// What a gzip member begins with that has neither a name nor anything else.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0, 0xff];
/// The last block of deflate, with nothing in it.
const LAST_BLOCK: [u8; 2] = [0x03, 0x00];
/// The beginning of a frame of zstd: its head, and a block of five spaces as they are.
const ZSTD_HEAD: [u8; 14] = [
    0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x28, 0x00, 0x00, b' ', b' ', b' ', b' ', b' ',
];
/// A block of zstd that copies three of them, and brings the three largest tables to say so.
const ZSTD_TABLES: [u8; 16] = [
    0x6c, 0x00, 0x00, 0x00, 0x01, 0xa8, 0xf4, 0x3f, 0xf3, 0x1f, 0xf4, 0x3f, 0x00, 0x00, 0x00, 0x04,
];
/// The last block of zstd, with nothing in it.
const ZSTD_LAST_BLOCK: [u8; 3] = [0x01, 0x00, 0x00];

/// At most so many bytes of deflate's blocks that have no end and say nothing.
#[must_use]
pub fn blocks_of_nothing(bytes: usize) -> Vec<u8> {
    BLOCKS_OF_NOTHING.repeat(bytes / BLOCKS_OF_NOTHING.len())
}

/// Gzip of a text that is there deflated, with so many bytes of [blocks of nothing](blocks_of_nothing) before it; and a
/// member without a text behind it, so that nothing at its end says how much comes out.
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

/// At most so many bytes of zstd, as a frame, of which three spaces come out for each sixteen.
#[must_use]
pub fn zstd_of_tables(bytes: usize) -> Vec<u8> {
    let blocks = ZSTD_TABLES.repeat(bytes / ZSTD_TABLES.len());
    [&ZSTD_HEAD[..], &blocks, &ZSTD_LAST_BLOCK].concat()
}

/// A body as a server decodes it.
#[derive(Debug)]
pub struct Decoded {
    /// The JSON, unless what was sent is just that.
    pub json: Result<Option<Whole>, UnwrapError>,
    /// Whether a key that is known was found on the way.
    pub is_key_known: bool,
}

/// Decodes what was sent, as often and as far as a server does. `key` is the one that the head names; `decode` is
/// given the room there is.
#[must_use]
pub fn decode(
    sent: &[u8],
    hints: Hints,
    key: Option<&str>,
    expansion: Expansion,
    decode: impl Fn(Room) -> Result<Option<Whole>, UnwrapError>,
    is_known: impl Fn(&str) -> bool,
) -> Decoded {
    let mut is_key_known = key.is_some_and(&is_known);
    let room = expansion.room(is_key_known);
    let tried = if hints.may_take_long(sent.len()) {
        room
    } else {
        room.on_core(sent.len())
    };
    let mut json = decode(tried);
    if let Err(UnwrapError::TooLarge(encoded)) = &json {
        let encoding = encoded.encoding;
        is_key_known |= encoded.keys.iter().any(|key| is_known(key));
        if let Some(bytes_max) = expansion.searched_bytes_max(encoding)
            && bytes_max > tried.of(encoding)
            && key.is_none()
            && !is_key_known
        {
            let bytes = encoded.inner.as_deref().unwrap_or(sent);
            let keys = keys_in(encoding, bytes, bytes_max);
            is_key_known = keys.iter().any(|key| is_known(key));
        }
        let room = expansion.room(is_key_known);
        if room.of(encoding) > tried.of(encoding) {
            json = decode(room);
        }
    }
    Decoded { json, is_key_known }
}
