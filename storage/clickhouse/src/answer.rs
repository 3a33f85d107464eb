//! Text of an answer that is no success.
//!
//! Gateways answer with pages of their own, whose numbers look like exceptions: `Error Code: 413`,
//! `error code: 1020`. An exception's code counts only where ClickHouse writes it: in its header,
//! at the beginning of a body, or behind the rows of an answer that began with 200. Anything else
//! is told by its status, so that a page never says that rows are bad.

use crate::error::code_in;
use crate::tail::exception_at_end;
use hyper::StatusCode;

/// Beginnings of the names of exceptions. A body without ClickHouse's header has one.
const EXCEPTION_CLASSES: [&str; 3] = ["DB::", "Poco::", "std::"];

/// Describes an answer that is no success: it begins with `Code: N` if ClickHouse threw the
/// exception N, otherwise with the status. `code` is the value of ClickHouse's header.
pub(crate) fn failure_text(status: StatusCode, code: Option<&str>, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let message = text.trim();
    if let Some(code) = code.and_then(|code| code.trim().parse::<u32>().ok()) {
        return match code_in(message) == Some(code) {
            true => message.to_owned(),
            false => format!("Code: {code}. {message}"),
        };
    }
    if is_exception(message) {
        return message.to_owned();
    }
    if status == StatusCode::OK
        && let Some(exception) = exception_at_end(&text)
    {
        return exception;
    }
    match message.is_empty() {
        true => status.to_string(),
        false => format!("{status}: {message}"),
    }
}

