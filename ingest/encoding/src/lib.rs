//! Request bodies as they were sent into request bodies as JSON text; no I/O.
//!
//! Everything here grows its output step by step and stops at the limit: 89 bytes of brotli can
//! stand for 100 MiB, so no length that a client declares is ever allocated as it stands.
//!
//! | Module | Holds |
//! |---|---|
//! | `unwrap` | [`Unwrapper`]: which encodings a body has, one inside the other |
//! | `expansion` | [`Expansion`]: how much a body may decode to |
//! | `keys` | project keys in what is too large to be decoded for nobody |
//! | `form` | the field of a form that is the payload |
//! | `multipart` | [`Boundary`]: one event in parts |
//! | `decoder` | [`Encoding`], and [`Decoder`], which takes one off |
//! | `deflate`, `zstd`, `brotli`, `base64`, `lz64` | each encoding |
//! | `blocks`, `blockwise` | how many blocks a body may be made of, and deflate where they are counted |
//! | `buffers` | buffers that are used again |

#![forbid(unsafe_code)]

mod base64;
mod blocks;
mod blockwise;
mod brotli;
mod buffers;
mod decoder;
mod deflate;
mod expansion;
mod form;
mod keys;
mod lz64;
mod multipart;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod unwrap;
mod zstd;

pub use buffers::{Buffers, Whole};
pub use decoder::{DecodeError, Decoder, Encoding};
pub use expansion::{Expansion, ON_CORE_BYTES_MAX, Room};
pub use form::unescaped;
pub use keys::{key_behind, keys_at_beginning, keys_in};
pub use multipart::Boundary;
pub use unwrap::{Encoded, Hints, UnwrapError, Unwrapper};

#[cfg(test)]
mod tests;
