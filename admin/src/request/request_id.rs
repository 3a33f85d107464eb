//! The name of one request, in its answer and in every log line about it.

use http::{HeaderMap, HeaderName};
use uuid::Uuid;

pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest name that is taken from outside.
const CHARS_MAX: usize = 128;

/// The client's name for it, if that can stand in a log line; else a new one.
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
    fn what_cannot_stand_in_a_log_line_is_replaced() {
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
