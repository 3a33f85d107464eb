//! Brotli as compressors write it, and as attackers may.

use super::*;
use proptest::prelude::*;
use std::io::Write;

/// Four bytes as they are, and a block of 16 MiB of copies of two bytes from four bytes before,
/// none of which takes a bit.
fn copies() -> Vec<u8> {
    let parts: [(u32, u32); 17] = [
        // The largest window.
        (0b1111, 4),
        // Not the last block; four nibbles of length; uncompressed; the bytes.
        (0, 1),
        (0, 2),
        (4 - 1, 16),
        (1, 1),
        (u32::from_le_bytes(*b"1,1,"), 32),
        // Not the last block; six nibbles of length; compressed.
        (0, 1),
        (2, 2),
        ((1 << 24) - 1, 24),
        (0, 1),
        // One type of block each, no postfix, no direct codes, a context mode, one tree each.
        (0, 13),
        // Codes of one symbol: a literal; insert nothing and copy two from the last distance; a
        // distance.
        (0b0001, 4),
        (0, 8),
        (0b0001, 4),
        (0, 10),
        (0b0001, 4),
        (0, 6),
    ];
    let bits = parts
        .iter()
        .flat_map(|(value, count)| (0..*count).map(move |nth| value >> nth & 1));
    let bits: Vec<u32> = bits.collect();
    let byte = |bits: &[u32]| {
        bits.iter()
            .rev()
            .fold(0, |byte, bit| byte << 1 | *bit as u8)
    };
    bits.chunks(8).map(byte).collect()
}

fn encode(plain: &[u8], quality: u32, window_bits: u32) -> Vec<u8> {
    let mut writer = brotli::CompressorWriter::new(Vec::new(), 4096, quality, window_bits);
    writer.write_all(plain).unwrap();
    writer.into_inner()
}

fn decoded(body: &[u8], bytes_max: usize) -> (Result<(), DecodeError>, Vec<u8>) {
    let mut out = Vec::new();
    (decode(body, &mut out, bytes_max), out)
}

/// Events as SDKs send them, with the key before them or behind.
fn batch(events: usize, is_key_first: bool, seed: u64) -> Vec<u8> {
    let mut random = seed;
    let events: Vec<String> = (0..events)
        .map(|nth| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(nth as u64);
            format!(
                r#"{{"event":"$pageview","distinct_id":"user-{}","properties":{{"$current_url":"https://example.com/page/{}","$lib":"web","x":{random}}}}}"#,
                random >> 60,
                random >> 50,
            )
        })
        .collect();
    let (key, events) = (
        r#""api_key":"phc_a""#,
        format!(r#""batch":[{}]"#, events.join(",")),
    );
    let members = if is_key_first {
        [key, &events]
    } else {
        [&events, key]
    };
    format!("{{{}}}", members.join(",")).into_bytes()
}

#[test]
fn a_window_is_as_large_as_the_output_that_is_allowed() {
    for (bytes_max, bits) in [
        (0, 10),
        (1_023, 10),
        (1_024, 11),
        (16 << 10, 15),
        ((16 << 20) - 1, 24),
        (100 << 20, 24),
        (usize::MAX, 24),
    ] {
        assert_eq!(window_bits_of(bytes_max), bits, "{bytes_max}");
    }
}

#[test]
fn copies_that_take_no_bit_fill_no_more_than_the_output_that_is_allowed() {
    for bytes_max in [1, 16 << 10, 100_000, 1 << 20] {
        let body = copies();
        let mut stream = Stream::of(&body, bytes_max);
        let mut out = vec![0; bytes_max + 1];
        let (result, written) = stream.write(&mut out);
        assert!(
            matches!(result, BrotliResult::NeedsMoreOutput),
            "{result:?}"
        );
        assert_eq!(written, out.len());
        // As much as this was decoded before anything came out.
        let window = stream.state.ringbuffer_size as usize;
        assert!(
            window <= (2 * bytes_max).max(1 << WINDOW_BITS_MIN),
            "{window}"
        );
        assert_eq!(decoded(&copies(), bytes_max).0, Err(DecodeError::TooLarge));
    }
}

#[test]
fn windows_beyond_the_standard_and_bytes_behind_the_end_are_refused() {
    let mut longer = encode(b"{}", 5, 22);
    longer.push(b'x');
    let empty = encode(b"", 5, 22);
    let table: [(&[u8], bool); 5] = [
        (&[0b1_0001, 24, 0b11], false),
        (&longer, false),
        (&empty, true),
        // The end, in the byte that says how large the window is.
        (&[0b0110], true),
        (&[0b0110, 0], false),
    ];
    for (body, is_whole) in table {
        assert_eq!(decoded(body, 1 << 20).0.is_ok(), is_whole, "{body:?}");
    }
}

/// A window that is smaller than the body, so that copies reach back to earlier output.
#[test]
fn bodies_are_the_same_in_windows_of_all_sizes() {
    let plain = batch(4_000, true, 7);
    for window_bits in WINDOW_BITS_MIN..=WINDOW_BITS_MAX {
        let body = encode(&plain, 5, window_bits);
        for bytes_max in [plain.len(), 16 << 20, usize::MAX] {
            let (result, out) = decoded(&body, bytes_max);
            assert_eq!(result, Ok(()), "{window_bits}");
            assert!(out == plain, "{window_bits}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn batches_are_decoded_up_to_the_limit(
        (quality, window_bits) in (0..=11_u32, WINDOW_BITS_MIN..=WINDOW_BITS_MAX),
        (events, is_key_first, seed) in (0..600_usize, any::<bool>(), any::<u64>()),
        share in 0.0..1.5_f64,
    ) {
        let plain = batch(events, is_key_first, seed);
        let body = encode(&plain, quality, window_bits);
        let bytes_max = (plain.len() as f64 * share) as usize;
        let (result, out) = decoded(&body, bytes_max);
        if bytes_max < plain.len() {
            // Keys are looked for in what came out.
            prop_assert_eq!(result, Err(DecodeError::TooLarge));
            prop_assert!(plain.starts_with(&out));
            prop_assert_eq!(out.len(), bytes_max + 1);
        } else {
            prop_assert_eq!(result, Ok(()));
            prop_assert!(out == plain);
        }
    }
}

#[test]
fn a_stream_of_nothing_but_trees_is_refused() {
    let (result, _) = decoded(&crate::testing::brotli_of_trees(), 16 << 10);
    assert!(matches!(result, Err(DecodeError::Broken(_))), "{result:?}");
}
