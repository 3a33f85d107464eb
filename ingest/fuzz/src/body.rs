//! Bodies as sent, against a fresh decoder and against other libraries.

use base64::Engine;
use bytes::Bytes;
use millrace_encoding::{
    Boundary, Buffers, DecodeError, Decoder, Encoding, Hints, Room, Unwrapper, Whole,
};
use std::cell::RefCell;
use std::io::{Read, Write};

const BYTES_MAX: usize = 40 << 10;
const ENCODINGS: [Encoding; 7] = [
    Encoding::Identity,
    Encoding::Gzip,
    Encoding::Deflate,
    Encoding::Brotli,
    Encoding::Zstd,
    Encoding::Base64,
    Encoding::Lz64,
];

/// One core's decoding state: the same for all inputs, as on a core.
#[derive(Default)]
struct Core {
    buffers: Buffers,
    decoder: RefCell<Decoder>,
}

thread_local! {
    static CORE: Core = Core::default();
}

/// Two bytes choose: decode the rest as sent by some client, or encode and decode it.
///
/// # Panics
///
/// If more comes out than is allowed, a decoder that was used before decodes otherwise than a
/// fresh one or than another library, or something encoded does not come back.
pub fn body(data: &[u8]) {
    let [choice, encodings, data @ ..] = data else {
        return;
    };
    let (choice, encodings) = (usize::from(*choice), usize::from(*encodings));
    let encoding = ENCODINGS[encodings % ENCODINGS.len()];
    // What takes other libraries their time is done less often.
    CORE.with(|core| match choice % 16 {
        0..=7 => as_sent(core, data, choice / 16, encodings),
        8..=14 => decoded(core, encoding, data),
        _ => encoded(core, encoding, data),
    });
}

/// The whole way of a body: form, parts, `data`, encodings one inside the other.
fn as_sent(core: &Core, data: &[u8], choice: usize, encodings: usize) {
    let hints = Hints {
        content_encoding: ENCODINGS[encodings % 7],
        compression: ENCODINGS[encodings / 7 % 7],
        form: choice & 1 == 1,
    };
    let in_query = choice & 2 == 2;
    let in_parts = choice & 8 == 8;
    let run = |buffers: &Buffers, decoder: &RefCell<Decoder>| {
        let unwrapper = Unwrapper {
            buffers,
            decoder,
            room: Room::of_all(BYTES_MAX),
        };
        let json = if in_parts {
            let boundary = Boundary::of(Some(b"multipart/form-data; boundary=b"));
            let json = unwrapper.parts(data, hints, boundary.unwrap(), Some("key"));
            json.map(Some)
        } else if in_query {
            unwrapper.data(data, hints.compression)
        } else {
            unwrapper.body(data, hints)
        };
        json.map(|json| json.unwrap_or_else(|| Whole::Frame(Bytes::copy_from_slice(data))))
    };
    let used = run(&core.buffers, &core.decoder);
    if let Ok(used) = &used {
        assert!(used.len() <= BYTES_MAX.max(data.len()));
        if in_parts {
            serde_json::from_slice::<serde::de::IgnoredAny>(used).unwrap();
        }
    }
    if choice & 4 == 4 {
        let fresh = run(&Buffers::default(), &RefCell::default());
        match (&used, &fresh) {
            (Ok(used), Ok(fresh)) => assert!(**used == **fresh, "decoded otherwise"),
            (Err(used), Err(fresh)) => assert_eq!(used, fresh),
            (used, fresh) => panic!("used {used:?}, fresh {fresh:?}"),
        }
    }
    if let Ok(used) = used {
        used.recycle(&core.buffers);
    }
}

/// One encoding, against a library that we do not use for it where there is one.
fn decoded(core: &Core, encoding: Encoding, data: &[u8]) {
    let (result, ours) = decode(core, encoding, data);
    if result.is_err() {
        return;
    }
    assert!(ours.len() <= BYTES_MAX);
    if let Some(theirs) = reference(encoding, data) {
        assert!(
            ours == theirs,
            "{encoding:?}: another library reads otherwise"
        );
    }
    core.buffers.put(ours);
}

fn decode(core: &Core, encoding: Encoding, data: &[u8]) -> (Result<(), DecodeError>, Vec<u8>) {
    let mut out = core.buffers.take();
    let mut decoder = core.decoder.borrow_mut();
    let result = decoder.decode(encoding, data, &mut out, BYTES_MAX);
    // Buffers grow by four, up to what is allowed.
    assert!(
        out.capacity() <= 2 * BYTES_MAX + data.len(),
        "{}",
        out.capacity()
    );
    (result, out)
}

/// What another library makes of it; `None` if it does not take it, or there is none.
fn reference(encoding: Encoding, data: &[u8]) -> Option<Vec<u8>> {
    match encoding {
        Encoding::Identity => Some(data.to_vec()),
        Encoding::Gzip => all(flate2::read::MultiGzDecoder::new(data)),
        Encoding::Deflate => all(flate2::read::ZlibDecoder::new(data))
            .or_else(|| all(flate2::read::DeflateDecoder::new(data))),
        Encoding::Lz64 => lz64(data),
        // Ours is the library there is; a fresh one is asked by `as_sent`.
        Encoding::Brotli | Encoding::Zstd | Encoding::Base64 => None,
    }
}

fn all(reader: impl Read) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let limit = BYTES_MAX as u64 + 1;
    reader.take(limit).read_to_end(&mut out).ok()?;
    Some(out)
}

fn lz64(data: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(data).ok()?;
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte));
    if !is_plain {
        // The other alphabet and line ends are a courtesy of ours.
        return None;
    }
    let units = lz_str::decompress_from_base64(text)?;
    Some(String::from_utf16(&units).ok()?.into_bytes())
}

/// What goes in comes out.
fn encoded(core: &Core, encoding: Encoding, data: &[u8]) {
    let Some(sent) = encode(encoding, data) else {
        return;
    };
    let (result, out) = decode(core, encoding, &sent);
    assert_eq!(result, Ok(()), "{encoding:?}");
    assert!(out == data, "{encoding:?} comes back");
    core.buffers.put(out);
}

pub(crate) fn encode(encoding: Encoding, data: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let level = flate2::Compression::fast();
    match encoding {
        Encoding::Identity => out.extend_from_slice(data),
        Encoding::Gzip => {
            // Two members, one after the other.
            let (first, second) = data.split_at(data.len() / 3);
            for part in [first, second] {
                let mut encoder = flate2::write::GzEncoder::new(&mut out, level);
                encoder.write_all(part).unwrap();
                encoder.finish().unwrap();
            }
        }
        Encoding::Deflate => {
            let mut encoder = flate2::write::ZlibEncoder::new(&mut out, level);
            encoder.write_all(data).unwrap();
            encoder.finish().unwrap();
        }
        Encoding::Brotli => {
            let mut encoder = brotli::CompressorWriter::new(&mut out, 4096, 0, 16);
            encoder.write_all(data).unwrap();
            drop(encoder);
        }
        Encoding::Zstd => out = zstd::bulk::compress(data, 1).unwrap(),
        Encoding::Base64 => {
            out = base64::engine::general_purpose::STANDARD
                .encode(data)
                .into_bytes();
        }
        Encoding::Lz64 => {
            out = lz_str::compress_to_base64(std::str::from_utf8(data).ok()?).into_bytes();
        }
    }
    Some(out)
}
