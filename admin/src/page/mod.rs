//! Pages of lists: parameters of the query, and the envelope around the rows. `bounded` reads
//! the rows.

mod bounded;

use bounded::FIRST_ROWS;
pub(crate) use bounded::{LIMIT_MAX, PAGE_BYTES_MAX, PageRows, page_before, read};

use http::uri::Uri;
use millrace_catalog::PageRequest;
use schemars::JsonSchema;
use serde::Serialize;

const LIMIT_DEFAULT: u64 = 100;
/// Parameter of links to the previous page: the offset at which it ends.
const END_OFFSET: &str = "end_offset";
/// A page of a list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub(crate) struct Envelope<T> {
    /// Length of the whole list.
    count: u64,
    /// Address of the next page; null at the end.
    #[schemars(extend("format" = "uri"))]
    next: Option<String>,
    /// Address of the previous page; null at the beginning.
    #[schemars(extend("format" = "uri"))]
    previous: Option<String>,
    /// Rows of this page.
    results: Vec<T>,
}

impl<T> Envelope<T> {
    /// Wraps the rows of `page`, which was requested at `uri` below `base_url`.
    pub(crate) fn new(base_url: &str, uri: &Uri, page: PageRequest, part: PageRows<T>) -> Self {
        let after = page.offset.saturating_add(part.length);
        // Behind the end, the previous page is the last one.
        let from = page.offset.min(part.count);
        let before = from.saturating_sub(page.limit);
        let previous = || {
            let mut previous = address(base_url, uri, page.limit, before);
            // More rows than are certain to fit: the previous page may begin later.
            if from - before > FIRST_ROWS {
                previous.push_str(&format!("&{END_OFFSET}={from}"));
            }
            previous
        };
        Self {
            count: part.count,
            next: (after < part.count).then(|| address(base_url, uri, page.limit, after)),
            previous: (from > 0).then(previous),
            results: part.results,
        }
    }
}

/// Offset at which the requested page ends, as links to the previous page have it.
pub(crate) fn end_offset(uri: &Uri) -> Option<u64> {
    let query = uri.query().unwrap_or_default();
    let mut values = form_urlencoded::parse(query.as_bytes());
    let value = values.find_map(|(key, value)| (key == END_OFFSET).then_some(value))?;
    let end = value.parse::<u64>().ok()?.min(i64::MAX as u64);
    (end > 0).then_some(end)
}

/// Reads `limit` (at most `limit_max`) and `offset`; invalid values count as not given.
pub(crate) fn requested(uri: &Uri, limit_max: u64) -> PageRequest {
    let number = |name: &str| {
        let query = uri.query().unwrap_or_default();
        let mut values = form_urlencoded::parse(query.as_bytes());
        let value = values.find_map(|(key, value)| (key == name).then_some(value))?;
        value.parse::<u64>().ok()
    };
    PageRequest {
        limit: match number("limit") {
            None | Some(0) => LIMIT_DEFAULT,
            Some(limit) => limit.min(limit_max),
        },
        // The databases count in signed numbers.
        offset: number("offset").unwrap_or(0).min(i64::MAX as u64),
    }
}

/// Absolute address of another page; other parameters are kept as they were sent.
fn address(base_url: &str, uri: &Uri, limit: u64, offset: u64) -> String {
    let query = uri.query().unwrap_or_default();
    let mut address = format!("{base_url}{}?limit={limit}", uri.path());
    if offset > 0 {
        address.push_str(&format!("&offset={offset}"));
    }
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let name = part.split('=').next().unwrap_or_default();
        if !["limit", "offset", END_OFFSET].contains(&name) {
            address.push('&');
            address.push_str(part);
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_limits_and_offsets_fall_back_to_the_defaults() {
        let table = [
            ("/", (100, 0)),
            ("/?limit=10&offset=20", (10, 20)),
            ("/?limit=%31%30", (10, 0)),
            ("/?limit=0&offset=-1", (100, 0)),
            ("/?limit=x&offset=y", (100, 0)),
            ("/?limit=-5", (100, 0)),
            ("/?limit=1001", (1_000, 0)),
            ("/?limit=99999999999999999999", (100, 0)),
            ("/?offset=18446744073709551615", (100, i64::MAX as u64)),
            ("/?limit", (100, 0)),
        ];
        for (uri, (limit, offset)) in table {
            let page = requested(&uri.parse().unwrap(), LIMIT_MAX);
            assert_eq!((page.limit, page.offset), (limit, offset), "{uri}");
        }
    }
}
