//! A server's way with a hostile request.

use super::{BOUNDARY, Compression, Hostile, KEY, Way};
use crate::hot_path::{PROJECT, facts, memory_dir};
use crate::store::Store;
use anyhow::Result;
use millrace_encoding::{Boundary, Buffers, Decoder, Expansion, Unwrapper, testing};
use millrace_parse::{Facts, KeyLookup, ParseError, Parser, Protocol};
use std::cell::RefCell;
use std::hint::black_box;

/// A key that nobody has.
const NOBODYS: &str = "phc_nobodys";
/// Months that a live request may be of, as servers have it.
const MONTHS_MAX: usize = 120;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its rows are in the log, those of refused events too.
    Stored,
    /// Refused by the parser, with this code.
    Refused(&'static str),
    /// Its key would be looked up, and not found.
    OfNobody,
    /// Refused while it was decoded.
    NotDecoded,
}

/// A server that takes one request again and again.
pub struct Server {
    buffers: Buffers,
    decoder: RefCell<Decoder>,
    parser: Parser,
    store: Store,
    compression: Compression,
    /// The key that the head names.
    key: Option<&'static str>,
    is_v1: bool,
    body: Vec<u8>,
    /// Bytes that it may decode to, whoever sends it.
    decoded_bytes_max: usize,
}

impl Server {
    /// One for a request.
    ///
    /// # Errors
    /// It could not be made, or there is no room for a log.
    pub fn of(hostile: &Hostile) -> Result<Self> {
        let key = match hostile.way {
            Way::Known | Way::KnownBomb => KEY,
            Way::Nobodys | Way::Bomb => NOBODYS,
        };
        let body = hostile.sent()?.body;
        let is_v1 = hostile.shape.is_v1();
        let is_named = is_v1 || hostile.compression == Compression::Parts;
        Ok(Self {
            compression: hostile.compression,
            key: is_named.then_some(key),
            is_v1,
            decoded_bytes_max: hostile.decoded_bytes_max(body.len()),
            body,
            buffers: Buffers::default(),
            decoder: RefCell::default(),
            parser: Parser::default(),
            store: Store::below(&memory_dir())?,
        })
    }

    /// Takes or refuses it once.
    ///
    /// # Errors
    /// What was taken could not be stored.
    pub fn once(&mut self) -> Result<Outcome> {
        let sent = black_box(self.body.as_slice());
        let expansion = Expansion::of(sent.len(), self.decoded_bytes_max);
        let hints = self.compression.hints();
        let decode = |room| {
            let unwrapper = Unwrapper {
                buffers: &self.buffers,
                decoder: &self.decoder,
                room,
            };
            match self.compression {
                Compression::ImageTag => unwrapper.data(sent, hints.compression),
                Compression::Parts => {
                    let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
                    let boundary = Boundary::of(Some(content_type.as_bytes()))?;
                    let json = unwrapper.parts(sent, hints, boundary, self.key);
                    json.map(Some)
                }
                _ => unwrapper.body(sent, hints),
            }
        };
        let decoded = testing::decode(sent, hints, self.key, expansion, decode, |key| key == KEY);
        let Ok(json) = decoded.json else {
            return Ok(Outcome::NotDecoded);
        };
        let text = json.as_deref().unwrap_or(sent);
        let mut facts: Facts<'_> = facts();
        if let Some(key) = self.key.filter(|_| self.is_v1) {
            facts.protocol = Protocol::V1 {
                key,
                sent_at: None,
                sdk_info: None,
            };
        }
        let parsed = self.parser.parse(text, &facts, &mut |key| match key {
            KEY => KeyLookup::Found(PROJECT),
            _ => KeyLookup::Missing,
        });
        let outcome = match parsed {
            Err(ParseError::NeedsKey(_)) => Outcome::OfNobody,
            Err(ParseError::Refused(error)) => Outcome::Refused(error.code),
            // More months than a server takes at once.
            Ok(parsed) if parsed.batch.groups.len() > MONTHS_MAX => {
                Outcome::Refused("too_many_months")
            }
            Ok(parsed) => {
                let rows = |_: &mut Parser| Ok(parsed.batch);
                self.store.commit(&mut self.parser, text.len(), rows)?;
                Outcome::Stored
            }
        };
        if let Some(json) = json {
            json.recycle(&self.buffers);
        }
        Ok(outcome)
    }
}
