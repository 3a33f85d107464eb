//! Histograms as bytes: HdrHistogram's format of version 2, compressed.
//!
//! The library writes it as well, but brings a second library of deflate for that (decision 0118).

use anyhow::{Context, Result, anyhow, bail, ensure};
use bytes::{Buf, BufMut};
use hdrhistogram::{Counter, Histogram};
use libdeflater::{CompressionLvl, Compressor, DecompressionError, Decompressor};

const COOKIE: u32 = 0x1c84_9313;
const COMPRESSED_COOKIE: u32 = 0x1c84_9314;
/// Highest number of bytes of a histogram before compression: nine for each of a million counts.
const PLAIN_BYTES_MAX: usize = 9 << 20;
/// Bytes of the longest number. Its last byte has eight bits, the others have seven.
const VARINT_BYTES_MAX: u32 = 9;

/// Arrangement of the counts: each bucket has half as many as the first, of twice the width.
#[derive(Clone, Copy)]
struct Layout {
    /// Binary logarithm of the width of the first bucket's counts.
    unit_magnitude: u32,
    /// Binary logarithm of the number of counts in each further bucket.
    half_magnitude: u32,
}

impl Layout {
    fn new(low: u64, digits: u8) -> Self {
        let largest = 2 * 10_u64.pow(digits.min(5).into());
        Self {
            unit_magnitude: low.max(1).ilog2(),
            half_magnitude: (largest - 1).ilog2(),
        }
    }

    /// Lowest value that is counted at an index; `None` if no value is as high.
    fn value(self, index: u64) -> Option<u64> {
        let bucket = (index >> self.half_magnitude).saturating_sub(1);
        let in_bucket = index - (bucket << self.half_magnitude);
        let shift = u32::try_from(bucket)
            .ok()?
            .checked_add(self.unit_magnitude)?;
        let highest = u64::MAX.checked_shr(shift)?;
        (in_bucket <= highest).then(|| in_bucket << shift)
    }
}

/// Encodes a histogram.
///
/// # Errors
/// The compressor failed.
pub fn encode<C: Counter>(histogram: &Histogram<C>) -> Result<Vec<u8>> {
    let counts = encoded_counts(histogram);
    // A histogram that grew by additions has values above its bound.
    let high = histogram.high().max(histogram.max());
    let mut plain = Vec::new();
    plain.put_u32(COOKIE);
    plain.put_u32(u32::try_from(counts.len()).context("counts")?);
    plain.put_u32(0);
    plain.put_u32(histogram.sigfig().into());
    plain.put_u64(histogram.low());
    plain.put_u64(high);
    plain.put_f64(1.0);
    plain.extend_from_slice(&counts);

    let mut compressor = Compressor::new(CompressionLvl::default());
    let mut compressed = vec![0; compressor.zlib_compress_bound(plain.len())];
    let length = compressor
        .zlib_compress(&plain, &mut compressed)
        .context("zlib")?;
    compressed.truncate(length);
    let mut bytes = Vec::new();
    bytes.put_u32(COMPRESSED_COOKIE);
    bytes.put_u32(u32::try_from(length).context("histogram")?);
    bytes.extend_from_slice(&compressed);
    Ok(bytes)
}

/// Counts up to the highest value; zeros that follow one another are their negative number.
fn encoded_counts<C: Counter>(histogram: &Histogram<C>) -> Vec<u8> {
    let layout = Layout::new(histogram.low(), histogram.sigfig());
    let max = histogram.max();
    let values = (0..).map_while(|index| layout.value(index).filter(|value| *value <= max));
    let (mut counts, mut zeros) = (Vec::new(), 0);
    for value in values {
        let count = histogram.count_at(value).as_u64();
        if count == 0 {
            zeros += 1;
            continue;
        }
        put_zeros(&mut counts, std::mem::take(&mut zeros));
        put_number(&mut counts, i64::try_from(count).unwrap_or(i64::MAX));
    }
    put_zeros(&mut counts, zeros);
    counts
}

fn put_zeros(counts: &mut Vec<u8>, zeros: i64) {
    match zeros {
        0 => {}
        1 => put_number(counts, 0),
        _ => put_number(counts, -zeros),
    }
}

