//! CityHash64 of version 1.0.2, ClickHouse's `cityHash64` of a text or a UUID.
//!
//! The table is sorted by it. `cityhash-rs` has the hash of 128 bits only.

use std::num::Wrapping;

type Word = Wrapping<u64>;

const K0: Word = Wrapping(0xc3a5_c85c_97cb_3127);
const K1: Word = Wrapping(0xb492_b66f_be98_f273);
const K2: Word = Wrapping(0x9ae1_6a3b_2f90_404f);
const K3: Word = Wrapping(0xc949_d7c7_509e_6557);
const K_PAIR: Word = Wrapping(0x9ddf_ea08_eb38_2d69);

/// Bytes of a chunk of long texts.
const CHUNK_BYTES: usize = 64;

/// Hashes bytes.
#[inline]
pub(crate) fn city_hash_64(bytes: &[u8]) -> u64 {
    let Wrapping(hash) = match bytes.len() {
        0..=16 => up_to_16(bytes),
        17..=32 => up_to_32(bytes),
        33..=64 => up_to_64(bytes),
        _ => longer(bytes),
    };
    hash
}

#[inline]
fn up_to_16(bytes: &[u8]) -> Word {
    let count = bytes.len();
    let length = length_of(bytes);
    if count > 8 {
        let (first, last) = (word(bytes, 0), word(bytes, count - 8));
        return pair(first, rotated(last + length, count as u32)) ^ last;
    }
    if count >= 4 {
        let (first, last) = (half_word(bytes, 0), half_word(bytes, count - 4));
        return pair(length + (first << 3), last);
    }
    match (bytes.first(), bytes.get(count / 2), bytes.last()) {
        (Some(&first), Some(&middle), Some(&last)) => {
            let [first, middle, last] = [first, middle, last].map(|it| Wrapping(u64::from(it)));
            let (low, high) = (first + (middle << 8), length + (last << 2));
            mixed((low * K2) ^ (high * K3)) * K2
        }
        _ => K2,
    }
}

#[inline]
fn up_to_32(bytes: &[u8]) -> Word {
    let count = bytes.len();
    let a = word(bytes, 0) * K1;
    let b = word(bytes, 8);
    let c = word(bytes, count - 8) * K2;
    let d = word(bytes, count - 16) * K0;
    pair(
        rotated(a - b, 43) + rotated(c, 30) + d,
        a + rotated(b ^ K3, 20) - c + length_of(bytes),
    )
}

fn up_to_64(bytes: &[u8]) -> Word {
    let count = bytes.len();
    let end = |back: usize| word(bytes, count - back);
    let first = word(bytes, 0) + (length_of(bytes) + end(16)) * K0;
    let (v0, v1) = of_half(first, word(bytes, 24), [word(bytes, 8), word(bytes, 16)]);
    let (w0, w1) = of_half(word(bytes, 16) + end(32), end(8), [end(24), end(16)]);
    let mix = mixed((v0 + w1) * K2 + (w0 + v1) * K0);
    mixed(mix * K0 + v1) * K2
}

#[inline]
fn of_half(first: Word, last: Word, [second, third]: [Word; 2]) -> (Word, Word) {
    let b = rotated(first + last, 52);
    let c = rotated(first, 37);
    let a = first + second;
    let c = c + rotated(a, 7);
    let a = a + third;
    (a + last, b + rotated(a, 31) + c)
}

fn longer(bytes: &[u8]) -> Word {
    let count = bytes.len();
    let length = length_of(bytes);
    let mut x = word(bytes, 0);
    let mut y = word(bytes, count - 16) ^ K1;
    let mut z = word(bytes, count - 56) ^ K0;
    let mut v = weak(bytes, count - 64, (length, y));
    let mut w = weak(bytes, count - 32, (length * K1, K0));
    z += mixed(v.1) * K1;
    x = rotated(z + x, 39) * K1;
    y = rotated(y, 33) * K1;
    // The last bytes, up to a whole chunk, are in the state already.
    for chunk in bytes
        .chunks_exact(CHUNK_BYTES)
        .take((count - 1) / CHUNK_BYTES)
    {
        x = rotated(x + y + v.0 + word(chunk, 16), 37) * K1;
        y = rotated(y + v.1 + word(chunk, 48), 42) * K1;
        x ^= w.1;
        y ^= v.0;
        z = rotated(z ^ w.0, 33);
        v = weak(chunk, 0, (v.1 * K1, x + w.0));
        w = weak(chunk, 32, (z + w.1, y));
        std::mem::swap(&mut z, &mut x);
    }
    pair(pair(v.0, w.0) + mixed(y) * K1 + z, pair(v.1, w.1) + x)
}

