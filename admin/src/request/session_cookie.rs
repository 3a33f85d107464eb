//! Cookie of a session, and protection against requests that pages of other sites make a browser
//! send with it (CSRF).
//!
//! Under TLS the name has the prefix `__Host-`, so no other host can set the cookie, and it is
//! never sent in the clear. Without TLS there is a cookie at loopback addresses only, by another name, as
//! browsers refuse the prefix there.
//!
//! Whatever a session asks for but to read must carry [`CSRF_HEADER`], which a page of another site
//! cannot send, and the `Origin` of the API's own address.

use crate::context::Request;
use crate::error::ApiError;
use http::header::{COOKIE, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use millrace_organizations::SESSION_LIFETIME;
use url::{Host, Url};

/// Header of requests that change something; any value will do. Browsers ask before they send it
/// to another site, and get no permission.
pub(crate) const CSRF_HEADER: HeaderName = HeaderName::from_static("x-millrace-csrf");

const NAME: &str = "__Host-millrace";
const LOOPBACK_NAME: &str = "millrace";

/// Cookie at an address of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionCookie {
    /// Under TLS.
    Secure,
    /// Without TLS, at a loopback address.
    Loopback,
}

impl SessionCookie {
    /// Cookie at the address by which the client reaches the API; `None` if it would be sent over a
    /// network in the clear.
    pub(crate) fn at(base_url: &str) -> Option<Self> {
        let url = Url::parse(base_url).ok()?;
        if url.scheme() == "https" {
            return Some(Self::Secure);
        }
        let is_loopback = match url.host()? {
            Host::Domain(name) => name == "localhost" || name.ends_with(".localhost"),
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.is_loopback(),
        };
        is_loopback.then_some(Self::Loopback)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Secure => NAME,
            Self::Loopback => LOOPBACK_NAME,
        }
    }

    /// Header that sets the cookie.
    ///
    /// # Errors
    ///
    /// 500 for a token that no header can hold, which none is.
    pub(crate) fn set(self, token: &str) -> Result<HeaderValue, ApiError> {
        self.header(token, SESSION_LIFETIME.as_secs())
    }

    /// Header that removes the cookie.
    ///
    /// # Errors
    ///
    /// As [`SessionCookie::set`].
    pub(crate) fn remove(self) -> Result<HeaderValue, ApiError> {
        self.header("", 0)
    }

    fn header(self, token: &str, seconds: u64) -> Result<HeaderValue, ApiError> {
        let secure = match self {
            Self::Secure => "; Secure",
            Self::Loopback => "",
        };
        let name = self.name();
        let text =
            format!("{name}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
        HeaderValue::from_str(&text).map_err(|_| ApiError::internal())
    }
}

/// Token of the request's cookie; `None` without one.
pub(crate) fn token(request: &Request) -> Option<&str> {
    let cookie = SessionCookie::at(&request.base_url)?;
    value_of(&request.headers, cookie.name())
}

fn value_of<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let texts = headers.get_all(COOKIE).into_iter();
    let mut pairs = texts
        .filter_map(|text| text.to_str().ok())
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let found = pairs.find(|(had, _)| *had == name);
    found.map(|(_, value)| value).filter(|it| !it.is_empty())
}

/// Refuses a request of a session that a page of another site could have made the browser send.
///
/// # Errors
///
/// 403 `csrf_failed`.
pub(crate) fn must_come_from_own_page(method: &Method, request: &Request) -> Result<(), ApiError> {
    let headers = &request.headers;
    if *method == Method::GET || headers.contains_key(CSRF_HEADER) && has_own_origin(request) {
        return Ok(());
    }
    Err(ApiError::csrf_failed())
}

