//! Tests of the limits.

use super::*;

const LIMIT_BYTES: usize = 100 << 20;

#[test]
fn decoded_size_is_small_without_a_known_key_and_bounded_by_ratio_with_one() {
    const KIB: usize = 1 << 10;
    const MIB: usize = 1 << 20;
    // Sent; without a known key; with one; both in a slow encoding.
    let table = [
        (0, 40 * KIB, 4 * MIB, 16 * KIB, MIB),
        (89, 40 * KIB, 4 * MIB, 16 * KIB, MIB),
        (KIB, 40 * KIB, 4 * MIB, 16 * KIB, MIB),
        (64 * KIB, 40 * 64 * KIB, 200 * 64 * KIB, MIB, 4 * MIB),
        (20 * MIB, 16 * MIB, 100 * MIB, 16 * MIB, 100 * MIB),
    ];
    for (sent, unknown, known, unknown_slow, known_slow) in table {
        let expansion = Expansion::of(sent, LIMIT_BYTES);
        let expected = [(false, unknown, unknown_slow), (true, known, known_slow)];
        for (is_key_known, bytes_max, slow_bytes_max) in expected {
            let limits = DecodeLimits {
                bytes_max,
                slow_bytes_max,
            };
            assert_eq!(expansion.limits(is_key_known), limits, "{sent}");
            for (encoding, bytes_max) in [
                (Encoding::Gzip, bytes_max),
                (Encoding::Deflate, bytes_max),
                (Encoding::Zstd, bytes_max),
                (Encoding::Base64, bytes_max),
                (Encoding::Brotli, slow_bytes_max),
                (Encoding::Lz64, slow_bytes_max),
            ] {
                assert_eq!(limits.of(encoding), bytes_max, "{encoding:?}");
                let on_core = limits.on_core(sent).of(encoding);
                let on_core_max = match encoding.is_slow() {
                    true if sent > 16 * KIB => 0,
                    true => 256 * KIB,
                    // Nobody's body of up to 64 KiB is decoded twice.
                    false => (sent.min(64 * KIB) * 40).max(512 * KIB),
                };
                assert_eq!(on_core, bytes_max.min(on_core_max), "{encoding:?}");
            }
        }
    }
}

#[test]
fn the_likely_size_is_the_declared_one_or_forty_times_the_sent_bytes() {
    const MIB: usize = 1 << 20;
    let (gzip, zstd, brotli) = (Encoding::Gzip, Encoding::Zstd, Encoding::Brotli);
    // Sent; true for a known key; the size that it says; the size that is likely.
    let table = [
        (gzip, MIB, true, Some(12 * MIB), Some(12 * MIB + 1)),
        (gzip, MIB, true, Some(MIB - 1), Some(40 * MIB)),
        (gzip, MIB, true, None, Some(40 * MIB)),
        (zstd, MIB, true, Some(12 * MIB), Some(12 * MIB + 1)),
        // All that is allowed at once: by what it says, and where that is little more.
        (gzip, MIB, true, Some(41 * MIB), None),
        (gzip, 3 * MIB, true, None, None),
        (gzip, 3 * MIB, true, Some(30 * MIB), Some(30 * MIB + 1)),
        (gzip, 3 * MIB, true, Some(LIMIT_BYTES), None),
        // Short bodies are not granted 200 times what was sent either.
        (gzip, MIB / 16, true, None, Some(40 * MIB / 16)),
        (gzip, 80 << 10, true, Some(400 << 10), Some((400 << 10) + 1)),
        (gzip, MIB, false, Some(12 * MIB), None),
        (brotli, MIB, true, None, None),
    ];
    for (encoding, sent, is_key_known, said, expected) in table {
        let expansion = Expansion::of(sent, LIMIT_BYTES);
        let limits = expansion.limits(is_key_known);
        let likely = expansion.likely_bytes_max(encoding, limits, said);
        assert_eq!(likely, expected, "{encoding:?} {sent} {said:?}");
    }
}

#[test]
fn gzip_and_zstd_say_how_much_they_decode_to() {
    let plain = [b' '; 1_000];
    let zstd = zstd::bulk::compress(&plain, 3).unwrap();
    let gzip = [&[0x1f_u8, 0x8b, 8][..], &1_000_u32.to_le_bytes()].concat();
    assert_eq!(said_bytes(Encoding::Zstd, &zstd), Some(1_000));
    assert_eq!(said_bytes(Encoding::Gzip, &gzip), Some(1_000));
    for encoding in [Encoding::Zstd, Encoding::Gzip, Encoding::Deflate] {
        assert_eq!(said_bytes(encoding, b"{}"), None, "{encoding:?}");
    }
}

#[test]
fn the_output_of_one_part_is_taken_from_the_limits_of_the_next() {
    let limits = DecodeLimits {
        bytes_max: 100,
        slow_bytes_max: 40,
    };
    let table = [
        (Encoding::Gzip, 30, (70, 40)),
        (Encoding::Identity, 80, (20, 20)),
        (Encoding::Brotli, 30, (70, 10)),
        (Encoding::Lz64, 50, (50, 0)),
        (Encoding::Gzip, 101, (0, 0)),
    ];
    for (encoding, bytes, (bytes_max, slow_bytes_max)) in table {
        let left = DecodeLimits {
            bytes_max,
            slow_bytes_max,
        };
        assert_eq!(
            limits.left_after(bytes, encoding),
            left,
            "{encoding:?} {bytes}"
        );
    }
}

#[test]
fn a_refusal_says_which_limit_it_is_and_what_to_do() {
    let fewer = "Send fewer events per request.";
    let earlier = "Put `api_key` before the events, or send fewer events per request.";
    let table = [
        (100, false, "body_too_complex", earlier),
        (100, true, "body_too_complex", fewer),
        (1 << 20, true, "payload_too_large", fewer),
        (1 << 20, false, "body_too_complex", earlier),
        (2 << 20, false, "body_too_complex", earlier),
    ];
    for (sent, is_key_known, code, what_to_do) in table {
        let expansion = Expansion::of(sent, LIMIT_BYTES);
        let error = expansion.refusal(Encoding::Gzip, is_key_known);
        assert_eq!((error.status.as_u16(), error.code), (413, code), "{sent}");
        assert!(error.detail.ends_with(what_to_do), "{}", error.detail);
    }
    for encoding in [Encoding::Brotli, Encoding::Lz64] {
        let slow = Expansion::of(100, LIMIT_BYTES).refusal(encoding, true);
        assert!(slow.detail.contains("64 times"), "{}", slow.detail);
    }
}
