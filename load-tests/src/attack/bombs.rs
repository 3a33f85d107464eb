//! Decompression bombs: short bodies that decode to large structures and texts.
//!
//! They come in every encoding and every way of sending a body, without a key and with one.

use super::http::request;
use anyhow::{Context, Result, anyhow};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
use libdeflater::{CompressionLvl, Compressor};
use rand::distr::{Alphanumeric, SampleString};
use rand::rngs::StdRng;
use std::io::Write;

/// Decoded size of a bomb in bytes: the limit for a known key, and more than the limit without one.
const DECODED_BYTES: usize = 20 << 20;
/// Random letters, which no encoding compresses. With them a body decodes to less than 200 times
/// its size, and the server has to read on.
const PADDING_BYTES: usize = 160 << 10;

/// Pieces that bombs repeat, each with whether it stands in an event of a batch or bare.
const PIECES: [(&str, bool); 12] = [
    ("[", false),
    ("{\"\":", false),
    ("{\"event\":\"e\",\"distinct_id\":\"d\"},", false),
    ("{},", true),
    ("[],", true),
    ("NaN,", true),
    ("1,", true),
    ("\"\",", true),
    ("{\"\":1},", true),
    ("\\\\", true),
    ("\\ud83d", true),
    ("\u{1F389}", true),
];

/// Decoded size of a bomb in LZString. Its compressor takes quadratic time, and this size is enough
/// for hundreds of times the encoded one.
const LZ64_BYTES: usize = 96 << 10;
/// One piece in this many is sent in LZString, too.
const LZ64_PIECES: usize = 3;
/// Decoded size of an image tag's data in bytes.
const IMAGE_BYTES: usize = 46 << 20;
/// Bytes of the header of a gzip member without a name; the trailer is below.
const GZIP_HEAD_BYTES: usize = 10;
const GZIP_TAIL_BYTES: usize = 8;
/// Boundary of a multipart body.
const BOUNDARY: &str = "b";

/// A body with its path and headers.
#[derive(Clone, Debug)]
pub(super) struct Bomb {
    /// Name of the encoding in a report.
    pub(super) way: &'static str,
    /// Path of the request; `None` for any path that takes events.
    path: Option<&'static str>,
    headers: Vec<(&'static str, &'static str)>,
    /// Bytes of the body.
    body: Vec<u8>,
}

impl Bomb {
    /// A bomb whose encoding the `Content-Encoding` header names.
    fn encoded(encoding: &'static str, body: Vec<u8>) -> Self {
        Self {
            way: encoding,
            path: None,
            headers: vec![("Content-Encoding", encoding)],
            body,
        }
    }

    /// A form with the bomb as its field `data`, in base64 or in LZString's text.
    fn form(way: &'static str, compression: &str, data: &str) -> Self {
        let data = escaped(data);
        Self {
            way,
            path: None,
            headers: vec![("Content-Type", "application/x-www-form-urlencoded")],
            body: format!("compression={compression}&data={data}").into_bytes(),
        }
    }

    /// A multipart event with the bomb as its properties.
    fn parts(way: &'static str, encoding: &str, key: Option<&str>, properties: &[u8]) -> Self {
        let named = |name: &str| {
            format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n")
        };
        let event = format!(
            r#"{{"event":"a","distinct_id":"b","api_key":"{}"}}"#,
            key.unwrap_or("phc_nobody")
        );
        let before = format!(
            "{}\r\n{event}\r\n{}Content-Type: application/json\r\nContent-Encoding: {encoding}\r\n\r\n",
            named("event"),
            named("event.properties"),
        );
        let after = format!("\r\n--{BOUNDARY}--\r\n");
        Self {
            way,
            path: Some("/i/v0/ai"),
            headers: vec![("Content-Type", "multipart/form-data; boundary=b")],
            body: [before.as_bytes(), properties, after.as_bytes()].concat(),
        }
    }

    /// Request with the bomb, to `path` unless the bomb has a path of its own.
    pub(super) fn request(&self, path: &str) -> Vec<u8> {
        let path = self.path.unwrap_or(path);
        request("POST", path, &self.headers, &self.body)
    }
}

/// Every piece in every encoding: without a key, or padded and with one.
pub(super) fn all(key: Option<&str>, rng: &mut StdRng) -> Result<Vec<Bomb>> {
    from_pieces(&PIECES, key, rng)
}

fn from_pieces(pieces: &[(&str, bool)], key: Option<&str>, rng: &mut StdRng) -> Result<Vec<Bomb>> {
    let mut bombs = Vec::new();
    for (number, (piece, is_in_event)) in pieces.iter().enumerate() {
        let padding = match key {
            Some(_) => Alphanumeric.sample_string(rng, PADDING_BYTES),
            None => String::new(),
        };
        let plain = |bytes| plain(piece, *is_in_event, key, &padding, bytes);
        let long = plain(DECODED_BYTES);
        let (gzip, brotli) = (gzip(&long)?, brotli(&long)?);
        bombs.extend([
            Bomb::form("form of gzip", "gzip-js", &BASE64_STANDARD.encode(&gzip)),
            Bomb::encoded("base64", BASE64_STANDARD.encode(&gzip).into_bytes()),
            Bomb::parts("parts of br", "br", key, &brotli),
            Bomb::parts("parts of gzip", "gzip", key, &gzip),
            Bomb::encoded("deflate", bare_deflate(&gzip)),
            Bomb::encoded("zstd", zstd(&long)?),
            Bomb::encoded("gzip", gzip),
            Bomb::encoded("br", brotli),
        ]);
        if number % LZ64_PIECES == 0 {
            let lz64 = lz64(&plain(LZ64_BYTES + padding.len()));
            bombs.push(Bomb::form("form of lz64", "lz64", &lz64));
            bombs.push(Bomb::encoded("lz64", lz64.into_bytes()));
        }
    }
    Ok(bombs)
}

