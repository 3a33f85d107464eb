//! Bodies that are made to cost much: how much memory, and how much time of a core, one takes for what was sent.

use crate::body::encode;
use crate::parse::facts;
use base64::Engine;
use millrace_encoding::{
    Boundary, Buffers, Decoder, Encoding, Expansion, Hints, Unwrapper, testing,
};
use millrace_parse::{Footprint, KeyLookup, Parser, Project};
use millrace_rows::TeamId;
use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::io::Write;
use std::time::Duration;

/// Bytes that a body may decode to here; a server allows fifty times as much.
const DECODED_BYTES_MAX: usize = 2 << 20;
/// The same in LZString, whose compressor takes the square of its time.
const LZ64_BYTES_MAX: usize = 160 << 10;
/// Bytes beside what is allowed: the tables and windows of decoders, and the smallest lists.
const FIXED_BYTES: u64 = 1 << 20;
/// Bytes of memory for each byte that a body with a known key decodes to.
const KNOWN_BYTES_PER_BYTE: u64 = 40;
/// Bytes of memory for each byte sent of any other body: 1 MiB for a kB.
const UNKNOWN_BYTES_PER_BYTE: u64 = 1 << 10;
/// Bytes that simd-json reserves for each mark, for a tape that it never gets to.
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
/// Time of a core for each byte that a body with a known key decodes to, and of a slow encoding; and for each kB sent of
/// any other body: what `make bench-check` holds in instructions.
const KNOWN_NANOSECONDS_PER_BYTE: u64 = 20;
const KNOWN_SLOW_NANOSECONDS_PER_BYTE: u64 = 60;
const UNKNOWN_NANOSECONDS_PER_KB: u64 = 1_000_000;
/// Time beside what is allowed: tables of decoders, and a clock that tells no less.
const FIXED_NANOSECONDS: u64 = 1_000_000;
/// How often a body is timed; the least counts, as others use the machine, too.
const TIMES: usize = 3;

/// What a body cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Bytes as sent.
    pub sent_bytes: u64,
    /// Bytes that came out, or may have before it was refused.
    pub decoded_bytes: u64,
    /// Bytes of memory that were taken at the same time.
    pub allocated_bytes: u64,
    /// Nanoseconds of a core, the least of some times; nothing unless it was [timed](time_of).
    pub nanoseconds: u64,
    /// Bytes that are reserved and never written, which cost nothing.
    reserved_bytes: u64,
    is_key_known: bool,
    is_slow: bool,
}

impl Cost {
    /// Bytes of memory that it may take.
    #[must_use]
    pub fn allowed_bytes(&self) -> u64 {
        let sent_bytes = self.sent_bytes.max(1 << 10);
        let unknown = sent_bytes * UNKNOWN_BYTES_PER_BYTE;
        let known = self.decoded_bytes * KNOWN_BYTES_PER_BYTE;
        let allowed = if self.is_key_known { known } else { unknown };
        FIXED_BYTES + self.reserved_bytes + allowed
    }

    /// Nanoseconds of a core that it may take.
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

    /// Thousandths of the time that it may take: those who make bombs want many of them.
    #[must_use]
    pub fn thousandths_of_time(&self) -> u64 {
        self.nanoseconds * 1_000 / self.allowed_nanoseconds()
    }

    /// Bytes of memory for each byte sent: what who makes bombs wants much of.
    #[must_use]
    pub fn per_byte_sent(&self) -> u64 {
        self.allocated_bytes / self.sent_bytes.max(1)
    }
}

/// Bytes as sent that are nothing but blocks or their tables, before a text.
const BLOCKS_BYTES: usize = 12 << 10;
/// Parts of an event that all have the same text.
const PARTS: usize = 16;

/// How what is encoded gets here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Body,
    /// Behind blocks of which little or nothing comes out.
    Blocks,
    /// As each of many parts of an event.
    ManyParts,
    /// In base64, as a form's field.
    Form,
    /// As the part of an event that its properties are.
    Parts,
    /// In base64, as the field `data` of a picture's address.
    Query,
}

impl Way {
    /// The way that a description's first byte chooses, and the encoding.
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
            _ => (Self::Body, encoding),
        }
    }
}

/// A body by its description: two bytes choose its encoding, how it is sent, how it begins and its length, the others
/// are what it repeats.
///
/// # Panics
///
/// If it takes more memory than it may.
pub fn cost(data: &[u8]) {
    if let Some(cost) = cost_of(data) {
        assert!(
            cost.allocated_bytes <= cost.allowed_bytes(),
            "{cost:?} of {} bytes",
            cost.allowed_bytes()
        );
    }
}

/// What the body of a description costs.
#[must_use]
pub fn cost_of(data: &[u8]) -> Option<Cost> {
    let body = Described::of(data)?;
    let mut cost = body.cost();
    let allocated = allocation_counter::measure(|| body.request(&mut cost));
    cost.allocated_bytes = allocated.bytes_max;
    Some(cost)
}

