//! Versions of single resources: strong tags over the bytes of their representation.
//!
//! `If-Match` is checked against what a `GET` of the same thing answers, under a lock that every
//! change of that thing takes in this process, until the change is made. So of two changes with
//! the same tag that arrive here, one wins and the other gets 412. Another process on the same
//! catalog can still change the resource between the check and the change's own transaction: a
//! few milliseconds, in which the last one wins as it does without `If-Match`.

use bytes::Bytes;
use http::HeaderMap;
use http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use sha2::{Digest, Sha256};

/// The strong tag of a representation, quotes included.
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

/// Whether the client has this version already. Weak tags compare as strong ones here.
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let listed = |listed: &str| listed == "*" || listed.trim_start_matches("W/") == tag;
    tags(headers, &IF_NONE_MATCH).is_some_and(|mut tags| tags.any(listed))
}

/// Whether a change of this version may go on.
pub(crate) fn may_change(headers: &HeaderMap, current: &str) -> bool {
    let Some(mut tags) = tags(headers, &IF_MATCH) else {
        return true;
    };
    // Weak tags never match here.
    tags.any(|listed| listed == "*" || listed == current)
}

/// Whether the client makes its change depend on a version.
pub(crate) fn is_conditional(headers: &HeaderMap) -> bool {
    headers.contains_key(IF_MATCH)
}

/// The tags of a header; `None` without the header.
fn tags<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<impl Iterator<Item = &'h str>> {
    let values = headers.contains_key(name).then(|| headers.get_all(name))?;
    let texts = values.into_iter().filter_map(|value| value.to_str().ok());
    Some(texts.flat_map(|text| text.split(',').map(str::trim)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_as_the_headers_say() {
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
}
