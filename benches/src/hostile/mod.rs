//! Requests that are made to be expensive: a server's work for each, and the bounds on it.
//!
//! | Module | Holds |
//! |---|---|
//! | `payloads` | [`HostilePayload`]: the texts, each a piece that is repeated |
//! | `encodings` | [`Compression`], and streams that no compressor writes |
//! | `server` | [`Server`]: decodes, parses and stores or refuses one |

mod encodings;
mod payloads;
mod server;

use encodings::BOUNDARY;
pub use encodings::Compression;
pub use payloads::{HostilePayload, PAYLOADS};
pub use server::{Outcome, Server};

use anyhow::{Result, ensure};
use millrace_encoding::Expansion;

/// The one project key that is known.
pub const KEY: &str = "phc_benchmark000000000000000000000000000000";
/// Instructions that count as a nanosecond of a core: half of what the machines that it was
/// measured on run in one.
const PER_NANOSECOND: u64 = 5;
/// Most instructions for each kB sent of a request with an unknown key: 1 ms of a core. A shorter
/// request counts as 1 kB.
pub const PER_KB_SENT_MAX: u64 = 1_000_000 * PER_NANOSECOND;
/// Most instructions for each decoded byte of a request with a known key: 20 ns.
pub const PER_DECODED_BYTE_MAX: u64 = 20 * PER_NANOSECOND;
/// Most instructions for each decoded byte of Brotli and LZString with a known key: these may
/// decode to less than a third of what other encodings may.
pub const PER_SLOW_BYTE_MAX: u64 = 3 * PER_DECODED_BYTE_MAX;
/// Most bytes that a body may decode to, as servers are configured.
const DECODED_BYTES_MAX: usize = 100 << 20;
/// Quotient of that and the most bytes that a body may be sent as: the largest bodies may decode to
/// no more times what was sent, even with a known key.
const LARGEST_RATIO: usize = 5;
/// Bytes of blocks in a body that stands for the largest ones.
const LARGE_BYTES: usize = 160 << 10;
/// Bytes that a body with a known key decodes to in these cases.
const KNOWN_BYTES: usize = 128 << 10;
/// Incompressible bytes in a body that decodes to just as much as an unknown key allows.
const NOISE_BYTES: usize = 2_400;
/// Bytes that a body decodes to which is refused as a bomb.
const BOMB_BYTES: usize = 1 << 20;
/// Bytes that all parts of an event decode to together which is refused as a bomb: each part is
/// within the limit of slow encodings, and all are within that of others.
const PARTS_BOMB_BYTES: usize = 88 << 10;

/// Combination of a request's key and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// The key is known, and the request is accepted.
    KnownKey,
    /// The key is unknown, and the body is decoded to its last byte.
    UnknownKey,
    /// The key is unknown, and the body decodes to too much.
    Bomb,
    /// The head names a known key, and the body is refused. It stands for the largest bodies, which
    /// may not decode to many times what was sent.
    KnownBomb,
}

impl Scenario {
    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::KnownKey => "known",
            Self::UnknownKey => "nobodys",
            Self::Bomb => "bomb",
            Self::KnownBomb => "known bomb",
        }
    }
}

/// A request that is made to be expensive.
#[derive(Clone, Copy, Debug)]
pub struct HostileRequest {
    /// Key and size of the request.
    pub scenario: Scenario,
    /// The text that it repeats.
    pub payload: &'static HostilePayload,
    /// Encoding of the body.
    pub compression: Compression,
}

/// A hostile request's encoded body.
#[derive(Debug)]
pub struct EncodedRequest {
    /// The body as sent.
    pub body: Vec<u8>,
    /// Bytes that the body decodes to, or may decode to if it is refused before.
    pub plain_bytes: usize,
}