/// The same in time of the thread's that asks.
#[must_use]
pub fn time_of(data: &[u8]) -> Option<Cost> {
    let body = Described::of(data)?;
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

/// Time of a core that this thread has taken.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// A body as it is sent.
struct Described {
    sent: Vec<u8>,
    encoding: Encoding,
    way: Way,
}

impl Described {
    fn of(data: &[u8]) -> Option<Self> {
        let [choice, length, piece @ ..] = data else {
            return None;
        };
        let (way, encoding) = Way::of(*choice);
        let plain = plain(*choice, *length, piece, encoding);
        let encoded = encode(encoding, &plain)?;
        let sent = match way {
            Way::Body => encoded,
            Way::Blocks => behind_blocks(encoding, &plain, &encoded),
            Way::ManyParts => many_parts(encoding, &encoded),
            Way::Form if encoding == Encoding::Lz64 => {
                let text = String::from_utf8(encoded).ok()?;
                format!("compression=lz64&data={}", text.replace('+', "%2B")).into_bytes()
            }
            Way::Form => form(&encoded),
            Way::Parts => parts(encoding, &encoded),
            Way::Query if encoding == Encoding::Lz64 => encoded,
            Way::Query => base64::engine::general_purpose::URL_SAFE
                .encode(encoded)
                .into_bytes(),
        };
        Some(Self {
            sent,
            encoding,
            way,
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

/// The text: bare, in an event's list or in its string, with a key that is known or without.
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

/// A form whose field `data` this is.
fn form(encoded: &[u8]) -> Vec<u8> {
    let text = base64::engine::general_purpose::STANDARD.encode(encoded);
    format!("data={}", text.replace('+', "%2B")).into_bytes()
}

/// The same behind as many blocks as one core takes in one call.
fn behind_blocks(encoding: Encoding, plain: &[u8], encoded: &[u8]) -> Vec<u8> {
    if encoding == Encoding::Zstd {
        return [&testing::zstd_of_tables(BLOCKS_BYTES)[..], encoded].concat();
    }
    let level = flate2::Compression::fast();
    let mut deflated = flate2::write::DeflateEncoder::new(Vec::new(), level);
    deflated.write_all(plain).unwrap();
    testing::gzip_behind_blocks(BLOCKS_BYTES, &deflated.finish().unwrap(), plain)
}

/// An event in parts, many of which this is.
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

/// What a part says of how it is encoded.
const fn name_of(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Gzip => "gzip",
        Encoding::Brotli => "br",
        Encoding::Zstd => "zstd",
        Encoding::Deflate => "deflate",
        _ => "identity",
    }
}

/// An event in parts, one of which this is: its properties, if it is an object.
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

impl Described {
    /// The way of a request's body, as a server takes it.
    fn request(&self, cost: &mut Cost) {
        let (sent, encoding, way) = (self.sent.as_slice(), self.encoding, self.way);
        let expansion = Expansion::of(sent.len(), DECODED_BYTES_MAX);
        let boundary = Boundary::of(Some(b"multipart/form-data; boundary=b")).unwrap();
        let (buffers, decoder) = (Buffers::default(), RefCell::<Decoder>::default());
        let hints = Hints {
            content_encoding: match way {
                Way::Body | Way::Blocks => encoding,
                _ => Encoding::Identity,
            },
            compression: match way {
                Way::Query => encoding,
                _ => Encoding::Identity,
            },
            form: way == Way::Form,
        };
        let decode = |room| {
            let unwrapper = Unwrapper {
                buffers: &buffers,
                decoder: &decoder,
                room,
            };
            match way {
                Way::Parts | Way::ManyParts => unwrapper
                    .parts(sent, hints, boundary.clone(), None)
                    .map(Some),
                Way::Query => unwrapper.data(sent, hints.compression),
                Way::Body | Way::Blocks | Way::Form => unwrapper.body(sent, hints),
            }
        };
        let decoded = testing::decode(sent, hints, None, expansion, decode, |key| key == KEY);
        cost.is_key_known = decoded.is_key_known;
        cost.decoded_bytes = expansion.room(cost.is_key_known).of(encoding) as u64;
        let Ok(json) = decoded.json else { return };
        let text = json.as_deref().unwrap_or(sent);
        if way != Way::Blocks {
            cost.decoded_bytes = text.len() as u64;
        }
        let structure = text.iter().filter(|byte| b"{}[]:,\"".contains(byte));
        cost.reserved_bytes = structure.count() as u64 * TAPE_BYTES;
        let mut parser = Parser::with_room_for(&Footprint::of(text));
        let parsed = parser.parse(text, &facts(0), &mut |key| {
            if key != KEY {
                return KeyLookup::Unknown;
            }
            cost.is_key_known = true;
            KeyLookup::Found(Project {
                team_id: TeamId(1),
                anonymize_ips: false,
                ingested_event: true,
            })
        });
        drop(parsed);
    }
}
