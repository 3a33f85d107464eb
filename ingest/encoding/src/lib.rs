//! Decoding of request bodies as they were sent to JSON text; no I/O.
//!
//! Everything here grows its output step by step and stops at the limit: 89 bytes of brotli can
//! stand for 100 MiB, so no length that a client declares is ever allocated as it is.
//!
//! | Module | Holds |
//! |---|---|
//! | `body_decoder` | [`BodyDecoder`]: the encodings of a body, one inside the other |
//! | `expansion` | [`Expansion`]: limits of how much a body may decode to |
//! | `keys` | search for project keys in bodies that are too large for an unknown project |
//! | `form` | the field of a form that is the payload |
//! | `multipart` | [`Boundary`]: one event in parts |
//! | `encoding`, `decoder` | [`Encoding`], and [`Decoder`], which takes one off |
//! | `deflate`, `zstd`, `brotli`, `base64`, `lz64` | each encoding |
//! | `blocks`, `blockwise` | how many blocks a body may be made of, and deflate where they are counted |
//! | `buffers`, `growth` | buffers that are used again, and how they grow |

#![forbid(unsafe_code)]

mod base64;
mod blocks;
mod blockwise;
mod body_decoder;
mod brotli;
mod buffers;
mod decode_error;
mod decoder;
mod deflate;
mod encoding;
mod expansion;
mod form;
mod growth;
mod keys;
mod lz64;
mod multipart;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod zstd;

pub use body_decoder::{BodyDecodeError, BodyDecoder, Encoded, Hints};
pub use buffers::{BodyBuf, Buffers};
pub use decode_error::DecodeError;
pub use decoder::Decoder;
pub use encoding::Encoding;
pub use expansion::{DecodeLimits, Expansion, ON_CORE_BYTES_MAX, ON_CORE_SENT_BYTES_MAX};
pub use form::unescaped;
pub use keys::{key_behind, keys_at_beginning, keys_in};
pub use multipart::Boundary;

#[cfg(test)]
mod tests;
