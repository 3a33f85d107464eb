//! Tests of each encoding: as clients write it, cut short, over its limit, and mistaken for
//! another.

mod blocks;
mod parts;
mod tries;

use crate::*;
use ::base64::Engine;
use proptest::prelude::*;
use std::io::Write;

const LIMIT: usize = 1 << 20;

fn decode(encoding: Encoding, body: &[u8], bytes_max: usize) -> Result<Vec<u8>, DecodeError> {
    let mut out = b"left over".to_vec();
    Decoder::default()
        .decode(encoding, body, &mut out, bytes_max)
        .map(|()| {
            assert!(
                out.capacity() <= bytes_max.max(64 << 10) * 2,
                "{} bytes",
                out.capacity()
            );
            out
        })
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut out = vec![0; compressor.gzip_compress_bound(plain.len())];
    let written = compressor.gzip_compress(plain, &mut out).unwrap();
    out.truncate(written);
    out
}

fn zlib(plain: &[u8]) -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut out = vec![0; compressor.zlib_compress_bound(plain.len())];
    let written = compressor.zlib_compress(plain, &mut out).unwrap();
    out.truncate(written);
    out
}

fn bare(plain: &[u8]) -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut out = vec![0; compressor.deflate_compress_bound(plain.len())];
    let written = compressor.deflate_compress(plain, &mut out).unwrap();
    out.truncate(written);
    out
}

fn br(plain: &[u8]) -> Vec<u8> {
    let mut writer = ::brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22);
    writer.write_all(plain).unwrap();
    writer.into_inner()
}

fn zst(plain: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(plain, 3).unwrap()
}

fn lz64_of(plain: &[u8]) -> Vec<u8> {
    lz_str::compress_to_base64(std::str::from_utf8(plain).unwrap()).into_bytes()
}

fn base64_of(plain: &[u8]) -> Vec<u8> {
    ::base64::engine::general_purpose::STANDARD
        .encode(plain)
        .into_bytes()
}

type Encoder = fn(&[u8]) -> Vec<u8>;

const ENCODERS: [(Encoding, Encoder); 7] = [
    (Encoding::Gzip, gzip),
    (Encoding::Deflate, zlib),
    (Encoding::Deflate, bare),
    (Encoding::Brotli, br),
    (Encoding::Zstd, zst),
    (Encoding::Base64, base64_of),
    (Encoding::Lz64, lz64_of),
];

/// A body whose last four bytes would make the whole buffer be zeroed for each member: 32 GB here.
#[test]
fn a_body_of_many_empty_gzip_members_is_no_bomb() {
    for (members, is_broken) in [(2_500, true), (32_000, false)] {
        let mut body = gzip(b"").repeat(members);
        body.extend([0xff; 4]);
        let error = decode(Encoding::Gzip, &body, LIMIT).unwrap_err();
        assert_eq!(
            matches!(error, DecodeError::Broken(_)),
            is_broken,
            "{error:?} {}",
            body.len()
        );
        assert_eq!(error == DecodeError::TooManyBlocks, !is_broken, "{error:?}");
    }
}

/// An empty member whose trailer is zeros, and so is the byte before it; found by fuzzing.
#[test]
fn the_end_of_an_empty_gzip_member_is_found() {
    let plain = b"{\"event\":1}";
    for members in [[&b""[..], plain], [plain, b""], [b"", b""]] {
        let body = members.map(gzip).concat();
        let whole = members.concat();
        assert_eq!(decode(Encoding::Gzip, &body, LIMIT), Ok(whole));
    }
}

/// An empty member with zeros behind, each of which may be the beginning of its trailer, and is
/// looked at: once.
#[test]
fn zeros_behind_an_empty_gzip_member_are_searched_once() {
    let mut body = gzip(b"");
    body.resize(20 << 20, 0);
    body.extend([1, 0x1f, 0x8b, 0x08]);
    assert!(matches!(
        decode(Encoding::Gzip, &body, LIMIT),
        Err(DecodeError::Broken(_))
    ));
}

