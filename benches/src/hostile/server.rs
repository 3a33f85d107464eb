//! A server's way with a hostile request.

use super::{Compression, DECODED_BYTES_MAX, Hostile, KEY, Way};
use crate::hot_path::{PROJECT, facts, memory_dir};
use crate::store::Store;
use anyhow::Result;
use millrace_encoding::{Buffers, Decoder, Expansion, Unwrapper, testing};
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
    body: Vec<u8>,
}

impl Server {
    /// One for a request.
    ///
    /// # Errors
    /// It could not be made, or there is no room for a log.
    pub fn of(hostile: &Hostile) -> Result<Self> {
        let key = if hostile.way == Way::Known {
            KEY
        } else {
            NOBODYS
        };
        Ok(Self {
            compression: hostile.compression,
            key: hostile.shape.is_v1().then_some(key),
            body: hostile.sent()?.body,
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
        let expansion = Expansion::of(sent.len(), DECODED_BYTES_MAX);
        let hints = self.compression.hints();
        let decode = |room| {
            let unwrapper = Unwrapper {
                buffers: &self.buffers,
                decoder: &self.decoder,
                room,
            };
            if self.compression == Compression::ImageTag {
                return unwrapper.data(sent, hints.compression);
            }
            unwrapper.body(sent, hints)
        };
        let decoded = testing::decode(sent, hints, self.key, expansion, decode, |key| key == KEY);
        let Ok(json) = decoded.json else {
            return Ok(Outcome::NotDecoded);
        };
        let text = json.as_deref().unwrap_or(sent);
        let mut facts: Facts<'_> = facts();
        if let Some(key) = self.key {
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
