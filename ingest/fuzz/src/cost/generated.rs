//! Bodies made by their descriptions: the first two bytes choose a body's encoding, carrier,
//! beginning and length, the others are repeated.

use super::bounds::{Cost, DECODED_BYTES_MAX, KEY};
use crate::body::encode;
use base64::Engine;
use millrace_encoding::{Encoding, testing};
use std::io::Write;

/// A key that no project has.
const UNKNOWN_KEY: &str = "phc_nobodys";
/// Bytes that a body in LZString may decode to: its compressor takes quadratic time.
const LZ64_BYTES_MAX: usize = 160 << 10;
const ENCODINGS: [Encoding; 5] = [
    Encoding::Gzip,
    Encoding::Brotli,
    Encoding::Zstd,
    Encoding::Deflate,
    Encoding::Identity,
];
/// First uuid of the events of the per-event protocol.
const FIRST_UUID: u128 = 0x0199_0000_0000_7000_8000_0000_0000_0000;
/// Bytes as sent that are nothing but blocks or their tables, before a text.
const BLOCKS_BYTES: usize = 12 << 10;
/// Parts of an event that all have the same text.
const PARTS: usize = 16;

/// Part of the request that carries the encoded text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    Body,
    /// The body, behind blocks with little or no output.
    Blocks,
    /// None: the body is Brotli that asks for the largest tables.
    Trees,
    /// Each of many parts of a multipart event.
    ManyParts,
    /// A form's field, in base64.
    Form,
    /// The part of a multipart event that holds its properties.
    Parts,
    /// The query parameter `data` of an image tag, in base64.
    Query,
    /// The body, in base64 besides.
    Base64,
    /// The body of the per-event protocol, whose head names the key.
    V1,
}

impl Carrier {
    /// Reads the carrier and the encoding from a description's first byte.
    fn of(choice: u8) -> (Self, Encoding) {
        let choice = usize::from(choice >> 3);
        let encoding = ENCODINGS[choice % ENCODINGS.len()];
        match choice {
            5..10 => (Self::Form, encoding),
            10..15 => (Self::Parts, encoding),
            15..20 => (Self::Query, encoding),
            20 | 21 => (Self::Body, Encoding::Lz64),
            22 => (Self::Form, Encoding::Lz64),
            23 => (Self::Query, Encoding::Lz64),
            24 => (Self::Blocks, Encoding::Gzip),
            25 => (Self::Blocks, Encoding::Zstd),
            26 => (Self::ManyParts, Encoding::Brotli),
            27 => (Self::ManyParts, Encoding::Gzip),
            28 => (Self::Trees, Encoding::Brotli),
            29 => (Self::V1, Encoding::Gzip),
            30 => (Self::V1, Encoding::Brotli),
            31 => (Self::Base64, Encoding::Gzip),
            _ => (Self::Body, encoding),
        }
    }

    /// Name in reports.
    const fn name(self) -> &'static str {
        match self {
            Self::Body => "body",
            Self::Blocks => "blocks",
            Self::Trees => "trees",
            Self::ManyParts => "many parts",
            Self::Form => "form",
            Self::Parts => "parts",
            Self::Query => "query",
            Self::Base64 => "base64",
            Self::V1 => "per event",
        }
    }
}

/// A body made by its description, as sent.
pub(super) struct GeneratedBody {
    pub(super) sent: Vec<u8>,
    pub(super) encoding: Encoding,
    pub(super) carrier: Carrier,
    /// Key that the request's head names.
    pub(super) key: Option<&'static str>,
}

impl GeneratedBody {
    pub(super) fn of(data: &[u8]) -> Option<Self> {
        let [choice, length, piece @ ..] = data else {
            return None;
        };
        let (carrier, encoding) = Carrier::of(*choice);
        let plain = match carrier {
            Carrier::V1 => numbered(*choice, *length, piece),
            _ => plain(*choice, *length, piece, encoding),
        };
        let encoded = encode(encoding, &plain)?;
        let sent = match carrier {
            Carrier::Body | Carrier::V1 => encoded,
            Carrier::Blocks => behind_blocks(encoding, &plain, &encoded),
            Carrier::Trees => testing::brotli_of_trees(),
            Carrier::ManyParts => many_parts(encoding, &encoded),
            Carrier::Form if encoding == Encoding::Lz64 => {
                let text = String::from_utf8(encoded).ok()?;
                format!("compression=lz64&data={}", text.replace('+', "%2B")).into_bytes()
            }
            Carrier::Form => form(&encoded),
            Carrier::Parts => parts(encoding, &encoded),
            Carrier::Query if encoding == Encoding::Lz64 => encoded,
            Carrier::Base64 => base64::engine::general_purpose::STANDARD
                .encode(encoded)
                .into_bytes(),
            Carrier::Query => base64::engine::general_purpose::URL_SAFE
                .encode(encoded)
                .into_bytes(),
        };
        let key = if *choice & 1 == 1 { KEY } else { UNKNOWN_KEY };
        Some(Self {
            sent,
            encoding,
            carrier,
            key: (carrier == Carrier::V1).then_some(key),
        })
    }

