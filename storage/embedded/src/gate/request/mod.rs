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
mod tests;
