//! Requests whose query and parameters are the fields of a `multipart/form-data` body, as the
//! `clickhouse` crate sends server-side parameters. Files, which a server takes for external
//! tables, are refused.

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use memchr::memmem;

use crate::exception::Exception;

/// Longest form body, bytes: the query and its parameters.
pub(crate) const FORM_BYTES_MAX: usize = 16 << 20;

/// Boundary of the form; `None` if the body is none.
pub(crate) fn boundary(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let (kind, attributes) = text.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    attributes.split(';').find_map(|attribute| {
        let (name, value) = attribute.trim().split_once('=')?;
        name.eq_ignore_ascii_case("boundary")
            .then(|| value.trim_matches('"').to_owned())
    })
}

/// Parses the fields, in their order.
pub(crate) fn fields(body: &[u8], boundary: &str) -> Result<Vec<(String, String)>, Exception> {
    let opening = format!("--{boundary}");
    let between = format!("\r\n--{boundary}");
    let mut rest = body
        .strip_prefix(opening.as_bytes())
        .ok_or_else(malformed)?;
    let mut fields = Vec::new();
    while let Some(part) = rest.strip_prefix(b"\r\n") {
        let end = memmem::find(part, between.as_bytes()).ok_or_else(malformed)?;
        let (field, next) = part.split_at_checked(end).ok_or_else(malformed)?;
        fields.push(read_field(field)?);
        rest = next.get(between.len()..).ok_or_else(malformed)?;
    }
    // The closing boundary has two hyphens more; without it the body was cut.
    if rest.starts_with(b"--") {
        Ok(fields)
    } else {
        Err(malformed())
    }
}

fn read_field(field: &[u8]) -> Result<(String, String), Exception> {
    let end = memmem::find(field, b"\r\n\r\n").ok_or_else(malformed)?;
    let (head, value) = field.split_at_checked(end).ok_or_else(malformed)?;
    let head = String::from_utf8_lossy(head);
    if head.contains("filename=") {
        return Err(Exception::new(
            48,
            "External tables are not supported here",
            "NOT_IMPLEMENTED",
        ));
    }
    let name = head
        .split_once("name=\"")
        .and_then(|(_, rest)| rest.split_once('"'))
        .ok_or_else(malformed)?
        .0;
    let value =
        String::from_utf8(value.get(4..).unwrap_or_default().to_vec()).map_err(|_| malformed())?;
    Ok((name.to_owned(), value))
}

fn malformed() -> Exception {
    Exception::new(
        36,
        "The multipart/form-data body is malformed or cut",
        "BAD_ARGUMENTS",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "--b\r\nContent-Disposition: form-data; name=\"query\"\r\n\r\nSELECT {x:String}\r\n--b\r\n\
                        Content-Disposition: form-data; name=\"param_x\"\r\n\r\na\r\nb\r\n--b--\r\n";

    #[test]
    fn fields_are_read_and_every_cut_is_an_error() {
        let expected = [("query", "SELECT {x:String}"), ("param_x", "a\r\nb")];
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()))
            .collect();
        assert_eq!(fields(BODY.as_bytes(), "b"), Ok(expected));
        for cut in 0..BODY.len() - 2 {
            assert!(
                fields(&BODY.as_bytes()[..cut], "b").is_err(),
                "cut at {cut}"
            );
        }
    }
}
