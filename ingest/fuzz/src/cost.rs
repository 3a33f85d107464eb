//! Target `cost`: bodies that are made to be expensive, and the memory and core time that each
//! takes for the bytes sent.

use crate::body::encode;
use crate::parse::context;
use base64::Engine;
use millrace_encoding::{
    BodyDecoder, Boundary, Buffers, Decoder, Encoding, Expansion, Hints, testing,
};
use millrace_parse::{Footprint, KeyLookup, Parser, Project};
use millrace_rows::ProjectId;
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::io::Write;
use std::time::Duration;

/// Bytes that a body may decode to in this test; a server allows fifty times as much.
const DECODED_BYTES_MAX: usize = 2 << 20;
/// Bytes that a body in LZString may decode to: its compressor takes quadratic time.
const LZ64_BYTES_MAX: usize = 160 << 10;
/// Bytes allowed to every body: tables and windows of decoders, and the smallest lists.
const FIXED_BYTES: u64 = 1 << 20;
/// Bytes allowed to every body in Brotli: a few bytes of it ask for 256 trees for each of literals,
/// insertions and distances, with 1 080 codes of four bytes each.
const BROTLI_TABLES_BYTES: u64 = 3 * 256 * 1_080 * 4;
/// Bytes of memory allowed for each byte that a body with a known key decodes to.
const KNOWN_BYTES_PER_BYTE: u64 = 40;
/// Bytes of memory allowed for each byte sent of any other body: 1 MiB for a kB.
const UNKNOWN_BYTES_PER_BYTE: u64 = 1 << 10;
/// Bytes that simd-json reserves for each structural character, for a tape that it never writes.
const TAPE_BYTES: u64 = 24;
/// The one project key that is known.
const KEY: &str = "phc_known";
const ENCODINGS: [Encoding; 5] = [
    Encoding::Gzip,
    Encoding::Brotli,
    Encoding::Zstd,
    Encoding::Deflate,
    Encoding::Identity,
];
/// Core time allowed for each byte that a body with a known key decodes to. `make bench-check`
/// holds this and the next two bounds in instructions.
const KNOWN_NANOSECONDS_PER_BYTE: u64 = 20;
/// Core time allowed for each decoded byte of a slow encoding with a known key.
const KNOWN_SLOW_NANOSECONDS_PER_BYTE: u64 = 60;
/// Core time allowed for each kB sent of any other body.
const UNKNOWN_NANOSECONDS_PER_KB: u64 = 1_000_000;
/// Core time allowed to every body: tables of decoders, and the clock's resolution.
const FIXED_NANOSECONDS: u64 = 1_000_000;
/// Number of times that a body is timed; the least counts, as the machine has other load.
const TIMES: usize = 3;

/// Cost of a body.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Bytes as sent.
    pub sent_bytes: u64,
    /// Bytes that it decoded to, or may have before it was refused.
    pub decoded_bytes: u64,
    /// Peak of allocated bytes.
    pub allocated_bytes: u64,
    /// Nanoseconds of a core, the least of several runs; 0 unless it was [timed](time_of).
    pub nanoseconds: u64,
    /// Bytes that are reserved and never written, which cost nothing.
    reserved_bytes: u64,
    is_key_known: bool,
    is_slow: bool,
}

impl Cost {
    /// Most bytes of memory that the body may take.
    #[must_use]
    pub fn allowed_bytes(&self) -> u64 {
        let sent_bytes = self.sent_bytes.max(1 << 10);
        let unknown = sent_bytes * UNKNOWN_BYTES_PER_BYTE;
        let known = self.decoded_bytes * KNOWN_BYTES_PER_BYTE;
        let allowed = if self.is_key_known { known } else { unknown };
        let tables = if self.is_slow { BROTLI_TABLES_BYTES } else { 0 };
        FIXED_BYTES + tables + self.reserved_bytes + allowed
    }

    /// Most nanoseconds of a core that the body may take.
    #[must_use]
    pub fn allowed_nanoseconds(&self) -> u64 {
        let sent_bytes = self.sent_bytes.max(1 << 10);
        let each = if self.is_slow {
            KNOWN_SLOW_NANOSECONDS_PER_BYTE
        } else {
            KNOWN_NANOSECONDS_PER_BYTE
        };
        let known = self.decoded_bytes * each;
        let unknown = sent_bytes * UNKNOWN_NANOSECONDS_PER_KB / 1_000;
        FIXED_NANOSECONDS + if self.is_key_known { known } else { unknown }
    }

    /// Time taken in thousandths of the allowed time: a maker of bombs maximises it.
    #[must_use]
    pub fn thousandths_of_time(&self) -> u64 {
        self.nanoseconds * 1_000 / self.allowed_nanoseconds()
    }

    /// Bytes of memory for each byte sent: a maker of bombs maximises it.
    #[must_use]
    pub fn per_byte_sent(&self) -> u64 {
        self.allocated_bytes / self.sent_bytes.max(1)
    }
}

