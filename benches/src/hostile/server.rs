//! A server's work for a hostile request: decode, parse, store or refuse.

use super::{BOUNDARY, Compression, HostileRequest, KEY, Scenario};
use crate::hot_path::{PROJECT, memory_dir, parse_context};
use crate::store::Store;
use anyhow::Result;
use millrace_encoding::{BodyDecoder, Boundary, Buffers, Decoder, Expansion, testing};
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
    is_v1: bool,
    body: Vec<u8>,
    /// Most bytes that the body may decode to, whatever its key.
    decoded_bytes_max: usize,
}

impl Server {
    /// Creates a server for a request.
    ///
    /// # Errors
    /// The request could not be made, or there is no space for a log.
    pub fn of(hostile: &HostileRequest) -> Result<Self> {
        let key = match hostile.scenario {
            Scenario::KnownKey | Scenario::KnownBomb => KEY,
            Scenario::UnknownKey | Scenario::Bomb => UNKNOWN_KEY,
        };
        let body = hostile.encode()?.body;
        let is_v1 = hostile.payload.is_v1();
        let is_in_head = is_v1 || hostile.compression == Compression::Parts;
        Ok(Self {
            compression: hostile.compression,
            key: is_in_head.then_some(key),
            is_v1,
            decoded_bytes_max: hostile.decoded_bytes_max(body.len()),
            body,
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
        let expansion = Expansion::of(sent.len(), self.decoded_bytes_max);
        let hints = self.compression.hints();
        let decode = |limits| {
            let body_decoder = BodyDecoder {
                buffers: &self.buffers,
                decoder: &self.decoder,
                limits,
            };
            match self.compression {
                Compression::ImageTag => body_decoder.data(sent, hints.compression),
                Compression::Parts => {
                    let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
                    let boundary = Boundary::of(Some(content_type.as_bytes()))?;
                    let json = body_decoder.parts(sent, hints, boundary, self.key);
                    json.map(Some)
                }
                _ => body_decoder.body(sent, hints),
            }
        };
        let decoded = testing::decode(sent, hints, self.key, expansion, decode, |key| key == KEY);
        let Ok(json) = decoded.json else {
            return Ok(Outcome::NotDecoded);
        };
        let text = json.as_deref().unwrap_or(sent);
        let mut context: ParseContext<'_> = parse_context();
        if let Some(key) = self.key.filter(|_| self.is_v1) {
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
