//! Tests of multipart events: limits that all parts share.

use super::{bare, br};
use crate::testing::gzip_behind_blocks;
use crate::*;
use std::cell::RefCell;

const KIB: usize = 1 << 10;

/// Encoding and bytes of a part.
type Part = (&'static str, Vec<u8>);

/// Multipart event with these properties.
fn event(properties: &[Part]) -> Vec<u8> {
    let named = |name: &str| format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n");
    let mut sent = format!("{}\r\n{{\"event\":\"a\"}}\r\n", named("event")).into_bytes();
    for (number, (encoding, bytes)) in properties.iter().enumerate() {
        let name = named(&format!("event.properties.p{number}"));
        sent.extend(format!("{name}Content-Encoding: {encoding}\r\n\r\n").into_bytes());
        sent.extend(bytes);
        sent.extend(b"\r\n");
    }
    sent.extend(b"--b--\r\n");
    sent
}

fn decode(sent: &[u8], limits: DecodeLimits) -> Result<usize, BodyDecodeError> {
    let body_decoder = BodyDecoder {
        buffers: &Buffers::default(),
        decoder: &RefCell::default(),
        limits,
    };
    let boundary = Boundary::of(Some(b"multipart/form-data; boundary=b")).unwrap();
    let json = body_decoder.parts(sent, Hints::default(), boundary, None);
    json.map(|json| json.len())
}

/// Encoding of the part that is too large, if any.
fn too_large(sent: &[u8], limits: DecodeLimits) -> Option<Encoding> {
    match decode(sent, limits) {
        Ok(_) => None,
        Err(BodyDecodeError::TooLarge(encoded)) => Some(encoded.encoding),
        Err(BodyDecodeError::Refused(error)) => panic!("{error:?}"),
    }
}

#[test]
fn parts_in_slow_encodings_share_their_limit() {
    let limits = DecodeLimits {
        bytes_max: 100 * KIB,
        slow_bytes_max: 40 * KIB,
    };
    let parts = |count: usize, bytes: usize| vec![("br", br(&vec![b'a'; bytes])); count];
    let table = [
        (parts(1, 40 * KIB), None),
        (parts(1, 40 * KIB + 1), Some(Encoding::Brotli)),
        (parts(4, 10 * KIB), None),
        (parts(4, 10 * KIB + 1), Some(Encoding::Brotli)),
        (parts(16, 5 * KIB), Some(Encoding::Brotli)),
    ];
    for (properties, expected) in table {
        let count = properties.len();
        assert_eq!(too_large(&event(&properties), limits), expected, "{count}");
    }
    let plain = vec![("identity", vec![b'a'; 20 * KIB]); 4];
    assert_eq!(too_large(&event(&plain), limits), None);
}

#[test]
fn a_part_in_a_slow_encoding_of_a_long_body_is_not_decoded_on_a_core() {
    for (bytes, expected) in [(15 * KIB, None), (17 * KIB, Some(Encoding::Brotli))] {
        let sent = event(&[("identity", vec![b'a'; bytes]), ("br", br(b"text"))]);
        let limits = Expansion::of(sent.len(), 1 << 20).limits(true);
        assert_eq!(too_large(&sent, limits.on_core(sent.len())), expected);
        assert_eq!(too_large(&sent, limits), None);
    }
}

#[test]
fn blocks_are_counted_in_all_parts_together() {
    let part = |blocks_bytes: usize| gzip_behind_blocks(blocks_bytes, &bare(b"text"), b"text");
    let is_taken = |parts: usize, blocks_bytes: usize| {
        let properties = vec![("gzip", part(blocks_bytes)); parts];
        decode(&event(&properties), DecodeLimits::of_all(1 << 20)).is_ok()
    };
    assert!(is_taken(3, 16 * KIB), "short enough for one call each");
    assert!(is_taken(60, KIB / 8), "each some blocks");
    assert!(!is_taken(5, 16 * KIB), "too many together");
}
