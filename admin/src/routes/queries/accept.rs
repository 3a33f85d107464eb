//! Format of an answer by the header `Accept`.

use crate::error::ApiError;
use crate::project_queries::QueryFormat;
use http::HeaderMap;
use http::header::ACCEPT;

/// Media types of answers, JSON first.
pub(super) const MEDIA_TYPES: [&str; 5] = [
    QueryFormat::Json.media_type(),
    QueryFormat::Ndjson.media_type(),
    QueryFormat::Csv.media_type(),
    QueryFormat::Parquet.media_type(),
    QueryFormat::Arrow.media_type(),
];

/// Returns the format that a request prefers: of several with the highest quality the first; JSON
/// if it names none.
///
/// # Errors
///
/// 406: it names media types, and none of a format.
pub(super) fn accepted_format(headers: &HeaderMap) -> Result<QueryFormat, ApiError> {
    let texts = headers.get_all(ACCEPT).into_iter();
    let texts = texts.filter_map(|text| text.to_str().ok());
    let ranges = texts.flat_map(|text| text.split(',')).map(str::trim);
    let mut best: Option<(f32, QueryFormat)> = None;
    let mut is_named = false;
    for range in ranges.filter(|range| !range.is_empty()) {
        is_named = true;
        let mut parts = range.split(';').map(str::trim);
        let format = format_of(parts.next().unwrap_or_default());
        let quality = parts.find_map(|part| part.strip_prefix("q="));
        let quality = quality.map_or(1.0, |text| text.parse().unwrap_or(0.0));
        let is_better = best.is_none_or(|(had, _)| quality > had);
        if let Some(format) = format
            && quality > 0.0
            && is_better
        {
            best = Some((quality, format));
        }
    }
    match best {
        Some((_, format)) => Ok(format),
        None if is_named => Err(ApiError::not_acceptable(&MEDIA_TYPES.join(", "))),
        None => Ok(QueryFormat::Json),
    }
}

/// Format of a media range.
fn format_of(range: &str) -> Option<QueryFormat> {
    let range = range.to_ascii_lowercase();
    match range.as_str() {
        // Errors are asked for by the last one.
        "*/*" | "application/*" | "application/problem+json" => Some(QueryFormat::Json),
        "text/*" => Some(QueryFormat::Csv),
        "application/ndjson" | "application/jsonl" => Some(QueryFormat::Ndjson),
        _ => {
            let mut formats = QueryFormat::ALL.into_iter();
            formats.find(|format| format.media_type() == range)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_format_of_the_highest_quality_is_taken() {
        let table = [
            ("", Some(QueryFormat::Json)),
            ("*/*", Some(QueryFormat::Json)),
            ("text/csv", Some(QueryFormat::Csv)),
            ("Text/CSV; charset=utf-8", Some(QueryFormat::Csv)),
            ("application/x-ndjson", Some(QueryFormat::Ndjson)),
            ("application/vnd.apache.parquet", Some(QueryFormat::Parquet)),
            (
                "application/vnd.apache.arrow.stream",
                Some(QueryFormat::Arrow),
            ),
            (
                "text/csv;q=0.1, application/json;q=0.5",
                Some(QueryFormat::Json),
            ),
            (
                "text/html, text/csv, application/json",
                Some(QueryFormat::Csv),
            ),
            ("application/problem+json", Some(QueryFormat::Json)),
            ("text/html", None),
            ("text/csv;q=0", None),
            ("text/csv;q=x", None),
        ];
        for (accept, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            assert_eq!(accepted_format(&headers).ok(), expected, "{accept}");
        }
        assert_eq!(
            accepted_format(&HeaderMap::new()).ok(),
            Some(QueryFormat::Json)
        );
    }
}
