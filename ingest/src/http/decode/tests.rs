//! Tests of the memory of a body that is decoded, and of keys at its beginning.

use super::*;
use libdeflater::{CompressionLvl, Compressor};
use millrace_encoding::{BodyBuf, Boundary, Hints, ON_CORE_SENT_BYTES_MAX};

fn gzip(plain: &str) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::default());
    let mut out = vec![0; compressor.gzip_compress_bound(plain.len())];
    let written = compressor.gzip_compress(plain.as_bytes(), &mut out);
    out.truncate(written.unwrap());
    out
}

/// Returns so many bytes and some that compress to half of that.
fn noise(bytes: usize) -> String {
    let (mut noise, mut seed) = (String::new(), 1_u64);
    while noise.len() < bytes {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        noise += &format!("{seed:x}");
    }
    noise
}

/// Regression: each body with a known key had memory for 200 times what was sent, so that five
/// had all there is.
#[test]
fn memory_is_reserved_for_the_likely_size_and_then_for_the_largest() {
    const MIB: usize = 1 << 20;
    let mut plain = noise(2 * MIB);
    plain += &"0".repeat(12 * MIB - plain.len());
    let honest = gzip(&plain);
    let (mut liar, mut silent) = (honest.clone(), honest.clone());
    let sent = honest.len();
    for (body, size) in [(&mut liar, 60 * MIB), (&mut silent, 0)] {
        let end = u32::try_from(size).unwrap().to_le_bytes();
        body[sent - 4..].copy_from_slice(&end);
    }
    let boundary = Boundary::of(Some(b"multipart/form-data; boundary=b")).unwrap();
    let parts = PayloadKind::parts(boundary, MIB);
    let (named, form) = (Encoding::Gzip, Encoding::Identity);
    let table = [
        (
            "honest",
            honest,
            named,
            PayloadKind::Body,
            vec![12 * MIB + 1],
        ),
        ("it says more", liar, named, PayloadKind::Body, vec![]),
        (
            "it says less",
            silent.clone(),
            named,
            PayloadKind::Body,
            vec![40 * sent],
        ),
        ("in a form", silent.clone(), form, PayloadKind::Body, vec![]),
        ("in parts", silent, Encoding::Identity, parts, vec![8 * MIB]),
    ];
    for (what, body, content_encoding, kind, before) in table {
        let is_of_parts = matches!(kind, PayloadKind::Parts { .. });
        let payload = EncodedPayload {
            bytes: BodyBuf::Buffer(body),
            kind,
            hints: Hints {
                content_encoding,
                form: what == "in a form",
                ..Hints::default()
            },
        };
        let expansion = Expansion::of(sent, 100 * MIB);
        let all = expansion.limits(true);
        let (mut tried, mut reserved) = (DecodeLimits::of_all(0), Vec::new());
        while tried != all {
            tried = payload.next_limits(&expansion, tried, all);
            reserved.push(payload.memory_max(tried));
        }
        let last = (!is_of_parts).then_some(100 * MIB);
        let expected: Vec<usize> = before.into_iter().chain(last).collect();
        assert_eq!(reserved, expected, "{what}");
    }
}

#[test]
fn a_key_at_the_beginning_of_a_large_compressed_body_is_found_before_the_body_is_decoded() {
    let noise = noise(4 << 20);
    let first = gzip(&format!(r#"{{"api_key":"phc_a","batch":["{noise}"]}}"#));
    let last = gzip(&format!(r#"{{"batch":["{noise}"],"api_key":"phc_a"}}"#));
    assert!(first.len() > ON_CORE_SENT_BYTES_MAX);
    let cut = first[..first.len() / 2].to_vec();
    let (named, unnamed) = (Encoding::Gzip, Encoding::Identity);
    for (what, body, content_encoding, expected) in [
        ("named", first.clone(), named, Some("phc_a")),
        ("by its first bytes", first.clone(), unnamed, Some("phc_a")),
        ("cut short", cut, named, Some("phc_a")),
        ("behind the events", last, named, None),
        ("named wrongly", first, Encoding::Zstd, None),
        ("not compressed", noise.into_bytes(), unnamed, None),
    ] {
        let sent = EncodedPayload {
            bytes: BodyBuf::Buffer(body),
            kind: PayloadKind::Body,
            hints: Hints {
                content_encoding,
                ..Hints::default()
            },
        };
        let keys = sent.keys_at_its_beginning();
        assert_eq!(keys.first().map(String::as_str), expected, "{what}");
    }
}
