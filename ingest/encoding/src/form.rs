//! `application/x-www-form-urlencoded` bodies: the JSON is in the field `data`.

use crate::Encoding;
use percent_encoding::percent_decode;
use std::borrow::Cow;

/// Fields of a form that are used.
#[derive(Debug, PartialEq, Eq)]
pub struct Form<'a> {
    /// Payload of the form.
    pub data: Cow<'a, [u8]>,
    /// Encoding of the payload.
    pub compression: Option<Cow<'a, [u8]>>,
}

/// Unescapes a form's value: `+` is a space, `%xx` a byte.
#[must_use]
pub fn unescaped(value: &str) -> Cow<'_, [u8]> {
    if !value.contains('+') {
        return percent_decode(value.as_bytes()).into();
    }
    let spaced = value.replace('+', " ");
    Cow::Owned(percent_decode(spaced.as_bytes()).collect())
}

/// Returns true if a body with a form's content type is one: `curl -d '{…}'` says form and sends
/// JSON.
pub fn is_form(body: &[u8]) -> bool {
    !matches!(body.trim_ascii_start(), [b'{' | b'[', ..])
}

/// Reads a form; `None` when it has no field `data`.
pub fn read(body: &[u8]) -> Option<Form<'_>> {
    let text = std::str::from_utf8(body).ok()?;
    let mut data = None;
    let mut compression = None;
    for pair in text.trim().split('&') {
        match pair.split_once('=') {
            Some(("data", value)) => data = Some(unescaped(value)),
            Some(("compression", value)) => compression = Some(unescaped(value)),
            _ => {}
        }
    }
    Some(Form {
        data: data?,
        compression,
    })
}

/// Encoding of a form's or a query's `data`. It is JSON when it looks like JSON; LZString when it
/// says so; else base64, whose content may be compressed once more (and then shows it by its first
/// bytes).
pub fn encoding_of_data(data: &[u8], hint: Encoding) -> Encoding {
    match hint {
        _ if !is_form(data) => Encoding::Identity,
        Encoding::Lz64 => Encoding::Lz64,
        _ => Encoding::Base64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_is_found_and_unescaped() {
        let form = read(b"x=1&data=eyJ%2BfQ%3D%3D+x&compression=lz64").unwrap();
        assert_eq!(form.data.as_ref(), b"eyJ+fQ== x");
        assert_eq!(form.compression.as_deref(), Some(&b"lz64"[..]));
        assert_eq!(read(b"x=1"), None);
        assert_eq!(read(b"\xff"), None);
    }

    #[test]
    fn json_in_a_form_is_json() {
        assert!(!is_form(b" \n{\"event\":1}"));
        assert!(!is_form(b"[]"));
        assert!(is_form(b"data=e30="));
        let table: [(&[u8], Encoding, Encoding); 4] = [
            (b"{}", Encoding::Base64, Encoding::Identity),
            (b"e30=", Encoding::Identity, Encoding::Base64),
            (b"N4Ig", Encoding::Lz64, Encoding::Lz64),
            (b"H4sI", Encoding::Gzip, Encoding::Base64),
        ];
        for (data, hint, encoding) in table {
            assert_eq!(encoding_of_data(data, hint), encoding, "{data:?}");
        }
    }
}