fn has_own_origin(request: &Request) -> bool {
    let origin = request.headers.get(ORIGIN);
    let origin = origin.and_then(|origin| Url::parse(origin.to_str().ok()?).ok());
    let own = Url::parse(&request.base_url).ok();
    // Origins that are none, as `null` and files, equal nothing.
    match (origin, own) {
        (Some(origin), Some(own)) => origin.origin() == own.origin(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn request(base_url: &str, headers: &[(HeaderName, &str)]) -> Request {
        let mut sent = HeaderMap::new();
        for (name, value) in headers {
            sent.append(name, value.parse().unwrap());
        }
        Request {
            uri: http::Uri::from_static("/api/"),
            headers: sent,
            parameters: BTreeMap::new(),
            base_url: base_url.to_owned(),
            address: [127, 0, 0, 1].into(),
        }
    }

    #[test]
    fn there_is_a_cookie_under_tls_and_at_loopback_addresses_only() {
        let secure = Some(SessionCookie::Secure);
        let loopback = Some(SessionCookie::Loopback);
        let table = [
            ("https://millrace.example/admin", secure),
            ("https://localhost:8010", secure),
            ("http://localhost:8010", loopback),
            ("http://console.localhost", loopback),
            ("http://127.0.0.1:8010", loopback),
            ("http://[::1]:8010", loopback),
            ("http://millrace.example", None),
            ("http://localhost.example", None),
            ("http://10.0.0.1:8010", None),
            ("http://0.0.0.0:8010", None),
            ("no address", None),
        ];
        for (base_url, cookie) in table {
            assert_eq!(SessionCookie::at(base_url), cookie, "{base_url}");
        }
    }

    #[test]
    fn cookies_are_not_for_scripts_and_secure_under_tls() {
        let table = [
            (
                SessionCookie::Secure,
                "__Host-millrace=t; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax; Secure",
            ),
            (
                SessionCookie::Loopback,
                "millrace=t; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax",
            ),
        ];
        for (cookie, expected) in table {
            assert_eq!(cookie.set("t").unwrap(), expected);
            let removal = cookie.remove().unwrap();
            assert!(removal.to_str().unwrap().contains("=; Path=/; Max-Age=0;"));
        }
    }

    #[test]
    fn the_token_is_that_of_the_cookie_for_the_address() {
        let table = [
            ("https://a.example", "__Host-millrace=t", Some("t")),
            ("https://a.example", "a=b; __Host-millrace=t; c", Some("t")),
            ("https://a.example", "millrace=t", None),
            ("https://a.example", "__Host-millrace=", None),
            ("http://localhost", "millrace=t", Some("t")),
            ("http://localhost", "__Host-millrace=t", None),
            ("http://a.example", "millrace=t; __Host-millrace=t", None),
        ];
        for (base_url, cookie, expected) in table {
            let request = request(base_url, &[(COOKIE, cookie)]);
            assert_eq!(token(&request), expected, "{base_url} {cookie}");
        }
    }

    #[test]
    fn changes_must_carry_the_header_and_the_origin_of_the_api() {
        let base_url = "https://a.example/admin";
        let table = [
            (Method::GET, None, false, true),
            (Method::POST, Some("https://a.example"), true, true),
            (Method::POST, Some("https://a.example:443"), true, true),
            (Method::POST, Some("https://a.example"), false, false),
            (Method::POST, None, true, false),
            (Method::DELETE, Some("null"), true, false),
            (Method::PATCH, Some("http://a.example"), true, false),
            (Method::PUT, Some("https://a.example:8443"), true, false),
            (Method::POST, Some("https://b.a.example"), true, false),
            (Method::OPTIONS, Some("https://b.example"), true, false),
        ];
        for (method, origin, has_header, passes) in table {
            let mut headers: Vec<_> = origin.map(|it| (ORIGIN, it)).into_iter().collect();
            headers.extend(has_header.then_some((CSRF_HEADER, "1")));
            let request = request(base_url, &headers);
            let outcome = must_come_from_own_page(&method, &request);
            assert_eq!(outcome.is_ok(), passes, "{method} {origin:?} {has_header}");
        }
    }
}