/// Appends a number, zig-zag and seven bits a byte, the lowest first.
fn put_number(counts: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    for _ in 1..VARINT_BYTES_MAX {
        if rest < 0x80 {
            break;
        }
        counts.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    counts.push(rest as u8);
}

/// Decodes a histogram of any program that writes this format.
///
/// # Errors
/// The bytes are not such a histogram.
pub fn decode(mut bytes: &[u8]) -> Result<Histogram<u64>> {
    let cookie = bytes.try_get_u32()?;
    ensure!(
        cookie == COMPRESSED_COOKIE,
        "not a compressed histogram of version 2"
    );
    let length = usize::try_from(bytes.try_get_u32()?)?;
    let plain = inflated(bytes.get(..length).context("the histogram is cut")?)?;
    let mut plain = plain.as_slice();
    ensure!(plain.try_get_u32()? == COOKIE, "not of version 2");
    let length = usize::try_from(plain.try_get_u32()?)?;
    let offset = plain.try_get_u32()?;
    let digits = u8::try_from(plain.try_get_u32()?)?;
    let (low, high) = (plain.try_get_u64()?, plain.try_get_u64()?);
    let ratio = plain.try_get_f64()?;
    ensure!(
        offset == 0 && ratio == 1.0,
        "a shifted or scaled histogram is not supported"
    );
    let histogram = Histogram::new_with_bounds(low, high, digits)?;
    let counts = plain.get(..length).context("the counts are cut")?;
    with_counts(histogram, counts)
}

fn with_counts(mut histogram: Histogram<u64>, mut counts: &[u8]) -> Result<Histogram<u64>> {
    let layout = Layout::new(histogram.low(), histogram.sigfig());
    let mut index = 0_u64;
    while !counts.is_empty() {
        let number = number(&mut counts)?;
        let Ok(count) = u64::try_from(number) else {
            index = index.saturating_add(number.unsigned_abs());
            continue;
        };
        if count > 0 {
            let value = layout.value(index).context("a count has no value")?;
            histogram.record_n(value, count)?;
        }
        index = index.saturating_add(1);
    }
    Ok(histogram)
}

fn number(counts: &mut &[u8]) -> Result<i64> {
    let mut zigzag = 0;
    for place in 0..VARINT_BYTES_MAX {
        let byte = u64::from(counts.try_get_u8()?);
        let is_last = place + 1 == VARINT_BYTES_MAX;
        let bits = if is_last { byte } else { byte & 0x7f };
        zigzag |= bits << (7 * place);
        if is_last || byte < 0x80 {
            break;
        }
    }
    Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
}

fn inflated(compressed: &[u8]) -> Result<Vec<u8>> {
    let mut decompressor = Decompressor::new();
    let mut plain = vec![0; 1 << 16];
    loop {
        match decompressor.zlib_decompress(compressed, &mut plain) {
            Ok(length) => {
                plain.truncate(length);
                return Ok(plain);
            }
            Err(DecompressionError::InsufficientSpace) if plain.len() < PLAIN_BYTES_MAX => {
                plain.resize(plain.len() * 2, 0);
            }
            Err(DecompressionError::InsufficientSpace) => bail!("the histogram is too large"),
            Err(error) => return Err(anyhow!(error).context("zlib")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use proptest::prelude::*;

    /// Histogram that the Java library wrote: the first of its sample of jHiccup.
    const OF_JAVA: &str = "HISTFAAAAEV42pNpmSzMwMCgyAABTBDKT4GBgdnNYMcCBvsPEBEJISEuATEZMQ4u\
        ASkhIR4nrxg9v2lMaxhvMekILGZkKmcCAEf2CsI=";

    #[test]
    fn a_histogram_of_the_java_library_is_read() {
        let histogram = decode(&BASE64_STANDARD.decode(OF_JAVA).unwrap()).unwrap();
        assert_eq!((histogram.len(), histogram.max()), (741, 2_768_895));
        assert_eq!(
            (histogram.count_at(0), histogram.count_at(1_753_088)),
            (12, 1)
        );
        let again = decode(&encode(&histogram).unwrap()).unwrap();
        assert!(again == histogram);
    }

    proptest! {
        #[test]
        fn a_histogram_survives_its_bytes(
            values in proptest::collection::vec((0..u64::MAX >> 20, 1..100_u64), 0..50),
            low in 1..2000_u64,
            digits in 0..4_u8,
        ) {
            let mut histogram = Histogram::<u64>::new_with_bounds(low, 2 * low, digits).unwrap();
            histogram.auto(true);
            for (value, count) in values {
                histogram.record_n(value, count).unwrap();
            }
            let read = decode(&encode(&histogram).unwrap()).unwrap();
            prop_assert!(read == histogram, "{read:?} {histogram:?}");
            prop_assert_eq!((read.min(), read.max()), (histogram.min(), histogram.max()));
        }

        #[test]
        fn numbers_survive_their_bytes(number in any::<i64>()) {
            for number in [number, number >> 40, number >> 56, 0, -1, i64::MIN, i64::MAX] {
                let mut bytes = Vec::new();
                put_number(&mut bytes, number);
                let mut rest = bytes.as_slice();
                prop_assert_eq!(super::number(&mut rest).unwrap(), number);
                prop_assert!(rest.is_empty() && bytes.len() <= 9);
            }
        }

        #[test]
        fn no_counts_make_the_decoder_panic(counts in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut plain = Vec::new();
            for field in [COOKIE, counts.len() as u32, 0, 2] {
                plain.put_u32(field);
            }
            plain.put_u64(1);
            plain.put_u64(3_600_000_000_000);
            plain.put_f64(1.0);
            plain.extend_from_slice(&counts);
            let mut compressor = Compressor::new(CompressionLvl::default());
            let mut compressed = vec![0; compressor.zlib_compress_bound(plain.len())];
            let length = compressor.zlib_compress(&plain, &mut compressed).unwrap();
            let mut bytes = Vec::new();
            bytes.put_u32(COMPRESSED_COOKIE);
            bytes.put_u32(length as u32);
            bytes.extend_from_slice(&compressed[..length]);
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        for (bytes, says) in [
            (&b"HIST"[..], ""),
            (
                &[0x1c, 0x84, 0x93, 0x13],
                "not a compressed histogram of version 2",
            ),
            (
                &[0x1c, 0x84, 0x93, 0x14, 0, 0, 0, 1],
                "the histogram is cut",
            ),
            (&[0x1c, 0x84, 0x93, 0x14, 0, 0, 0, 2, 0, 0], "zlib"),
        ] {
            let error = decode(bytes).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
