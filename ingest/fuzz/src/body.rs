//! Target `body`: decodes bodies as sent, and compares with a fresh decoder and other libraries.

use base64::Engine;
use bytes::Bytes;
use millrace_encoding::{
    BodyBuf, BodyDecoder, Boundary, Buffers, DecodeError, DecodeLimits, Decoder, Encoding, Hints,
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

/// Decoding state of one core, which is shared by all inputs, as in a server.
#[derive(Default)]
struct DecodeState {
    buffers: Buffers,
    decoder: RefCell<Decoder>,
}

thread_local! {
    static STATE: DecodeState = DecodeState::default();
}

/// Decodes the input as sent by some client, or encodes and decodes it, by its first two bytes.
///
/// # Panics
///
/// If more comes out than is allowed, if a decoder that was used before differs from a fresh one
/// or from another library, or if an encoded text is not decoded to itself.
pub fn body(data: &[u8]) {
    let [choice, encodings, data @ ..] = data else {
        return;
    };
    let (choice, encodings) = (usize::from(*choice), usize::from(*encodings));
    let encoding = ENCODINGS[encodings % ENCODINGS.len()];
    // Cases in which other libraries are slow run less often.
    STATE.with(|state| match choice % 16 {
        0..=7 => check_request(state, data, choice / 16, encodings),
        8..=14 => check_decoding(state, encoding, data),
        _ => check_round_trip(state, encoding, data),
    });
}

/// Decodes a whole body: form, parts, `data`, nested encodings.
fn check_request(state: &DecodeState, data: &[u8], choice: usize, encodings: usize) {
    let hints = Hints {
        content_encoding: ENCODINGS[encodings % 7],
        compression: ENCODINGS[encodings / 7 % 7],
        form: choice & 1 == 1,
    };
    let in_query = choice & 2 == 2;
    let in_parts = choice & 8 == 8;
    let run = |buffers: &Buffers, decoder: &RefCell<Decoder>| {
        let body_decoder = BodyDecoder {
            buffers,
            decoder,
            limits: DecodeLimits::of_all(BYTES_MAX),
        };
        let json = if in_parts {
            let boundary = Boundary::of(Some(b"multipart/form-data; boundary=b"));
            let json = body_decoder.parts(data, hints, boundary.unwrap(), Some("key"));
            json.map(Some)
        } else if in_query {
            body_decoder.data(data, hints.compression)
        } else {
            body_decoder.body(data, hints)
        };
        json.map(|json| json.unwrap_or_else(|| BodyBuf::Frame(Bytes::copy_from_slice(data))))
    };
    let used = run(&state.buffers, &state.decoder);
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
        used.recycle(&state.buffers);
    }
}

/// Decodes one encoding, and compares with a library that we do not use for it, if there is one.
fn check_decoding(state: &DecodeState, encoding: Encoding, data: &[u8]) {
    let (result, ours) = decode(state, encoding, data);
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
    state.buffers.put(ours);
}

fn decode(
    state: &DecodeState,
    encoding: Encoding,
    data: &[u8],
) -> (Result<(), DecodeError>, Vec<u8>) {
    let mut out = state.buffers.take();
    let mut decoder = state.decoder.borrow_mut();
    let result = decoder.decode(encoding, data, &mut out, BYTES_MAX);
    // Buffers grow by four, up to what is allowed.
    assert!(
        out.capacity() <= 2 * BYTES_MAX + data.len(),
        "{}",
        out.capacity()
    );
    (result, out)
}

/// Decodes by another library; `None` if it refuses the text, or there is none.
fn reference(encoding: Encoding, data: &[u8]) -> Option<Vec<u8>> {
    match encoding {
        Encoding::Identity => Some(data.to_vec()),
        Encoding::Gzip => all(flate2::read::MultiGzDecoder::new(data)),
        Encoding::Deflate => all(flate2::read::ZlibDecoder::new(data))
            .or_else(|| all(flate2::read::DeflateDecoder::new(data))),
        Encoding::Lz64 => lz64(data),
        // We use the only library there is; `check_request` compares with a fresh decoder.
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
        // Only our decoder accepts the other alphabet and line ends.
        return None;
    }
    let units = lz_str::decompress_from_base64(text)?;
    Some(String::from_utf16(&units).ok()?.into_bytes())
}

/// Encodes the input, decodes it, and compares.
fn check_round_trip(state: &DecodeState, encoding: Encoding, data: &[u8]) {
    let Some(sent) = encode(encoding, data) else {
        return;
    };
    let (result, out) = decode(state, encoding, &sent);
    assert_eq!(result, Ok(()), "{encoding:?}");
    assert!(out == data, "{encoding:?} comes back");
    state.buffers.put(out);
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