impl HostileRequest {
    /// All counted requests: each payload in gzip; in the other encodings those that differ there.
    pub fn all() -> impl Iterator<Item = Self> {
        let scenarios = [
            Scenario::KnownKey,
            Scenario::UnknownKey,
            Scenario::Bomb,
            Scenario::KnownBomb,
        ]
        .into_iter();
        let pairs = scenarios
            .flat_map(|scenario| Compression::ALL.map(|compression| (scenario, compression)));
        pairs
            .flat_map(|(scenario, compression)| {
                PAYLOADS.iter().map(move |payload| Self {
                    scenario,
                    payload,
                    compression,
                })
            })
            .filter(Self::is_counted)
    }

    fn is_counted(&self) -> bool {
        let is_of_blocks = self.compression.is_of_blocks();
        match self.scenario {
            Scenario::KnownBomb => return is_of_blocks && self.payload.is_v1(),
            // The bound of a short one is in bytes that it may decode to, not that it decodes to.
            Scenario::KnownKey if is_of_blocks => return false,
            _ => {}
        }
        let is_usual = self.compression == Compression::Gzip && self.scenario != Scenario::Bomb;
        (is_usual || self.payload.in_all_encodings)
            && self.compression.may_write(self.payload.piece)
    }

    /// Name in reports.
    #[must_use]
    pub fn name(&self) -> String {
        let (scenario, payload) = (self.scenario.name(), self.payload.name);
        format!("{scenario}/{payload}/{}", self.compression.name())
    }

    /// Most bytes that a body of `sent_bytes` may decode to in this scenario, whatever its key.
    #[must_use]
    pub fn decoded_bytes_max(&self, sent_bytes: usize) -> usize {
        match self.scenario {
            Scenario::KnownBomb => sent_bytes * LARGEST_RATIO,
            _ => DECODED_BYTES_MAX,
        }
    }

    /// Makes and encodes the body.
    ///
    /// # Errors
    /// A compressor failed.
    pub fn encode(&self) -> Result<EncodedRequest> {
        let make = |bytes: usize, noise_bytes: usize| {
            let key = (self.scenario == Scenario::KnownKey).then_some(KEY);
            let text = self.payload.text(key, noise_bytes, bytes);
            let plain_bytes = text.len();
            let body = self.compression.compress(&text)?;
            Ok(EncodedRequest { body, plain_bytes })
        };
        match self.scenario {
            Scenario::KnownKey => make(KNOWN_BYTES, 0),
            Scenario::Bomb => match self.compression {
                Compression::Parts => make(PARTS_BOMB_BYTES, 0),
                _ => make(BOMB_BYTES, 0),
            },
            Scenario::KnownBomb => {
                let text = self.payload.text(None, 0, KNOWN_BYTES);
                let body = self.compression.compress_behind(LARGE_BYTES, &text)?;
                let plain_bytes = self.decoded_bytes_max(body.len());
                Ok(EncodedRequest { body, plain_bytes })
            }
            Scenario::UnknownKey => {
                let mut bytes = NOISE_BYTES * 40;
                loop {
                    let sent: Result<EncodedRequest> = make(bytes, NOISE_BYTES);
                    let sent = sent?;
                    let expansion = Expansion::of(sent.body.len(), DECODED_BYTES_MAX);
                    if sent.plain_bytes <= expansion.limits(false).of(self.compression.encoding()) {
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
    fn every_request_has_the_outcome_of_its_scenario() {
        let mut names = BTreeSet::new();
        for hostile in HostileRequest::all() {
            let name = hostile.name();
            let outcome = Server::of(&hostile).unwrap().once().unwrap();
            let is_decoded = outcome != Outcome::NotDecoded;
            let is_bomb = matches!(hostile.scenario, Scenario::Bomb | Scenario::KnownBomb);
            assert_eq!(is_decoded, !is_bomb, "{name}: {outcome:?}");
            let is_stored = outcome == Outcome::Stored;
            let is_key_known = hostile.scenario == Scenario::KnownKey;
            assert!(!is_stored || is_key_known, "{name}");
            assert!(names.insert(name.clone()), "{name} is there twice");
        }
    }
}
