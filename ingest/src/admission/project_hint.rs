//! Hints at the project of a request whose body is not parsed yet, by the keys where most are.
//!
//! They decide who takes turns with whom, and whose large bodies are believed to be a project's;
//! whose the events are is decided by the parser alone.

use crate::keys::Keys;
use millrace_encoding::{Encoding, key_behind, keys_in};
use millrace_parse::KeyLookup;

/// Bytes in which a body begins with its key, if it does: white space may take megabytes.
const BEGINNING_BYTES: usize = 1 << 10;
/// Bytes at either end of a large body in which its key is looked for.
const SEARCHED_BYTES: usize = 16 << 10;

/// Key that a body begins with, as most do. A body that begins with the key of another project
/// takes turns with that project.
pub fn key_at_start(body: &[u8]) -> Option<&[u8]> {
    let body = body.get(..BEGINNING_BYTES).unwrap_or(body);
    let rest = body.trim_ascii_start().strip_prefix(b"{")?;
    let rest = rest.trim_ascii_start().strip_prefix(b"\"")?;
    let (name, rest) = rest.split_at_checked(memchr::memchr(b'"', rest.get(..16)?)?)?;
    if !matches!(name, b"api_key" | b"token") {
        return None;
    }
    key_behind(rest.strip_prefix(b"\"")?)
}

/// Returns true if a key is a project's, as far as that is known without asking.
pub fn is_known(keys: &Keys, key: &[u8]) -> bool {
    let key = std::str::from_utf8(key);
    key.is_ok_and(|key| matches!(keys.cached(key), KeyLookup::Found(_)))
}

/// Keys that a large body names where most bodies have theirs, after that of its head.
pub fn keys_of_large_body(head_key: Option<&str>, json: &[u8]) -> Vec<String> {
    let end = json.len().saturating_sub(SEARCHED_BYTES);
    let ends = [json.get(..SEARCHED_BYTES), json.get(end..)];
    let named = ends.into_iter().flatten().flat_map(|text| {
        let named = keys_in(Encoding::Identity, text, SEARCHED_BYTES);
        named.into_iter()
    });
    head_key
        .map(str::to_owned)
        .into_iter()
        .chain(named)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_at_the_beginning_of_a_body_is_found() {
        let table = [
            (r#"{"api_key":"phc_a","batch":[]}"#, Some("phc_a")),
            (" {\n \"token\" : \"phc_b\" , \"event\":1}", Some("phc_b")),
            (r#"{"batch":[],"api_key":"phc_a"}"#, None),
            (r#"[{"api_key":"phc_a"}]"#, None),
            (r#"{"api_key":1234567890123}"#, None),
            (r#"{"api_key":"","batch":[]}"#, None),
            (r#"{"api_key":"phc_a"#, None),
            ("", None),
        ];
        for (body, key) in table {
            assert_eq!(
                key_at_start(body.as_bytes()),
                key.map(str::as_bytes),
                "{body}"
            );
        }
    }
}
