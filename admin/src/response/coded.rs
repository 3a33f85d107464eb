//! Bodies that stay what they are while the process runs, plain and compressed.

use crate::change::etag;
use crate::response::{ApiResponse, Coding};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;
use std::io::Write;
use std::sync::OnceLock;

/// Body that is compressed once, when a client first accepts that.
#[derive(Debug)]
pub(crate) struct CodedBody {
    content_type: &'static str,
    plain: Bytes,
    /// Compressed body; `None` inside if it could not be made.
    gzip: OnceLock<Option<Bytes>>,
    /// Hash of the plain body, without quotes.
    hash: String,
}

impl CodedBody {
    /// Takes the plain body.
    pub(crate) fn new(content_type: &'static str, plain: Bytes) -> Self {
        Self {
            content_type,
            hash: etag::of(&plain).replace('"', ""),
            plain,
            gzip: OnceLock::new(),
        }
    }

    /// Hash of the plain body.
    pub(crate) fn hash(&self) -> &str {
        &self.hash
    }

    /// Response in the smallest coding that a client accepts. Each coding has a tag of its own.
    pub(crate) fn response(&self, headers: &HeaderMap) -> ApiResponse {
        let gzip = accepts_gzip(headers).then(|| self.gzip()).flatten();
        let (coding, body, suffix) = match gzip {
            Some(body) => (Coding::Gzip, body, "-gzip"),
            None => (Coding::Plain, &self.plain, ""),
        };
        ApiResponse {
            content_type: self.content_type,
            body: body.clone(),
            tag: Some(format!("\"{}{suffix}\"", self.hash)),
            coding: Some(coding),
            ..ApiResponse::empty()
        }
    }

    fn gzip(&self) -> Option<&Bytes> {
        let compressed = self.gzip.get_or_init(|| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            let written = encoder
                .write_all(&self.plain)
                .and_then(|()| encoder.finish());
            written.ok().map(Bytes::from)
        });
        compressed.as_ref()
    }
}

/// Returns true if a client accepts gzip.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    let mut codings = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    codings.any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_named = parts.next().is_some_and(|name| {
            name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip")
        });
        let refused = parts.any(|part| part.trim_end_matches(['0', '.']) == "q=");
        is_named && !refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    #[test]
    fn a_body_is_compressed_for_clients_that_accept_it() {
        let body = CodedBody::new("text/plain", Bytes::from("word ".repeat(1_000)));
        let table = [
            ("", Coding::Plain),
            ("br", Coding::Plain),
            ("gzip;q=0", Coding::Plain),
            ("gzip;q=0.5", Coding::Gzip),
            ("br, gzip, deflate", Coding::Gzip),
        ];
        let mut tags = Vec::new();
        for (accepted, coding) in table {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, accepted.parse().unwrap());
            let response = body.response(&headers);
            assert_eq!(response.coding, Some(coding), "{accepted}");
            tags.push(response.tag.unwrap());
            if coding == Coding::Gzip {
                assert!(response.body.len() < 100, "{accepted}");
                let mut read = String::new();
                let mut decoder = GzDecoder::new(&response.body[..]);
                decoder.read_to_string(&mut read).unwrap();
                assert_eq!(read.as_bytes(), body.plain, "{accepted}");
            }
        }
        assert_eq!(tags[0], tags[1]);
        assert_ne!(tags[0], tags[4]);
    }
}
