//! Requests that the gate refuses, and the headers that it passes on.

use super::*;
use crate::EngineOptions;
use http::Request;

const PEER: &str = "10.1.2.3";

/// Prepares a request with these headers.
fn prepared(peer: &str, path: &str, headers: &[(&str, &str)]) -> (Parts, Result<bool, Refusal>) {
    let mut request = Request::builder().uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (mut parts, ()) = request.body(()).unwrap().into_parts();
    let access = Access::new(&EngineOptions::for_tests());
    let result = prepare(&mut parts, peer.parse().unwrap(), &access);
    (parts, result)
}

#[test]
fn pages_of_other_sites_are_refused() {
    let table: [(&[(&str, &str)], bool); 14] = [
        (&[], false),
        (&[("host", "ch:8123")], false),
        (&[("sec-fetch-site", "cross-site")], true),
        (&[("sec-fetch-site", "Same-Site")], true),
        (&[("sec-fetch-site", "same-origin")], false),
        (&[("sec-fetch-site", "none")], false),
        (&[("host", "ch:8123"), ("origin", "http://ch:8123")], false),
        (&[("host", "CH"), ("origin", "https://ch:443")], false),
        (&[("host", "ch:80"), ("origin", "http://ch")], false),
        (&[("host", "ch:8123"), ("origin", "http://ch")], true),
        (
            &[("host", "ch"), ("origin", "http://ch.evil.example")],
            true,
        ),
        (&[("host", "ch"), ("origin", "null")], true),
        (&[("host", "ch"), ("origin", "file://ch")], true),
        (&[("origin", "http://ch")], true),
    ];
    for (headers, expected) in table {
        let (_, result) = prepared(PEER, "/", headers);
        let is_refused = result == Err(Refusal::OtherSite);
        assert_eq!(is_refused, expected, "{headers:?}");
    }
}

#[test]
fn the_engine_learns_the_address_of_the_client() {
    let forwarded = |value| [("x-forwarded-for", value)];
    let table = [
        (PEER, None, Some(PEER)),
        (PEER, Some("127.0.0.1"), Some(PEER)),
        ("127.0.0.1", None, Some("127.0.0.1")),
        ("127.0.0.1", Some("10.9.9.9"), Some("10.9.9.9")),
        (
            "127.0.0.1",
            Some("127.0.0.1, 10.9.9.9:80 "),
            Some("10.9.9.9"),
        ),
        ("::1", Some("[2001:db8::1]"), Some("2001:db8::1")),
        ("::1", Some("[2001:db8::1]:443"), Some("2001:db8::1")),
        ("::1", Some("2001:db8::1"), Some("2001:db8::1")),
        ("::1", Some("::ffff:10.9.9.9"), Some("10.9.9.9")),
        ("127.0.0.1", Some("unknown"), None),
        ("127.0.0.1", Some("10.9.9.9, "), None),
    ];
    for (peer, value, expected) in table {
        let headers = value.map(forwarded);
        let headers = headers.as_ref().map_or(&[][..], |headers| &headers[..]);
        let (parts, result) = prepared(peer, "/", headers);
        let all: Vec<_> = parts.headers.get_all(FORWARDED_FOR).iter().collect();
        match expected {
            Some(address) => assert_eq!(all, [address], "{peer} {value:?}"),
            None => assert_eq!(result, Err(Refusal::NoAddress), "{peer} {value:?}"),
        }
    }
}

#[test]
fn users_who_may_not_come_from_the_address_are_refused() {
    /// Headers, more of the query string, and true if the request is refused from elsewhere.
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, bool);
    let table: [Case<'_>; 7] = [
        (&[], "", false),
        (&[("x-clickhouse-user", "reader")], "", false),
        (&[("x-clickhouse-user", "millrace")], "", true),
        (&[("authorization", "Basic bWlsbHJhY2U6eA==")], "", true),
        (&[], "&user=millrace", true),
        (&[], "&us%65r=%6dillrace", true),
        (&[("x-clickhouse-user", "reader")], "&user=millrace", true),
    ];
    for (headers, more, expected) in table {
        let path = format!("/?query=a{more}");
        let refused = |peer, headers: &[(&str, &str)]| {
            prepared(peer, &path, headers).1 == Err(Refusal::Address)
        };
        let proxied = [headers, &[("x-forwarded-for", PEER)]].concat();
        assert_eq!(refused(PEER, headers), expected, "{headers:?} {more}");
        assert_eq!(refused("::1", &proxied), expected, "{headers:?} {more}");
        assert!(!refused("127.0.0.1", headers), "{headers:?} {more}");
    }
}

