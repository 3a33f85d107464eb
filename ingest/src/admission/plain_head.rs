//! Heads that are plain enough for the early reject, read by the code that the router uses.
//!
//! The early reject sees a head as it lies in the kernel. Path, query and fields are read by
//! [`crate::request`], as behind hyper; what hyper itself makes of a head (its length, its
//! connection) is looked at here, and everything unusual is left to hyper.

use crate::request::head::RequestHead;
use crate::request::query::Query;
use crate::request::route::{Route, RouteKind};
use http::Version;
use httparse::{EMPTY_HEADER, Header, Request, Status};

/// Headers of a request that is looked at, at most; those of SDKs have some ten.
const HEADERS_MAX: usize = 32;
/// Bytes of the longest name of a header that anybody looks at.
const NAME_BYTES_MAX: usize = 32;
/// Bytes of the smallest body that is rejected early: below, looking costs more than reading.
const BODY_BYTES_MIN: usize = 16 << 10;

/// Head that is as plain as those of SDKs and importers.
pub struct PlainHead<'a> {
    pub route: Route,
    pub head_bytes: usize,
    pub body_bytes: usize,
    pub origin: Option<&'a [u8]>,
}

/// Fields of a head that hyper interprets, and handlers do not see.
#[derive(Default)]
struct HyperFields {
    content_length: Option<usize>,
    /// True if hyper would do anything but read a body of that length and go on.
    is_special: bool,
}

// === impl PlainHead ===

impl<'a> PlainHead<'a> {
    /// Reads a head; `None` for one that is not plain, that the router would refuse, or that is not
    /// there yet.
    pub fn read(beginning: &'a [u8], header_bytes_max: usize) -> Option<Self> {
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut request = Request::new(&mut headers);
        let Ok(Status::Complete(head_bytes)) = request.parse(beginning) else {
            return None;
        };
        if request.method != Some("POST") || request.version != Some(1) {
            return None;
        }
        let target = request.path?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let route = Route::of(path);
        let is_batch = route.kind() == RouteKind::Capture || route == Route::AiBatch;
        // Escapes are left to hyper: most queries have a version or a compression.
        if !is_batch || query.contains('%') || is_asking(&Query::of(Some(query))) {
            return None;
        }
        let (head, hyper) = read_fields(target, request.headers);
        let is_refused = head
            .check(Version::HTTP_11, false, header_bytes_max)
            .is_err();
        if is_refused || hyper.is_special {
            return None;
        }
        let body_bytes = hyper
            .content_length
            .filter(|bytes| *bytes >= BODY_BYTES_MIN)?;
        Some(Self {
            route,
            head_bytes,
            body_bytes,
            origin: head.origin,
        })
    }
}

/// Returns true if a query asks for anything but to store live events: another lane, or none.
const fn is_asking(query: &Query<'_>) -> bool {
    query.dry_run || query.historical_migration || query.unclear.is_some()
}

/// Reads the fields that handlers see, and those that hyper keeps to itself.
fn read_fields<'a>(target: &str, headers: &[Header<'a>]) -> (RequestHead<&'a [u8]>, HyperFields) {
    let mut head = RequestHead::new(target.len());
    let mut hyper = HyperFields::default();
    let mut lower_case = [0; NAME_BYTES_MAX];
    for header in headers {
        // hyper has names in lower case; a longer name is none that matters.
        let name = lower_case.get_mut(..header.name.len()).map(|name| {
            name.copy_from_slice(header.name.as_bytes());
            name.make_ascii_lowercase();
            &*name
        });
        let name = name.and_then(|name| std::str::from_utf8(name).ok());
        let name = name.unwrap_or(header.name);
        hyper.add(name, header.value);
        head.add(name, header.value);
    }
    (head, hyper)
}

// === impl HyperFields ===

impl HyperFields {
    fn add(&mut self, name: &str, value: &[u8]) {
        match name {
            "content-length" if self.content_length.is_none() => {
                self.content_length = number(value);
                self.is_special |= self.content_length.is_none();
            }
            "connection" => self.is_special |= !value.eq_ignore_ascii_case(b"keep-alive"),
            // A second length, too.
            "content-length" | "transfer-encoding" | "expect" | "upgrade" => {
                self.is_special = true;
            }
            _ => {}
        }
    }
}

fn number(value: &[u8]) -> Option<usize> {
    let digits = value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| digits)?;
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "Host: t\r\n";
    const LONG: &str = "Content-Length: 50000\r\n";

    fn read(head: &[u8]) -> Option<PlainHead<'_>> {
        PlainHead::read(head, 64 << 10)
    }

    /// Returns true if a head of this line and these fields is read, and checks what it is read as.
    fn is_plain(line: &str, fields: &[&str]) -> bool {
        let head = format!("{line} HTTP/1.1\r\n{}\r\n", fields.concat());
        let cut = head.as_bytes().split_last().unwrap().1;
        assert!(read(cut).is_none(), "{head:?}");
        let read = read(head.as_bytes()).map(|it| (it.head_bytes, it.body_bytes));
        assert!(
            read.is_none_or(|it| it == (head.len(), 50_000)),
            "{head:?}: {read:?}"
        );
        read.is_some()
    }

    #[test]
    fn only_heads_with_plain_fields_are_read() {
        let table: [(&[&str], bool); 15] = [
            (&[HOST, LONG], true),
            (&[HOST, LONG, "Origin: x\r\n"], true),
            (&[HOST, LONG, "Connection: Keep-Alive\r\n"], true),
            (&[HOST, LONG, "Connection: close\r\n"], false),
            (&[HOST, LONG, "Expect: 100-continue\r\n"], false),
            (&[HOST, LONG, "Transfer-Encoding: chunked\r\n"], false),
            (&[HOST, LONG, LONG], false),
            (&["HOST: t\r\n", "CONTENT-LENGTH: 50000\r\n"], true),
            (&["HOST: t\r\n", LONG, "EXPECT: 100-continue\r\n"], false),
            (
                &[HOST, LONG, "X-A-Name-Of-More-Than-Thirty-Two-Bytes: 1\r\n"],
                true,
            ),
            (&[HOST, HOST, LONG], false),
            (&[LONG], false),
            (&[HOST], false),
            (&[HOST, "Content-Length: +50000\r\n"], false),
            (&[HOST, "Content-Length: 5\r\n"], false),
        ];
        for (fields, expected) in table {
            assert_eq!(is_plain("POST /batch/", fields), expected, "{fields:?}");
        }
    }

    #[test]
    fn only_plain_requests_with_events_are_read() {
        let table = [
            ("POST /batch/", true),
            ("POST /e/?ver=1&compression=gzip-js", true),
            ("POST /i/v0/ai/batch/", true),
            ("POST /batch/?dry_run=true", false),
            ("POST /batch/?dry_run=false", true),
            ("POST /batch/?dry_run", false),
            ("POST /batch/?strict=perhaps", false),
            ("POST /batch/?historical_migration=true", false),
            ("POST /batch/?dry%5Frun=true", false),
            ("POST /flags/", false),
            ("POST /i/v1/analytics/events", false),
            ("GET /batch/", false),
        ];
        for (line, expected) in table {
            assert_eq!(is_plain(line, &[HOST, LONG]), expected, "{line}");
        }
    }
}
