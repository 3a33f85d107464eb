//! Versions of single resources: strong `ETag`s, hashed over the bytes of their representation.
//!
//! Some representations have fields that change by themselves, all the time: an export's runs, an
//! organization's members. Their tags leave those out and cover what clients set, so that
//! `If-Match` and `If-None-Match` ask whether somebody changed that. Such responses may not be
//! cached, as a stale copy would have a current tag.
//!
//! `If-Match` holds until the change is committed: see `version`.

use bytes::Bytes;
use http::HeaderMap;
use http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use millrace_catalog::bounded_json;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Strong tag of a representation, quotes included.
pub(crate) fn of(body: &Bytes) -> String {
    let digest = Sha256::digest(body);
    let mut tag = String::with_capacity(34);
    tag.push('"');
    for byte in digest.iter().take(16) {
        tag.push_str(&format!("{byte:02x}"));
    }
    tag.push('"');
    tag
}

/// Strong tag of a representation without the fields that change by themselves.
pub(crate) fn without(live_fields: &[&str], body: &Bytes) -> String {
    if live_fields.is_empty() {
        return of(body);
    }
    let Ok(Value::Object(mut fields)) = bounded_json::parse(body, usize::MAX) else {
        return of(body);
    };
    for field in live_fields {
        fields.remove(*field);
    }
    of(&Value::Object(fields).to_string().into())
}

/// Returns true if the client has this version already. Weak tags compare as strong ones here.
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let listed = |listed: &str| listed == "*" || listed.trim_start_matches("W/") == tag;
    tags(headers, &IF_NONE_MATCH).is_some_and(|mut tags| tags.any(listed))
}

/// Returns true if `If-Match` allows a change of this version.
pub(crate) fn may_change(headers: &HeaderMap, current: &str) -> bool {
    let Some(mut tags) = tags(headers, &IF_MATCH) else {
        return true;
    };
    // Weak tags never match here.
    tags.any(|listed| listed == "*" || listed == current)
}

/// Returns true if the client makes its change depend on a version.
pub(crate) fn is_conditional(headers: &HeaderMap) -> bool {
    headers.contains_key(IF_MATCH)
}

/// Tags of a header; `None` without the header.
fn tags<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<impl Iterator<Item = &'h str>> {
    let values = headers.contains_key(name).then(|| headers.get_all(name))?;
    let texts = values.into_iter().filter_map(|value| value.to_str().ok());
    Some(texts.flat_map(|text| text.split(',').map(str::trim)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_match_is_strong_and_if_none_match_is_weak() {
        let tag = of(&Bytes::from_static(b"{}"));
        let table = [
            (None, false, true),
            (Some(tag.clone()), true, true),
            (Some(format!("\"other\", {tag}")), true, true),
            (Some(format!("W/{tag}")), true, false),
            (Some("*".to_owned()), true, true),
            (Some("\"other\"".to_owned()), false, false),
            (Some(String::new()), false, false),
        ];
        for (value, known, may) in table {
            let mut headers = HeaderMap::new();
            if let Some(value) = &value {
                headers.insert(IF_NONE_MATCH, value.parse().unwrap());
                headers.insert(IF_MATCH, value.parse().unwrap());
            }
            assert_eq!(is_known(&headers, &tag), known, "{value:?}");
            assert_eq!(may_change(&headers, &tag), may, "{value:?}");
        }
        assert_ne!(tag, of(&Bytes::from_static(b"[]")));
    }

    #[test]
    fn fields_that_change_by_themselves_do_not_change_the_tag() {
        let body = |runs: u32, name: &str| {
            let body = serde_json::json!({ "name": name, "runs": [runs], "of": { "runs": name } });
            Bytes::from(body.to_string())
        };
        let tag = without(&["runs"], &body(1, "a"));
        assert_eq!(without(&["runs"], &body(2, "a")), tag);
        assert_ne!(without(&["runs"], &body(1, "b")), tag);
        assert_ne!(without(&[], &body(2, "a")), without(&[], &body(1, "a")));
        assert_eq!(without(&[], &body(1, "a")), of(&body(1, "a")));
    }
}