#[test]
fn only_the_user_of_a_project_has_no_sessions() {
    let session = "/?query=a&session_i%64=b";
    let table = [
        ("project", session, true),
        ("project", "/?query=session_id", false),
        ("project_query", session, false),
        ("reader", session, false),
        ("admin", session, false),
        ("", session, false),
    ];
    for (user, path, expected) in table {
        let (_, result) = prepared(PEER, path, &[("x-clickhouse-user", user)]);
        let is_refused = result == Err(Refusal::Session);
        assert_eq!(is_refused, expected, "{user} {path}");
    }
}

#[test]
fn answers_are_held_back_for_the_program_only() {
    let basic = |login: &str| {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;
        format!("Basic {}", STANDARD.encode(login))
    };
    let (own, reader) = (basic("millrace:x"), basic("reader:x"));
    /// Headers, more of the query string, and true if the parameter is kept.
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, bool);
    let table: [Case<'_>; 10] = [
        (&[("x-clickhouse-user", "millrace")], "", true),
        (&[("x-clickhouse-user", "project_query")], "", true),
        (&[("x-clickhouse-user", "reader")], "", false),
        (&[("authorization", &own)], "", true),
        (&[("authorization", &reader)], "", false),
        (&[("authorization", "Negotiate x")], "", false),
        (&[], "&user=millrace", true),
        (&[], "&us%65r=reader&user=millrace", false),
        (&[("authorization", &own)], "&user=reader", false),
        (&[], "", false),
    ];
    for (headers, more, expected) in table {
        for name in ["wait_end_of_query", "WAIT_END%5fof_query"] {
            let path = format!("/?query=SELECT%201&{name}=1{more}");
            let (parts, result) = prepared("127.0.0.1", &path, headers);
            assert_eq!(result, Ok(expected), "{headers:?} {more}");
            let query = parts.uri.query().unwrap();
            assert!(query.starts_with("query=SELECT%201"), "{query}");
            let is_kept = query.contains(&format!("&{name}=1"));
            assert_eq!(is_kept, expected, "{headers:?} {query}");
            assert!(query.ends_with(more), "{query}");
        }
    }
}

#[test]
fn everything_else_goes_on_as_it_came() {
    let table = [
        (
            "/?query=a%26b&param_x=%C3%A4",
            "/?query=a%26b&param_x=%C3%A4",
        ),
        ("http://ch:8123/ping", "/ping"),
        ("/?a&&b=", "/?a&&b="),
        ("*", "*"),
        ("/?send_progress_in_http_headers=1", "/?"),
        ("/?a=1&send_progress_in_http_headers=1&b=2", "/?a=1&b=2"),
    ];
    for (given, expected) in table {
        let headers = [
            ("connection", "keep-alive, upgrade"),
            ("upgrade", "h2c"),
            ("expect", "100-continue"),
            ("te", "trailers"),
            ("trailer", "x-sum"),
            ("content-encoding", "gzip"),
            ("transfer-encoding", "chunked"),
            ("x-clickhouse-format", "JSON"),
        ];
        let (parts, result) = prepared(PEER, given, &headers);
        assert_eq!(result, Ok(false));
        assert_eq!(parts.uri.to_string(), expected, "{given}");
        let mut kept: Vec<_> = parts.headers.keys().map(HeaderName::as_str).collect();
        kept.sort_unstable();
        let expected = [
            "content-encoding",
            "trailer",
            "transfer-encoding",
            "x-clickhouse-format",
            "x-forwarded-for",
        ];
        assert_eq!(kept, expected);
    }
    let mut request = Request::new(());
    *request.method_mut() = Method::CONNECT;
    let (mut parts, ()) = request.into_parts();
    let access = Access::new(&EngineOptions::for_tests());
    let refused = prepare(&mut parts, [127, 0, 0, 1].into(), &access);
    assert_eq!(refused, Err(Refusal::Connect));
}
