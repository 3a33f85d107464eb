//! Heads of requests: which the gate refuses, and how the others go on to the engine.
//!
//! | Of a request | Becomes |
//! |---|---|
//! | a page of another site asks (`Sec-Fetch-Site`, or `Origin` is not `Host`) | refused with 403 |
//! | a user asks who may not come from there | refused with 403, as a failed login |
//! | `X-Forwarded-For` | the address of the client, by which the engine knows it |
//! | no user, or that of the engine's own session | refused with 403, as the engine has refused it |
//! | the user of a project asks in a session (`session_id`) | refused with 400: it has none |
//! | some [`parameters`](super::parameters) of its address | left out |
//! | headers for one connection, `Expect` | left out: the gate answers them itself |
//!
//! Everything else is the engine's: paths, methods, `X-ClickHouse-…`, bodies and their encodings.

use std::net::{IpAddr, SocketAddr};

use http::header::{AUTHORIZATION, CONNECTION, EXPECT, HOST, HeaderName, ORIGIN, TE, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};

use super::access::{Access, is_loopback};
use super::parameters::{rewritten, values_of};
use crate::login::basic_login;
use crate::names::PROJECT;

/// Header by which proxies, and the gate, name the client.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Header by which browsers name the relation of the page that asks.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Header with the name of a user.
const USER: HeaderName = HeaderName::from_static("x-clickhouse-user");
/// Parameter with the name of a user.
const USER_PARAMETER: &str = "user";
/// Parameter with the name of a session.
const SESSION_PARAMETER: &str = "session_id";

/// Headers for one connection, beside those that frame a body.
const OF_CONNECTION: [HeaderName; 6] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    UPGRADE,
    EXPECT,
];

/// Reason that the gate answers a request itself.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub(super) enum Refusal {
    /// A page of another site asks.
    OtherSite,
    /// The user may not come from the address.
    Address,
    /// A request that needs a user names none, or that of the engine's own session.
    NoUser,
    /// The user of a project asks in a session, which does not get the token of its login.
    Session,
    /// The proxy does not say for whom it asks.
    NoAddress,
    /// Connections to elsewhere are not to be had here.
    Connect,
}

// === impl Refusal ===

impl Refusal {
    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::OtherSite | Self::Address | Self::NoUser => StatusCode::FORBIDDEN,
            Self::NoAddress | Self::Session => StatusCode::BAD_REQUEST,
            Self::Connect => StatusCode::METHOD_NOT_ALLOWED,
        }
    }

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::OtherSite => "refused: a page of another site asked\n",
            Self::Address => {
                "Code: 516. DB::Exception: this user may not come from this address: \
                 see clickhouse_networks. (AUTHENTICATION_FAILED)\n"
            }
            Self::NoUser => {
                "Code: 516. DB::Exception: name a user and its password: \
                 default is the engine's own. (AUTHENTICATION_FAILED)\n"
            }
            Self::Session => {
                "Code: 36. DB::Exception: the user of a project has no sessions: \
                 send no session_id. (BAD_ARGUMENTS)\n"
            }
            Self::NoAddress => "refused: X-Forwarded-For ends with no address\n",
            Self::Connect => "refused: this is no proxy\n",
        }
    }

    /// Code of the exception that the engine would answer with.
    pub(super) const fn code(self) -> Option<&'static str> {
        match self {
            // AUTHENTICATION_FAILED
            Self::Address | Self::NoUser => Some("516"),
            // BAD_ARGUMENTS
            Self::Session => Some("36"),
            Self::OtherSite | Self::NoAddress | Self::Connect => None,
        }
    }
}

/// Prepares a request of a peer for the engine. Returns true if its user is one whom only the
/// program logs in as, given that the engine accepts the password.
pub(super) fn prepare(parts: &mut Parts, peer: IpAddr, access: &Access) -> Result<bool, Refusal> {
    if parts.method == Method::CONNECT {
        return Err(Refusal::Connect);
    }
    if is_of_other_site(&parts.headers) {
        return Err(Refusal::OtherSite);
    }
    let client = client_address(peer, &parts.headers).ok_or(Refusal::NoAddress)?;
    let names = user_names(parts);
    if !names.iter().all(|name| access.permits(name, client)) {
        return Err(Refusal::Address);
    }
    let in_session = || values_of(&parts.uri, SESSION_PARAMETER).next().is_some();
    if names.iter().any(|name| name == PROJECT) && in_session() {
        return Err(Refusal::Session);
    }
    let is_of_program = !names.is_empty() && names.iter().all(|name| access.is_of_program(name));
    if let Some(uri) = rewritten(&parts.uri, is_of_program) {
        parts.uri = uri;
    }
    for name in OF_CONNECTION {
        parts.headers.remove(name);
    }
    let client = HeaderValue::try_from(client.to_string()).map_err(|_| Refusal::NoAddress)?;
    parts.headers.insert(FORWARDED_FOR, client);
    parts.version = Version::HTTP_11;
    Ok(is_of_program)
}

/// Prepares the head of an answer for the client.
pub(super) fn prepare_answer(headers: &mut HeaderMap) {
    for name in OF_CONNECTION {
        headers.remove(name);
    }
}

/// Returns true for what a browser sends for a page of another site. Programs send neither header.
fn is_of_other_site(headers: &HeaderMap) -> bool {
    let is_other = |site: &HeaderValue| {
        let others: [&[u8]; 2] = [b"cross-site", b"same-site"];
        others
            .iter()
            .any(|other| site.as_bytes().eq_ignore_ascii_case(other))
    };
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let is_own = |origin: &HeaderValue| {
        let origin = origin.to_str().ok();
        origin
            .zip(host)
            .is_some_and(|(origin, host)| is_origin_of(origin, host))
    };
    headers.get_all(FETCH_SITE).iter().any(is_other) || !headers.get_all(ORIGIN).iter().all(is_own)
}

/// Returns true if pages of this origin are those of the host, whose port may be left out.
fn is_origin_of(origin: &str, host: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else {
        return false;
    };
    let port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return false,
    };
    let without = |text: &str| text.strip_suffix(port).unwrap_or(text).to_ascii_lowercase();
    without(authority) == without(host)
}

/// Address of the client. A proxy on this machine names it, last in the list; nobody else is asked,
/// and whoever is on this machine could only lose by another address.
fn client_address(peer: IpAddr, headers: &HeaderMap) -> Option<IpAddr> {
    let named = match is_loopback(peer) {
        true => headers.get_all(FORWARDED_FOR).iter().next_back(),
        false => None,
    };
    let Some(named) = named else {
        return Some(peer);
    };
    let last = named.to_str().ok()?.rsplit(',').next()?.trim();
    let with_port = || last.parse().ok().map(|address: SocketAddr| address.ip());
    let alone = || last.trim_matches(['[', ']']).parse().ok();
    with_port()
        .or_else(alone)
        .map(|address| address.to_canonical())
}

/// Names that a request logs in by: the engine decides which of several counts.
fn user_names(parts: &Parts) -> Vec<String> {
    let lossy = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let named = parts.headers.get_all(USER).iter().map(lossy);
    let authorized = parts.headers.get_all(AUTHORIZATION).iter();
    // Another scheme has no name that is known here.
    let authorized = authorized.map(|value| basic_login(value).unwrap_or_default().0);
    let parameters = values_of(&parts.uri, USER_PARAMETER);
    named.chain(authorized).chain(parameters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineOptions;
    use http::Request;

    const PEER: &str = "10.1.2.3";

    /// Prepares a request with these headers.
    fn prepared(
        peer: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> (Parts, Result<bool, Refusal>) {
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
}