/// Hashes 32 bytes with a seed, without mixing them much.
#[inline]
fn weak(bytes: &[u8], at: usize, (a, b): (Word, Word)) -> (Word, Word) {
    let [first, second, third, last] = [0, 8, 16, 24].map(|offset| word(bytes, at + offset));
    let a = a + first;
    let b = rotated(b + a + last, 21);
    let sum = a + second + third;
    (sum + last, b + rotated(sum, 44) + a)
}

#[inline]
fn pair(low: Word, high: Word) -> Word {
    let a = mixed((low ^ high) * K_PAIR);
    let b = mixed((high ^ a) * K_PAIR);
    b * K_PAIR
}

#[inline]
fn mixed(word: Word) -> Word {
    word ^ (word >> 47)
}

#[inline]
fn rotated(word: Word, bits: u32) -> Word {
    Wrapping(word.0.rotate_right(bits))
}

#[inline]
fn length_of(bytes: &[u8]) -> Word {
    Wrapping(bytes.len() as u64)
}

/// The 8 bytes at a place. There are as many: lengths are checked above.
#[inline]
fn word(bytes: &[u8], at: usize) -> Word {
    let rest = bytes.get(at..).unwrap_or_default();
    Wrapping(
        rest.first_chunk::<8>()
            .map_or(0, |it| u64::from_le_bytes(*it)),
    )
}

/// The 4 bytes at a place.
#[inline]
fn half_word(bytes: &[u8], at: usize) -> Word {
    let rest = bytes.get(at..).unwrap_or_default();
    let half = rest
        .first_chunk::<4>()
        .map_or(0, |it| u32::from_le_bytes(*it));
    Wrapping(u64::from(half))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_rows::rowbinary::put_uuid;
    use uuid::Uuid;

    #[test]
    fn known_texts_have_the_hashes_of_version_1_0_2() {
        let table: [(&str, u64); 7] = [
            ("", 11_160_318_154_034_397_263),
            ("1", 11_413_460_447_292_444_913),
            ("abc", 4_220_206_313_085_259_313),
            ("12345678", 7_177_601_938_557_627_951),
            ("123456789", 12_390_271_160_407_166_709),
            ("4RNfAbDSysH78xK5s", 16_686_325_262_955_297_357),
            (
                "1234567890abcdefghijklmnopqrstuvwxyz",
                6_062_807_976_406_716_385,
            ),
        ];
        for (text, expected) in table {
            assert_eq!(city_hash_64(text.as_bytes()), expected, "{text}");
        }
    }

    /// The hashes are those of a version in another language, which the vectors of the original
    /// library agree with.
    #[test]
    fn texts_on_both_sides_of_each_limit_have_their_hashes() {
        let table: [(usize, u64); 17] = [
            (2, 0xb2b6_e06d_5596_172b),
            (3, 0xf6aa_543c_a4b8_bf14),
            (4, 0x49cb_f7ba_1abd_60c8),
            (8, 0xdf2c_6929_fd15_c225),
            (9, 0x2922_5756_5e1d_8d10),
            (16, 0xc15c_b8f4_9c72_a053),
            (17, 0xd228_4777_22f0_0497),
            (32, 0xbf3f_9b0e_2c06_c05c),
            (33, 0x8edd_f6d9_ce34_1b9c),
            (48, 0x8c38_e1a7_3359_9728),
            (64, 0x2bc5_0ca9_be2b_9e6a),
            (65, 0x893d_873e_2f2b_1dd1),
            (127, 0x84e4_d48f_1116_41d8),
            (128, 0xe640_a892_46b8_99ce),
            (129, 0xe057_d5f3_caac_fd09),
            (200, 0x81dc_fe92_9e20_adc3),
            (300, 0xb957_5c76_3387_a893),
        ];
        for (count, expected) in table {
            let bytes: Vec<u8> = (0..count).map(|at| (at * 7 + count) as u8).collect();
            assert_eq!(city_hash_64(&bytes), expected, "{count} bytes");
        }
    }

    #[test]
    fn a_uuid_is_hashed_as_it_is_encoded() {
        let mut cell = Vec::new();
        put_uuid(
            &mut cell,
            Uuid::from_u128(0x0191_f99b_b499_70c4_9505_90a4_7f19_f05a),
        );
        assert_eq!(city_hash_64(&cell), 0x1e67_bc7a_8287_eb72);
    }
}
