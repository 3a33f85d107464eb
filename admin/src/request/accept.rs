//! `Accept`: media types that a client names.

use http::HeaderMap;
use http::header::ACCEPT;

/// Returns true if a client names a media type, and not with a quality of 0.
pub(crate) fn names(headers: &HeaderMap, media_type: &str) -> bool {
    let texts = headers.get_all(ACCEPT).into_iter();
    let mut types = texts
        .filter_map(|text| text.to_str().ok())
        .flat_map(|text| text.split(','));
    types.any(|accepted| {
        let mut parts = accepted.split(';').map(str::trim);
        let named = parts.next().unwrap_or_default();
        let refused = parts.any(|part| part.trim_end_matches(['0', '.']) == "q=");
        named.eq_ignore_ascii_case(media_type) && !refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_named_unless_its_quality_is_0() {
        let table = [
            ("text/html,application/xhtml+xml,*/*;q=0.8", true),
            ("application/json, Text/HTML;q=0.1", true),
            ("text/html;q=0.0", false),
            ("text/htmlx", false),
            ("*/*", false),
            ("", false),
        ];
        for (accepted, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accepted.parse().unwrap());
            assert_eq!(names(&headers, "text/html"), expected, "{accepted}");
        }
        assert!(!names(&HeaderMap::new(), "text/html"));
    }
}