#[test]
fn every_encoding_stops_at_the_limit_and_not_before() {
    let plain = vec![b'a'; LIMIT];
    for (encoding, encode) in ENCODERS {
        let body = encode(&plain);
        assert_eq!(
            decode(encoding, &body, LIMIT).as_ref(),
            Ok(&plain),
            "{encoding:?}"
        );
        let result = decode(encoding, &body, LIMIT - 1);
        assert_eq!(result, Err(DecodeError::TooLarge), "{encoding:?}");
    }
}

#[test]
fn keys_are_found_in_what_is_too_large_wherever_they_are() {
    let key = b"\"api_key\":\"phc_a\"";
    let filled = |bytes: usize| vec![b'a'; bytes];
    // Also where a chunk ends within the key, or its name.
    let places = [0, 10, 32_760, 32_768 - 16, 32_768 - 3, LIMIT / 2];
    for (encoding, encode) in ENCODERS {
        if encoding == Encoding::Base64 {
            continue;
        }
        for before in places {
            let body = encode(&[&filled(before), &key[..], &filled(LIMIT / 2)].concat());
            assert_eq!(
                keys_in(encoding, &body, LIMIT),
                ["phc_a"],
                "{encoding:?}, {before}"
            );
        }
        let body = encode(&[&filled(LIMIT), &key[..]].concat());
        assert!(keys_in(encoding, &body, LIMIT).is_empty(), "{encoding:?}");
        assert!(keys_in(encoding, &body[..body.len() / 2], LIMIT).is_empty());
    }
}

#[test]
fn a_body_cut_short_is_broken() {
    let plain: Vec<u8> = (0..5_000_u32).map(|n| b'a' + (n * n % 23) as u8).collect();
    for (encoding, encode) in ENCODERS {
        if encoding == Encoding::Base64 {
            continue; // Every prefix but a single character is base64 of something.
        }
        let body = encode(&plain);
        for len in [0, 1, 2, 10, body.len() / 2, body.len() - 5] {
            let result = decode(encoding, &body[..len], LIMIT);
            let broken = matches!(result, Err(DecodeError::Broken(_)));
            // LZString's decoder accepts nothing as an empty text, ours does not.
            assert!(broken, "{encoding:?} cut to {len}: {result:?}");
        }
    }
}

#[test]
fn several_members_or_frames_are_one_body() {
    for (encoding, encode) in [(Encoding::Gzip, gzip as Encoder), (Encoding::Zstd, zst)] {
        let parts: [&[u8]; 5] = [b"[1,", b"2,", b"", &b"3,".repeat(9_000), b"4]"];
        let body: Vec<u8> = parts.iter().flat_map(|part| encode(part)).collect();
        assert_eq!(
            decode(encoding, &body, LIMIT),
            Ok(parts.concat()),
            "{encoding:?}"
        );
        let total = parts.concat().len();
        assert_eq!(
            decode(encoding, &body, total - 1),
            Err(DecodeError::TooLarge),
            "{encoding:?}"
        );
    }
}

#[test]
fn bytes_behind_a_gzip_member_are_told_from_a_member_that_is_cut_short() {
    let (member, large) = (gzip(b"{}"), gzip(&b"[{}]".repeat(9_000)));
    let table: [(&[u8], &str); 7] = [
        (b"rubbish that is long enough", "follow the end"),
        (b"}", "follow the end"),
        (b"\0\0\0\0", "follow the end"),
        (b"\x1f\x8b\x09: another method", "follow the end"),
        (&member[..2], "cut short"),
        (&member[..10], "cut short"),
        (&large[..large.len() - 1], "cut short"),
    ];
    for (behind, expected) in table {
        for before in [&member, &large] {
            let body = [before.as_slice(), behind].concat();
            let Err(DecodeError::Broken(detail)) = decode(Encoding::Gzip, &body, LIMIT) else {
                panic!("{behind:?} is decoded");
            };
            assert!(detail.contains(expected), "{behind:?}: {detail}");
        }
    }
}

#[test]
fn a_false_size_in_a_gzip_trailer_allocates_nothing() {
    let mut body = gzip(&vec![b'a'; LIMIT * 8]);
    let size_at = body.len() - 4;
    body[size_at..].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(
        decode(Encoding::Gzip, &body, LIMIT),
        Err(DecodeError::TooLarge)
    );
}

