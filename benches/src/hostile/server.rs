//! A server's work for a hostile request: decode, parse, store or refuse.

use super::{Compression, DECODED_BYTES_MAX, HostileRequest, KEY, Scenario};
use crate::hot_path::{PROJECT, memory_dir, parse_context};
use crate::store::Store;
use anyhow::Result;
use millrace_encoding::{BodyDecoder, Buffers, Decoder, Expansion, testing};
use millrace_parse::{KeyLookup, ParseContext, ParseError, Parser, Protocol};
use std::cell::RefCell;
use std::hint::black_box;

/// A key that no project has.
const UNKNOWN_KEY: &str = "phc_nobodys";
/// Most months that the events of a live request may fall into, as servers are configured.
const MONTHS_MAX: usize = 120;

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The rows are in the log, those of refused events too.
    Stored,
    /// The parser refused the request with this code.
    Refused(&'static str),
    /// The key would be looked up, and not found.
    UnknownKey,
    /// The request was refused while it was decoded.
    NotDecoded,
}

/// A server that takes one request again and again.
pub struct Server {
    buffers: Buffers,
    decoder: RefCell<Decoder>,
    parser: Parser,
    store: Store,
    compression: Compression,
    /// The key that the request's head names.
    key: Option<&'static str>,
    body: Vec<u8>,
}

impl Server {
    /// Creates a server for a request.
    ///
    /// # Errors
    /// The request could not be made, or there is no space for a log.
    pub fn of(hostile: &HostileRequest) -> Result<Self> {
        let key = if hostile.scenario == Scenario::KnownKey {
            KEY
        } else {
            UNKNOWN_KEY
        };
        Ok(Self {
            compression: hostile.compression,
            key: hostile.payload.is_v1().then_some(key),
            body: hostile.encode()?.body,
            buffers: Buffers::default(),
            decoder: RefCell::default(),
            parser: Parser::default(),
            store: Store::below(&memory_dir())?,
        })
    }

    /// Accepts or refuses the request once.
    ///
    /// # Errors
    /// An accepted request could not be stored.
    pub fn once(&mut self) -> Result<Outcome> {
        let sent = black_box(self.body.as_slice());
        let expansion = Expansion::of(sent.len(), DECODED_BYTES_MAX);
        let hints = self.compression.hints();
        let decode = |limits| {
            let body_decoder = BodyDecoder {
                buffers: &self.buffers,
                decoder: &self.decoder,
                limits,
            };
            if self.compression == Compression::ImageTag {
                return body_decoder.data(sent, hints.compression);
            }
            body_decoder.body(sent, hints)
        };
        let decoded = testing::decode(sent, hints, self.key, expansion, decode, |key| key == KEY);
        let Ok(json) = decoded.json else {
            return Ok(Outcome::NotDecoded);
        };
        let text = json.as_deref().unwrap_or(sent);
        let mut context: ParseContext<'_> = parse_context();
        if let Some(key) = self.key {
            context.protocol = Protocol::V1 {
                key,
                sent_at: None,
                sdk_info: None,
            };
        }
        let parsed = self.parser.parse(text, &context, &mut |key| match key {
            KEY => KeyLookup::Found(PROJECT),
            _ => KeyLookup::Missing,
        });
        let outcome = match parsed {
            Err(ParseError::NeedsKey(_)) => Outcome::UnknownKey,
            Err(ParseError::Refused(error)) => Outcome::Refused(error.code),
            // More months than a server accepts in one request.
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
