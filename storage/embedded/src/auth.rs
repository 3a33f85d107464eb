//! Authentication: the one user and password, from headers, Basic authorization or the URL, in
//! ClickHouse's order.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use subtle::ConstantTimeEq as _;

use crate::exception::Exception;

/// Name and password as a client gave them.
#[derive(Default)]
pub(crate) struct Credentials {
    user: String,
    password: String,
}

/// Reason a client is not authenticated.
pub(crate) enum Denied {
    /// The request has no credentials; the response asks for them.
    Missing(Exception),
    /// Wrong name or password.
    Wrong(Exception),
}

impl Credentials {
    pub(crate) fn new(user: &str, password: &str) -> Self {
        Self {
            user: user.to_owned(),
            password: password.to_owned(),
        }
    }

    /// Compares in constant time.
    fn is_equal(&self, other: &Self) -> bool {
        let user = self.user.as_bytes().ct_eq(other.user.as_bytes());
        let password = self.password.as_bytes().ct_eq(other.password.as_bytes());
        (user & password).into()
    }
}

/// Authenticates a request. `user` and `password` are those of the URL.
pub(crate) fn check(
    expected: &Credentials,
    headers: &HeaderMap,
    user: Option<&str>,
    password: Option<&str>,
) -> Result<(), Denied> {
    let Some(given) = from_headers(headers).or_else(|| from_url(user, password)) else {
        return Err(Denied::Missing(failed("default")));
    };
    if given.is_equal(expected) {
        Ok(())
    } else {
        Err(Denied::Wrong(failed(&given.user)))
    }
}

fn failed(user: &str) -> Exception {
    let message = format!(
        "{user}: Authentication failed: password is incorrect, or there is no user with such name"
    );
    Exception::new(516, &message, "AUTHENTICATION_FAILED")
}

fn from_headers(headers: &HeaderMap) -> Option<Credentials> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let (user, key) = (text("x-clickhouse-user"), text("x-clickhouse-key"));
    if user.is_some() || key.is_some() {
        return Some(Credentials::new(
            user.unwrap_or("default"),
            key.unwrap_or_default(),
        ));
    }
    let basic = text(AUTHORIZATION.as_str())?;
    let (scheme, encoded) = basic.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (user, password) = decoded.split_once(':')?;
    Some(Credentials::new(user, password))
}

fn from_url(user: Option<&str>, password: Option<&str>) -> Option<Credentials> {
    (user.is_some() || password.is_some())
        .then(|| Credentials::new(user.unwrap_or("default"), password.unwrap_or_default()))
}
