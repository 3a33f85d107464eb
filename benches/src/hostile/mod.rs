//! Requests that are made to cost much: what a server does with one, and how much it may.
//!
//! | Module | Holds |
//! |---|---|
//! | `shapes` | [`Shape`]: the texts, each a piece that is repeated |
//! | `encodings` | [`Compression`], and streams that no compressor writes |
//! | `server` | [`Server`]: what is done with one |

mod encodings;
mod server;
mod shapes;

use encodings::BOUNDARY;
pub use encodings::Compression;
pub use server::{Outcome, Server};
pub use shapes::{SHAPES, Shape};

use anyhow::{Result, ensure};
use millrace_encoding::Expansion;

/// The one project key that is known.
pub const KEY: &str = "phc_benchmark000000000000000000000000000000";
/// Instructions that count as a nanosecond of a core: half of what is run in one by the machines that it was measured on.
const PER_NANOSECOND: u64 = 5;
/// Instructions for each kB sent of a request whose key nobody has, at most: 1 ms of a core. What is shorter counts
/// as one.
pub const PER_KB_SENT_MAX: u64 = 1_000_000 * PER_NANOSECOND;
/// Instructions for each decoded byte of a request with a known key, at most: 20 ns.
pub const PER_DECODED_BYTE_MAX: u64 = 20 * PER_NANOSECOND;
/// The same of Brotli and LZString, which may decode to less than a third of what others may.
pub const PER_SLOW_BYTE_MAX: u64 = 3 * PER_DECODED_BYTE_MAX;
/// Bytes that any body may decode to, as servers have it.
const DECODED_BYTES_MAX: usize = 100 << 20;
/// How many times that is what may be sent: with a known key the least that a body may decode to, of the largest ones.
const LARGEST_RATIO: usize = 5;
/// Bytes of blocks in a body that stands for the largest ones.
const LARGE_BYTES: usize = 160 << 10;
/// Bytes that a body with a known key decodes to here.
const KNOWN_BYTES: usize = 128 << 10;
/// Bytes of what does not compress, in a body that decodes to just as much as one without a known key may.
const NOISE_BYTES: usize = 2_400;
/// Bytes that a body decodes to that is to be refused for it.
const BOMB_BYTES: usize = 1 << 20;
/// The same of many parts, together: each is as long as it may be, and all would be if none were slow.
const PARTS_BOMB_BYTES: usize = 88 << 10;

/// Whose a request is, and how far it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Of a known project, and taken.
    Known,
    /// Of nobody, and decoded to the last byte.
    Nobodys,
    /// Of nobody, and too large.
    Bomb,
    /// Of a known project, as its head says, so long that it may not decode to many times as much, and refused.
    KnownBomb,
}

impl Way {
    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Nobodys => "nobodys",
            Self::Bomb => "bomb",
            Self::KnownBomb => "known bomb",
        }
    }
}

/// A request that is made to cost much.
#[derive(Clone, Copy, Debug)]
pub struct Hostile {
    /// Whose it is.
    pub way: Way,
    /// What it says, again and again.
    pub shape: &'static Shape,
    /// How it is sent.
    pub compression: Compression,
}

/// A request as it is sent.
#[derive(Debug)]
pub struct Sent {
    /// The body.
    pub body: Vec<u8>,
    /// Bytes that it stands for, or may decode to if it is never decoded.
    pub plain_bytes: usize,
}

impl Hostile {
    /// All that are counted: each shape in gzip, and in all encodings those that differ there.
    pub fn all() -> impl Iterator<Item = Self> {
        let ways = [Way::Known, Way::Nobodys, Way::Bomb, Way::KnownBomb].into_iter();
        let sent = ways.flat_map(|way| Compression::ALL.map(|compression| (way, compression)));
        sent.flat_map(|(way, compression)| {
            SHAPES.iter().map(move |shape| Self {
                way,
                shape,
                compression,
            })
        })
        .filter(Self::is_counted)
    }

    fn is_counted(&self) -> bool {
        if self.way == Way::KnownBomb {
            return self.compression.is_of_blocks() && self.shape.is_v1();
        }
        // What is short may cost more by what it may decode to than by what it does.
        if self.way == Way::Known && self.compression.is_of_blocks() {
            return false;
        }
        let is_usual = self.compression == Compression::Gzip && self.way != Way::Bomb;
        (is_usual || self.shape.is_in_all) && self.compression.may_write(self.shape.piece)
    }

    /// Its name in reports.
    #[must_use]
    pub fn name(&self) -> String {
        let (way, shape) = (self.way.name(), self.shape.name);
        format!("{way}/{shape}/{}", self.compression.name())
    }

    /// Bytes that a body of so many may decode to here, whoever sends it.
    #[must_use]
    pub fn decoded_bytes_max(&self, sent_bytes: usize) -> usize {
        match self.way {
            Way::KnownBomb => sent_bytes * LARGEST_RATIO,
            _ => DECODED_BYTES_MAX,
        }
    }

    /// Makes its body.
    ///
    /// # Errors
    /// A compressor failed.
    pub fn sent(&self) -> Result<Sent> {
        let make = |bytes: usize, noise_bytes: usize| {
            let key = (self.way == Way::Known).then_some(KEY);
            let text = self.shape.text(key, noise_bytes, bytes);
            let plain_bytes = text.len();
            let body = self.compression.compress(&text)?;
            Ok(Sent { body, plain_bytes })
        };
        match self.way {
            Way::Known => make(KNOWN_BYTES, 0),
            Way::Bomb if self.compression == Compression::Parts => make(PARTS_BOMB_BYTES, 0),
            Way::Bomb => make(BOMB_BYTES, 0),
            Way::KnownBomb => {
                let text = self.shape.text(None, 0, KNOWN_BYTES);
                let body = self.compression.compress_behind(LARGE_BYTES, &text)?;
                let plain_bytes = body.len() * LARGEST_RATIO;
                Ok(Sent { body, plain_bytes })
            }
            Way::Nobodys => {
                let mut bytes = NOISE_BYTES * 40;
                loop {
                    let sent: Result<Sent> = make(bytes, NOISE_BYTES);
                    let sent = sent?;
                    let expansion = Expansion::of(sent.body.len(), DECODED_BYTES_MAX);
                    if sent.plain_bytes <= expansion.room(false).of(self.compression.encoding()) {
                        return Ok(sent);
                    }
                    ensure!(bytes > NOISE_BYTES, "{} cannot be so short", self.name());
                    bytes -= bytes / 32;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_request_comes_as_far_as_its_way_says() {
        let mut names = BTreeSet::new();
        for hostile in Hostile::all() {
            let name = hostile.name();
            let outcome = Server::of(&hostile).unwrap().once().unwrap();
            let is_decoded = outcome != Outcome::NotDecoded;
            let is_bomb = matches!(hostile.way, Way::Bomb | Way::KnownBomb);
            assert_eq!(is_decoded, !is_bomb, "{name}: {outcome:?}");
            let is_stored = outcome == Outcome::Stored;
            assert!(!is_stored || hostile.way == Way::Known, "{name}");
            assert!(names.insert(name.clone()), "{name} is there twice");
        }
    }
}