/// Returns true if a body is an exception of ClickHouse's, whose headers a gateway dropped.
fn is_exception(message: &str) -> bool {
    let mut classes = EXCEPTION_CLASSES.iter();
    code_in(message).is_some() && classes.any(|class| message.contains(*class))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InsertOutcome::{BadData, Misconfigured, NotStored, TooLarge, Unknown};
    use crate::{InsertError, InsertOutcome};
    use clickhouse::error::Error;

    /// Status, value of the header, body; code and outcome.
    type Case<'a> = (u16, Option<&'a str>, &'a str, Option<u32>, InsertOutcome);

    fn error(status: u16, code: Option<&str>, body: &str) -> InsertError {
        let status = StatusCode::from_u16(status).unwrap();
        let text = failure_text(status, code, body.as_bytes());
        InsertError::from(Error::BadResponse(text))
    }

    #[test]
    fn exceptions_keep_their_codes_wherever_clickhouse_writes_them() {
        let memory = "Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED) \
                      (version 26.7.3.1 (official build))\n";
        let marked = "\r\n__exception__\r\nrnywyenlaeqynhmu\r\n\
                      Code: 33. DB::Exception: Cannot read all data. (CANNOT_READ_ALL_DATA)\n\
                      70 rnywyenlaeqynhmu\r\n__exception__\r\n";
        let behind = format!("1\t2\n{memory}");
        let unread = "Code: 33. DB::Exception: Cannot read all data";
        let before =
            "Code: 60, e.displayText() = DB::Exception: Table does not exist (version 20.3)";
        let net = "Code: 210. DB::NetException: I/O error: Broken pipe. (NETWORK_ERROR)";
        let poco = "Poco::Exception. Code: 1000, e.code() = 111, Connection refused";
        let bare = "std::exception. Code: 1001, type: std::bad_alloc, e.what() = std::bad_alloc";
        let many = "Code: 252. DB::Exception: Too many parts (3000)";
        let page = "<html><title>Error Code: 413</title></html>";
        let table: [Case<'_>; 16] = [
            (500, Some("241"), memory, Some(241), Unknown),
            (500, Some(" 33 "), unread, Some(33), BadData),
            // The connection broke before the body.
            (500, Some("33"), "", Some(33), BadData),
            (500, Some("33"), "Code: 3", Some(33), BadData),
            // The gateway replaced the body, or dropped the headers.
            (502, Some("33"), page, Some(33), BadData),
            (500, None, unread, Some(33), BadData),
            (500, Some("no number"), unread, Some(33), BadData),
            (500, None, many, Some(252), NotStored),
            (404, None, before, Some(60), Misconfigured),
            (500, None, net, Some(210), Unknown),
            (500, None, poco, Some(1000), Unknown),
            (500, None, bare, Some(1001), Unknown),
            // The status was sent before the statement failed.
            (200, Some("241"), "", Some(241), Unknown),
            (200, None, memory, Some(241), Unknown),
            (200, None, behind.as_str(), Some(241), Unknown),
            (200, None, marked, Some(33), BadData),
        ];
        for (status, code, body, expected, outcome) in table {
            let error = error(status, code, body);
            assert_eq!(error.code, expected, "{status} {code:?} {body}: {error}");
            assert_eq!(error.outcome, outcome, "{status} {code:?} {body}: {error}");
        }
    }

    #[test]
    fn pages_of_gateways_are_told_by_their_status_whatever_they_say() {
        let table = [
            (413, "", TooLarge),
            (413, "Payload Too Large", TooLarge),
            (413, "Code: 413", TooLarge),
            (413, "Code: 413. Ask https://example.com/413", TooLarge),
            (
                413,
                "<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n\
                 <body>\r\n<center><h1>413 Request Entity Too Large</h1></center>\r\n\
                 <hr><center>nginx/1.27.4</center>\r\n</body>\r\n</html>",
                TooLarge,
            ),
            (
                413,
                "<html><body><h1>413 Payload Too Large</h1>\nThe request entity exceeds the \
                 maximum allowed.\n</body></html>",
                TooLarge,
            ),
            (
                413,
                "<!DOCTYPE html><title>413 Payload Too Large</title><h1>Error Code: 413</h1>\
                 <span>cloudflare</span>",
                TooLarge,
            ),
            (403, "error code: 1020", Unknown),
            (429, "error code: 1015", Unknown),
            (502, "error code: 502", Unknown),
            (502, "413 of 500 servers are down", Unknown),
            (502, "<title>502 Bad Gateway</title>Error Code: 33", Unknown),
            (
                502,
                "<pre>Code: 33. DB::Exception: Cannot read all data</pre>",
                Unknown,
            ),
            (
                503,
                "<html><body><h1>503 Service Unavailable</h1>\nNo server is available to handle \
                 this request.\n</body></html>",
                Unknown,
            ),
            (
                503,
                "upstream connect error or disconnect/reset before headers. reset reason: \
                 connection termination",
                Unknown,
            ),
            (504, "upstream request timeout", Unknown),
            (
                520,
                "<title>Web server is returning an unknown error</title>",
                Unknown,
            ),
            (200, "<h1>Maintenance</h1>Error Code: 117", Unknown),
        ];
        for (status, page, outcome) in table {
            let error = error(status, None, page);
            assert_eq!(error.code, None, "{status} {page}");
            assert_eq!(error.outcome, outcome, "{status} {page}");
            assert!(error.message.contains(&status.to_string()), "{error}");
        }
    }

    #[test]
    fn every_status_of_a_page_leaves_the_rows_unknown_but_that_of_a_large_request() {
        for status in 200..600 {
            for code in [6, 33, 117, 252, 413, 469] {
                let page = format!("<html>Error Code: {code}. DB::Exception</html>");
                let error = error(status, None, &page);
                let is_large = status == 413;
                let outcome = if is_large { TooLarge } else { Unknown };
                assert_eq!((error.code, error.outcome), (None, outcome), "{status}");
                assert_eq!(error.may_be_of_the_rows(), is_large, "{status}");
            }
        }
    }

    #[test]
    fn every_code_means_the_same_in_the_header_as_in_the_body() {
        for code in 1..1_100 {
            let value = code.to_string();
            let body = format!("Code: {code}. DB::Exception: no");
            let of_header = error(500, Some(&value), "");
            let of_body = error(500, None, &body);
            let of_both = error(413, Some(&value), &body);
            assert_eq!(of_header.code, Some(code));
            assert_eq!((of_body.code, of_both.code), (Some(code), Some(code)));
            assert_eq!(of_header.outcome, of_body.outcome, "{code}");
            assert_eq!(of_both.outcome, of_body.outcome, "{code}");
        }
    }
}
