//! Tests of bodies that are made of blocks, and of both ways to inflate deflate.

use super::{Encoder, LIMIT, bare, decode, gzip, zlib, zst};
use crate::blocks::{Blocks, UNCOUNTED_BYTES_MAX};
use crate::testing::{blocks_of_nothing, gzip_behind_blocks, zstd_of_tables};
use crate::*;
use proptest::prelude::*;

/// Decodes a block at a time, as if it were part of a long body.
fn decode_counted(
    encoding: Encoding,
    body: &[u8],
    bytes_max: usize,
) -> Result<Vec<u8>, DecodeError> {
    let mut out = b"left over".to_vec();
    let mut blocks = Blocks::of(usize::MAX);
    Decoder::default()
        .decode_part(encoding, body, &mut out, bytes_max, &mut blocks)
        .map(|()| out)
}

/// Blocks of nothing before a text, in each encoding that libdeflate decodes.
fn behind_blocks(bytes: usize, text: &[u8]) -> [(Encoding, Vec<u8>); 3] {
    let adler = libdeflater::adler32(text).to_be_bytes();
    let blocks = [blocks_of_nothing(bytes), bare(text)].concat();
    let zlib = [&[0x78, 0x01], &blocks[..], &adler].concat();
    let gzip = gzip_behind_blocks(bytes, &bare(text), text);
    [
        (Encoding::Gzip, gzip),
        (Encoding::Deflate, zlib),
        (Encoding::Deflate, blocks),
    ]
}

#[test]
fn a_long_body_of_too_many_blocks_for_its_text_is_refused() {
    let text = vec![b'a'; LIMIT / 2];
    let beyond = 16 * UNCOUNTED_BYTES_MAX;
    for (bytes, is_taken) in [(UNCOUNTED_BYTES_MAX / 4, true), (beyond, false)] {
        for (encoding, body) in behind_blocks(bytes, &text) {
            let expected = if is_taken {
                Ok(text.clone())
            } else {
                Err(DecodeError::TooManyBlocks)
            };
            let decoded = decode(encoding, &body, LIMIT);
            assert!(decoded == expected, "{encoding:?}: {bytes}");
            assert!(decode_counted(encoding, &body, LIMIT) == expected);
        }
        let decoded = decode(Encoding::Zstd, &zstd_of_tables(bytes), LIMIT);
        let bytes = decoded.map(|text| text.len());
        let expected = is_taken.then_some(5 + UNCOUNTED_BYTES_MAX / 4 / 16 * 3);
        assert_eq!(bytes, expected.ok_or(DecodeError::TooManyBlocks));
    }
}

#[test]
fn a_body_that_was_flushed_behind_each_event_is_decoded_however_long_it_is() {
    use std::io::Write;
    let mut seed = 1_u64;
    let mut event = || {
        let digits = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            format!("{seed:x},")
        });
        digits.take(40).collect::<String>()
    };
    let events: Vec<String> = (0..6_000).map(|_| event()).collect();
    // Zstd's compressor flushes; libdeflate's cannot, so a member stands for a flush.
    let mut zstd = ::zstd::Encoder::new(Vec::new(), 1).unwrap();
    let mut members = Vec::new();
    for event in &events {
        zstd.write_all(event.as_bytes()).unwrap();
        zstd.flush().unwrap();
        members.extend(gzip(event.as_bytes()));
    }
    let text = events.concat();
    for (encoding, body) in [
        (Encoding::Zstd, zstd.finish().unwrap()),
        (Encoding::Gzip, members),
    ] {
        assert!(body.len() > 10 * UNCOUNTED_BYTES_MAX);
        let decoded = decode(encoding, &body, 4 * LIMIT);
        assert!(decoded.as_deref() == Ok(text.as_bytes()), "{encoding:?}");
    }
}

#[test]
fn a_gzip_head_may_have_a_name_and_all_other_fields() {
    let plain = b"[1,2,3]";
    let member = gzip(plain);
    // All fields with each other, and each of the reserved bits.
    for flags in (0..0x20).chain([0x20, 0x40, 0x80, 0xe0, 0xff_u8]) {
        let mut body = member[..10].to_vec();
        body[3] = flags;
        if flags & 4 != 0 {
            body.extend(b"\x03\x00abc");
        }
        for flag in [8, 16] {
            if flags & flag != 0 {
                body.extend(b"a name\0");
            }
        }
        if flags & 2 != 0 {
            body.extend(b"xx");
        }
        body.extend(&member[10..]);
        for end in 0..=body.len() {
            let both = [decode, decode_counted].map(|it| it(Encoding::Gzip, &body[..end], LIMIT));
            let is_taken = flags & 0xe0 == 0 && end == body.len();
            assert_eq!(both[0].is_ok(), is_taken, "{flags:#x} {end}");
            assert_eq!(both[0].as_ref().ok(), both[1].as_ref().ok());
        }
    }
}

proptest! {
    #[test]
    fn decoding_whole_or_by_blocks_gives_the_same_result(
        plain in "\\PC{0,300}(ab){0,2000}\\PC{0,300}",
        place in any::<usize>(),
        change in any::<u8>(),
        bytes_max in 0_usize..6_000,
    ) {
        let encoders: [(Encoding, Encoder); 4] = [
            (Encoding::Gzip, gzip),
            (Encoding::Deflate, zlib),
            (Encoding::Deflate, bare),
            (Encoding::Zstd, zst),
        ];
        for (encoding, encode) in encoders {
            let both = |body: &[u8]| [decode, decode_counted].map(|it| it(encoding, body, bytes_max));
            let mut body = encode(plain.as_bytes());
            let [decoded, counted] = both(&body);
            prop_assert_eq!(decoded, counted, "{:?}", encoding);
            let place = place % body.len();
            body[place] ^= change;
            // Errors behind the limit are seen by one of them only, and libdeflate takes tables of
            // codes that RFC 1951 forbids: more than 286 lengths, or none for the end of a block.
            if let [Ok(decoded), Ok(counted)] = both(&body) {
                prop_assert_eq!(decoded, counted, "{:?}", encoding);
            }
        }
    }
}
