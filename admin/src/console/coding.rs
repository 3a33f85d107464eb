//! Content coding of a file by the header `Accept-Encoding`.

use http::HeaderMap;
use http::header::ACCEPT_ENCODING;
use millrace_console::File;

/// Content coding of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Plain,
    Gzip,
    Brotli,
}

impl Coding {
    /// Smallest coding that a client accepts. Browsers name codings without a quality, or refuse
    /// one by a quality of 0.
    pub(super) fn accepted(headers: &HeaderMap) -> Self {
        if accepts(headers, "br") {
            Self::Brotli
        } else if accepts(headers, "gzip") {
            Self::Gzip
        } else {
            Self::Plain
        }
    }

    /// Name of the coding in headers; `None` for a file as it is.
    pub(super) const fn name(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Gzip => Some("gzip"),
            Self::Brotli => Some("br"),
        }
    }

    /// Content of a file in this coding.
    pub(super) const fn content(self, file: &File) -> &'static [u8] {
        match self {
            Self::Plain => file.plain,
            Self::Gzip => file.gzip,
            Self::Brotli => file.brotli,
        }
    }
}

/// Returns true if a client accepts a coding.
fn accepts(headers: &HeaderMap, coding: &str) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    let mut items = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    items.any(|item| {
        let (name, quality) = item.split_once(';').unwrap_or((item, ""));
        let quality = quality.trim().strip_prefix("q=");
        let quality = quality.map_or(Ok(1.0), str::parse::<f32>);
        name.trim() == coding && quality.is_ok_and(|quality| quality > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn the_smallest_coding_that_a_client_accepts_is_sent() {
        let table = [
            ("", Coding::Plain),
            ("gzip, deflate, br, zstd", Coding::Brotli),
            ("gzip, deflate", Coding::Gzip),
            ("br;q=0, gzip", Coding::Gzip),
            ("br;q=0.5", Coding::Brotli),
            ("gzip;q=0", Coding::Plain),
            ("identity", Coding::Plain),
        ];
        for (value, coding) in table {
            let value = (ACCEPT_ENCODING, HeaderValue::from_static(value));
            let headers = HeaderMap::from_iter([value]);
            assert_eq!(Coding::accepted(&headers), coding, "{headers:?}");
        }
    }
}