#[test]
fn a_zstd_window_over_8_mib_is_refused() {
    let mut encoder = ::zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(24).unwrap();
    encoder.write_all(&vec![0; 20 << 20]).unwrap();
    let body = encoder.finish().unwrap();
    assert!(matches!(
        decode(Encoding::Zstd, &body, 100 << 20),
        Err(DecodeError::Broken(_))
    ));
}

#[test]
fn a_limit_smaller_than_the_smallest_step_holds() {
    for (encoding, encode) in ENCODERS {
        let body = encode(&[b'a'; 300]);
        let result = decode(encoding, &body, 299);
        assert_eq!(result, Err(DecodeError::TooLarge), "{encoding:?}");
    }
}

#[test]
fn a_decoder_works_after_a_failure() {
    let mut decoder = Decoder::default();
    let mut out = Vec::new();
    for (encoding, encode) in ENCODERS {
        assert!(
            decoder
                .decode(encoding, b"\x28\xb5\x2f\xfd\x04!!", &mut out, LIMIT)
                .is_err()
        );
        decoder
            .decode(encoding, &encode(b"[{}]"), &mut out, LIMIT)
            .unwrap();
        assert_eq!(out, b"[{}]", "{encoding:?}");
    }
}

#[test]
fn base64_is_decoded_in_every_spelling() {
    let plain = b"{\"a\":\"\xfb\xff\xfe~~??\"}";
    let standard = String::from_utf8(base64_of(plain)).unwrap();
    let table = [
        standard.clone(),
        standard.trim_end_matches('=').to_owned(),
        standard.replace('+', " "),
        standard.replace('+', "-").replace('/', "_"),
        format!("{}\r\n{}\n", &standard[..8], &standard[8..]),
    ];
    for text in table {
        let result = decode(Encoding::Base64, text.as_bytes(), LIMIT);
        assert_eq!(result.as_deref(), Ok(&plain[..]), "{text}");
    }
    assert!(decode(Encoding::Base64, b"{\"event\"", LIMIT).is_err());
}

#[test]
fn names_are_known_in_any_case_and_lists_are_not() {
    let table: [(&[u8], Option<Encoding>); 8] = [
        (b"gzip", Some(Encoding::Gzip)),
        (b" GZIP-JS ", Some(Encoding::Gzip)),
        (b"Identity", Some(Encoding::Identity)),
        (b"br", Some(Encoding::Brotli)),
        (b"lz64", Some(Encoding::Lz64)),
        (b"gzip, gzip", None),
        (b"compress", None),
        (b"snappy", None),
    ];
    for (name, encoding) in table {
        assert_eq!(Encoding::of_name(name), encoding, "{name:?}");
    }
}

#[test]
fn first_bytes_give_encodings_away_but_never_take_json_for_one() {
    let table: [(&[u8], Encoding); 6] = [
        (&gzip(b"{}"), Encoding::Gzip),
        (&zlib(b"{}"), Encoding::Deflate),
        (&zst(b"{}"), Encoding::Zstd),
        (b"{\"a\":1}", Encoding::Identity),
        (b"x", Encoding::Identity),
        (b"", Encoding::Identity),
    ];
    for (body, encoding) in table {
        assert_eq!(Encoding::of_magic(body), encoding, "{body:?}");
    }
}

proptest! {
    #[test]
    fn texts_that_clients_encode_are_decoded(plain in "\\PC{0,300}(ab){0,200}\\PC{0,300}") {
        for (encoding, encode) in ENCODERS {
            let result = decode(encoding, &encode(plain.as_bytes()), LIMIT);
            // LZString writes nothing at all for an empty text's body.
            prop_assert_eq!(result.as_deref(), Ok(plain.as_bytes()), "{:?}", encoding);
        }
    }

    #[test]
    fn no_bytes_make_a_decoder_panic_or_pass_its_limit(body in any::<Vec<u8>>()) {
        for (encoding, _) in ENCODERS {
            if let Ok(out) = decode(encoding, &body, 4_096) {
                prop_assert!(out.len() <= 4_096);
            }
        }
    }
}