/// Paths of image tags with a bomb as their data, by its encoding.
pub(super) fn image_tags() -> Result<Vec<(&'static str, String)>> {
    let mut tags = Vec::new();
    for piece in ["NaN,", "{},", "[", "\\\\"] {
        let long = plain(piece, true, None, "", IMAGE_BYTES);
        let lz64 = lz64(&plain(piece, true, None, "", LZ64_BYTES));
        for (way, compression, data) in [
            ("gzip", "gzip-js", BASE64_URL_SAFE.encode(gzip(&long)?)),
            ("zstd", "zstd", BASE64_URL_SAFE.encode(zstd(&long)?)),
            ("deflate", "deflate", BASE64_URL_SAFE.encode(zlib(&long)?)),
            ("lz64", "lz64", lz64),
        ] {
            let data = escaped(&data);
            tags.push((way, format!("/e/?compression={compression}&data={data}")));
        }
    }
    Ok(tags)
}

/// URL-encodes a text as the value of a field.
fn escaped(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// A body of about `bytes` bytes, most of them a repeated piece.
fn plain(
    piece: &str,
    is_in_event: bool,
    key: Option<&str>,
    padding: &str,
    bytes: usize,
) -> Vec<u8> {
    let is_list = piece.ends_with(',');
    let (mut text, end) = if is_in_event {
        let opens = if is_list { "[" } else { "\"" };
        let begin = format!(
            r#"{{"api_key":"{}","batch":[{{"event":"a","distinct_id":"b","properties":{{"p":"{padding}","x":{opens}"#,
            key.unwrap_or("phc_nobody")
        );
        (begin, if is_list { "1]}}]}" } else { "\"}}]}" })
    } else {
        (padding.to_owned(), "")
    };
    let times = bytes.saturating_sub(text.len()) / piece.len().max(1);
    text.push_str(&piece.repeat(times));
    text.push_str(end);
    text.into_bytes()
}

pub(super) fn brotli(plain: &[u8]) -> Result<Vec<u8>> {
    let mut writer = brotli::CompressorWriter::new(Vec::new(), 1 << 16, 5, 24);
    writer.write_all(plain).context("brotli")?;
    Ok(writer.into_inner())
}

pub(super) fn zstd(plain: &[u8]) -> Result<Vec<u8>> {
    zstd::encode_all(plain, 3).context("zstd")
}

pub(super) fn lz64(plain: &[u8]) -> String {
    lz_str::compress_to_base64(&*String::from_utf8_lossy(plain))
}

/// Content of a gzip member: raw deflate without a header, as many clients send it.
pub(super) fn bare_deflate(gzip: &[u8]) -> Vec<u8> {
    let end = gzip.len().saturating_sub(GZIP_TAIL_BYTES);
    gzip.get(GZIP_HEAD_BYTES..end).unwrap_or_default().to_vec()
}

/// Deflate with zlib's header, which identifies it.
fn zlib(plain: &[u8]) -> Result<Vec<u8>> {
    let mut compressor = Compressor::new(CompressionLvl::default());
    let mut body = vec![0; compressor.zlib_compress_bound(plain.len())];
    let bytes = compressor
        .zlib_compress(plain, &mut body)
        .map_err(|error| anyhow!("deflate: {error}"))?;
    body.truncate(bytes);
    Ok(body)
}

/// A single gzip member, as browsers send it.
pub(super) fn gzip(plain: &[u8]) -> Result<Vec<u8>> {
    let mut compressor = Compressor::new(CompressionLvl::default());
    let mut body = vec![0; compressor.gzip_compress_bound(plain.len())];
    let bytes = compressor
        .gzip_compress(plain, &mut body)
        .map_err(|error| anyhow!("gzip: {error}"))?;
    body.truncate(bytes);
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn bombs_are_small_without_a_key_and_just_below_200_times_with_one() {
        let mut rng = StdRng::seed_from_u64(1);
        for (key, bytes_min, bytes_max) in [
            (None, 0, 128 << 10),
            (Some("phc_k"), DECODED_BYTES / 200, 384 << 10),
        ] {
            let bombs = from_pieces(&[("{},", true)], key, &mut rng).unwrap();
            let ways: Vec<_> = bombs.iter().map(|bomb| bomb.way).collect();
            for way in [
                "br",
                "gzip",
                "zstd",
                "deflate",
                "base64",
                "lz64",
                "form of gzip",
                "form of lz64",
                "parts of br",
                "parts of gzip",
            ] {
                assert!(ways.contains(&way), "{way}");
            }
            for Bomb { way, body, .. } in bombs {
                let bytes = body.len();
                assert!((bytes_min..bytes_max).contains(&bytes), "{way}: {bytes}");
            }
        }
    }

    #[test]
    fn an_image_tag_bomb_fits_into_a_request_head() {
        let tags = image_tags().unwrap();
        for way in ["gzip", "zstd", "deflate", "lz64"] {
            let of_way: Vec<_> = tags.iter().filter(|(of, _)| *of == way).collect();
            assert_eq!(of_way.len(), 4, "{way}");
            assert!(
                of_way.iter().all(|(_, path)| path.len() < 64 << 10),
                "{way}"
            );
        }
    }

    #[test]
    fn a_bomb_in_an_event_is_json() {
        for piece in ["{},", "1,", "\\\\"] {
            let text = plain(piece, true, Some("phc_k"), "xyz", DECODED_BYTES);
            assert!(text.len() > DECODED_BYTES - 100);
            assert!(
                serde_json::from_slice::<serde_json::Value>(&text).is_ok(),
                "{piece}"
            );
        }
    }
}