/// Bytes as sent that are nothing but blocks or their tables, before a text.
const BLOCKS_BYTES: usize = 12 << 10;
/// Parts of an event that all have the same text.
const PARTS: usize = 16;

/// Part of the request that carries the encoded text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carrier {
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
            _ => (Self::Body, encoding),
        }
    }
}

/// Parses a body made by its description: the first two bytes choose its encoding, carrier,
/// beginning and length, the others are repeated.
///
/// # Panics
///
/// If it takes more memory than its bound.
pub fn cost(data: &[u8]) {
    if let Some(cost) = cost_of(data) {
        assert!(
            cost.allocated_bytes <= cost.allowed_bytes(),
            "{cost:?} of {} bytes",
            cost.allowed_bytes()
        );
    }
}

/// Measures the memory that the body of a description takes.
#[must_use]
pub fn cost_of(data: &[u8]) -> Option<Cost> {
    let body = GeneratedBody::of(data)?;
    let mut cost = body.cost();
    let allocated = allocation_counter::measure(|| body.request(&mut cost));
    cost.allocated_bytes = allocated.bytes_max;
    Some(cost)
}

/// Measures the calling thread's core time for the body of a description.
#[must_use]
pub fn time_of(data: &[u8]) -> Option<Cost> {
    let body = GeneratedBody::of(data)?;
    let timed = |_| {
        let mut cost = body.cost();
        let began = thread_time();
        body.request(&mut cost);
        let took = thread_time().saturating_sub(began);
        cost.nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        cost
    };
    (0..TIMES).map(timed).min_by_key(|cost| cost.nanoseconds)
}

/// Core time that this thread has taken.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// A body made by its description, as sent.
struct GeneratedBody {
    sent: Vec<u8>,
    encoding: Encoding,
    carrier: Carrier,
}

impl GeneratedBody {
    fn of(data: &[u8]) -> Option<Self> {
        let [choice, length, piece @ ..] = data else {
            return None;
        };
        let (carrier, encoding) = Carrier::of(*choice);
        let plain = plain(*choice, *length, piece, encoding);
        let encoded = encode(encoding, &plain)?;
        let sent = match carrier {
            Carrier::Body => encoded,
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
            Carrier::Query => base64::engine::general_purpose::URL_SAFE
                .encode(encoded)
                .into_bytes(),
        };
        Some(Self {
            sent,
            encoding,
            carrier,
        })
    }

    fn cost(&self) -> Cost {
        Cost {
            sent_bytes: self.sent.len() as u64,
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

/// Name of the encoding in a part's head.
const fn name_of(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Gzip => "gzip",
        Encoding::Brotli => "br",
        Encoding::Zstd => "zstd",
        Encoding::Deflate => "deflate",
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

impl GeneratedBody {
    /// Decodes and parses the request as a server does.
    fn request(&self, cost: &mut Cost) {
        let (sent, encoding, carrier) = (self.sent.as_slice(), self.encoding, self.carrier);
        let expansion = Expansion::of(sent.len(), DECODED_BYTES_MAX);
        let boundary = Boundary::of(Some(b"multipart/form-data; boundary=b")).unwrap();
        let (buffers, decoder) = (Buffers::default(), RefCell::<Decoder>::default());
        let hints = Hints {
            content_encoding: match carrier {
                Carrier::Body | Carrier::Blocks | Carrier::Trees => encoding,
                _ => Encoding::Identity,
            },
            compression: match carrier {
                Carrier::Query => encoding,
                _ => Encoding::Identity,
            },
            form: carrier == Carrier::Form,
        };
        let decode = |limits| {
            let body_decoder = BodyDecoder {
                buffers: &buffers,
                decoder: &decoder,
                limits,
            };
            match carrier {
                Carrier::Parts | Carrier::ManyParts => body_decoder
                    .parts(sent, hints, boundary.clone(), None)
                    .map(Some),
                Carrier::Query => body_decoder.data(sent, hints.compression),
                Carrier::Body | Carrier::Blocks | Carrier::Trees | Carrier::Form => {
                    body_decoder.body(sent, hints)
                }
            }
        };
        let decoded = testing::decode(sent, hints, None, expansion, decode, |key| key == KEY);
        cost.is_key_known = decoded.is_key_known;
        cost.decoded_bytes = expansion.limits(cost.is_key_known).of(encoding) as u64;
        let Ok(json) = decoded.json else { return };
        let text = json.as_deref().unwrap_or(sent);
        if carrier != Carrier::Blocks {
            cost.decoded_bytes = text.len() as u64;
        }
        let structure = text.iter().filter(|byte| b"{}[]:,\"".contains(byte));
        cost.reserved_bytes = structure.count() as u64 * TAPE_BYTES;
        let mut parser = Parser::with_capacity_for(&Footprint::of(text));
        let parsed = parser.parse(text, &context(0), &mut |key| {
            if key != KEY {
                return KeyLookup::Unknown;
            }
            cost.is_key_known = true;
            KeyLookup::Found(Project {
                id: ProjectId(1),
                anonymize_ips: false,
                ingested_event: true,
            })
        });
        drop(parsed);
    }
}