    pub(super) fn cost(&self) -> Cost {
        Cost {
            sent_bytes: self.sent.len() as u64,
            way: [self.carrier.name(), name_of(self.encoding)],
            is_slow: self.encoding.is_slow(),
            ..Cost::default()
        }
    }
}

/// Text of the body: bare, in an event's list or in its string, with a known key or without.
fn plain(choice: u8, length: u8, piece: &[u8], encoding: Encoding) -> Vec<u8> {
    let key = match choice & 1 {
        1 => format!("\"api_key\":\"{KEY}\","),
        _ => String::new(),
    };
    let event = "\"event\":\"a\",\"distinct_id\":\"b\"";
    let (before, after) = match choice >> 1 & 3 {
        0 => (String::new(), ""),
        1 => (format!("{{{key}\"batch\":["), "1]}"),
        2 => (format!("{{{key}{event},\"properties\":{{\"x\":["), "1]}}"),
        _ => (format!("{{{key}{event},\"properties\":{{\"x\":\""), "\"}}"),
    };
    // From nothing to a little more than is allowed.
    let bytes_max = match encoding {
        Encoding::Lz64 => LZ64_BYTES_MAX,
        _ => DECODED_BYTES_MAX,
    };
    let bytes = bytes_max / 192 * usize::from(length);
    let times = bytes / piece.len().max(1);
    [before.as_bytes(), &piece.repeat(times), after.as_bytes()].concat()
}

/// Events of the per-event protocol, each with a uuid of its own, as no two may have the same, and
/// with the piece in its name, its properties or beside them.
fn numbered(choice: u8, length: u8, piece: &[u8]) -> Vec<u8> {
    let (before, after) = match choice >> 1 & 3 {
        0 => ("", "\"event\":\"a\"}"),
        1 => ("\"event\":\"", "\"}"),
        2 => ("\"event\":\"a\",\"properties\":{\"x\":[", "1]}}"),
        _ => ("\"event\":\"a\",\"properties\":{\"x\":\"", "\"}}"),
    };
    let bytes = DECODED_BYTES_MAX / 192 * usize::from(length);
    let mut text = b"{\"batch\":[".to_vec();
    for number in FIRST_UUID.. {
        if text.len() >= bytes {
            break;
        }
        write!(text, "{{\"uuid\":\"{number:032x}\",\"distinct_id\":\"b\",").unwrap();
        text.extend([before.as_bytes(), piece, after.as_bytes(), b","].concat());
    }
    if text.ends_with(b",") {
        text.pop();
    }
    text.extend_from_slice(b"]}");
    text
}

/// A form with the encoded text in its field `data`.
fn form(encoded: &[u8]) -> Vec<u8> {
    let text = base64::engine::general_purpose::STANDARD.encode(encoded);
    format!("data={}", text.replace('+', "%2B")).into_bytes()
}

/// The encoded text behind as many blocks as one core decodes in one call.
fn behind_blocks(encoding: Encoding, plain: &[u8], encoded: &[u8]) -> Vec<u8> {
    if encoding == Encoding::Zstd {
        return [&testing::zstd_of_tables(BLOCKS_BYTES)[..], encoded].concat();
    }
    let level = flate2::Compression::fast();
    let mut deflated = flate2::write::DeflateEncoder::new(Vec::new(), level);
    deflated.write_all(plain).unwrap();
    testing::gzip_behind_blocks(BLOCKS_BYTES, &deflated.finish().unwrap(), plain)
}

/// A multipart event with the encoded text as many of its parts.
fn many_parts(encoding: Encoding, encoded: &[u8]) -> Vec<u8> {
    let name = name_of(encoding);
    let mut sent = b"--b\r\nContent-Disposition: form-data; name=\"event\"\r\n\r\n".to_vec();
    write!(
        sent,
        "{{\"event\":\"a\",\"distinct_id\":\"b\",\"api_key\":\"{KEY}\"}}"
    )
    .unwrap();
    for number in 0..PARTS {
        write!(
            sent,
            "\r\n--b\r\nContent-Disposition: form-data; name=\"event.properties.{number}\"\r\nContent-Encoding: {name}\r\n\r\n"
        )
        .unwrap();
        sent.extend_from_slice(encoded);
    }
    sent.extend_from_slice(b"\r\n--b--\r\n");
    sent
}

/// Name of the encoding in a part's head and in reports.
const fn name_of(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Gzip => "gzip",
        Encoding::Brotli => "br",
        Encoding::Zstd => "zstd",
        Encoding::Deflate => "deflate",
        Encoding::Lz64 => "lz64",
        _ => "identity",
    }
}

/// A multipart event with the encoded text as its part `event.properties`.
fn parts(encoding: Encoding, encoded: &[u8]) -> Vec<u8> {
    let name = name_of(encoding);
    let named = |name: &str| format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n");
    let event = format!("{{\"event\":\"a\",\"distinct_id\":\"b\",\"api_key\":\"{KEY}\"}}");
    let before = format!(
        "{}\r\n{event}\r\n{}Content-Type: application/json\r\nContent-Encoding: {name}\r\n\r\n",
        named("event"),
        named("event.properties"),
    );
    [before.as_bytes(), encoded, b"\r\n--b--\r\n"].concat()
}
