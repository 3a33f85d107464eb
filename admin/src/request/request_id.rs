//! Id of a request, in its response and in every log line about it.

use http::{HeaderMap, HeaderName};
use uuid::Uuid;

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest id that is accepted from a client.
const CHARS_MAX: usize = 128;

/// Id that the client sent, if it is printable in a log line; otherwise a new one.
pub(crate) fn of(headers: &HeaderMap) -> String {
    let sent = headers.get(X_REQUEST_ID).and_then(|id| id.to_str().ok());
    let usable = |id: &&str| {
        let plain = id.bytes().all(|byte| byte.is_ascii_graphic());
        plain && (1..=CHARS_MAX).contains(&id.len())
    };
    match sent.filter(usable) {
        Some(id) => id.to_owned(),
        None => Uuid::now_v7().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_empty_too_long_or_not_printable_is_replaced() {
        let long = "x".repeat(129);
        let table = [
            ("a-1_2.3", true),
            ("", false),
            ("a b", false),
            ("a\tb", false),
            (&*long, false),
        ];
        for (sent, kept) in table {
            let mut headers = HeaderMap::new();
            headers.insert(X_REQUEST_ID, sent.parse().unwrap());
            assert_eq!(of(&headers) == sent, kept, "{sent:?}");
        }
        assert!(Uuid::parse_str(&of(&HeaderMap::new())).is_ok());
    }
}
