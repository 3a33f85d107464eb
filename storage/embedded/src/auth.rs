//! Authentication: the one user and password, from headers, Basic authorization or the URL, in
//! ClickHouse's order.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use subtle::{Choice, ConstantTimeEq};

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

    fn is_equal(&self, other: &Self) -> bool {
        are_equal([
            (self.user.as_bytes(), other.user.as_bytes()),
            (self.password.as_bytes(), other.password.as_bytes()),
        ])
    }
}

/// Compares pairs of texts in a time that depends on their lengths alone: every unit of texts of
/// equal length is compared, wherever the first difference is.
fn are_equal<T: ConstantTimeEq>(pairs: [(&[T], &[T]); 2]) -> bool {
    let pairs = pairs.into_iter();
    let all = pairs.fold(Choice::from(1), |all, (one, other)| all & one.ct_eq(other));
    all.into()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        /// Comparisons of units since the test began.
        static COMPARISONS: Cell<usize> = const { Cell::new(0) };
    }

    /// Unit of a text, whose comparisons are counted.
    struct CountingByte(u8);

    impl ConstantTimeEq for CountingByte {
        fn ct_eq(&self, other: &Self) -> Choice {
            COMPARISONS.set(COMPARISONS.get() + 1);
            self.0.ct_eq(&other.0)
        }
    }

    fn counted(text: &str) -> Vec<CountingByte> {
        text.bytes().map(CountingByte).collect()
    }

    #[test]
    fn all_of_a_name_and_password_is_compared_wherever_they_differ() {
        const NAME: &str = "millrace";
        const PASSWORD: &str = "0123456789abcdef";
        let (name, password) = (counted(NAME), counted(PASSWORD));
        let table = [
            (NAME, PASSWORD, true),
            (NAME, "x123456789abcdef", false),
            (NAME, "01234567x9abcdef", false),
            (NAME, "0123456789abcdex", false),
            (NAME, "xxxxxxxxxxxxxxxx", false),
            ("xillrace", PASSWORD, false),
            ("millracx", "0123456789abcdex", false),
        ];
        for (given_name, given_password, is_right) in table {
            let (given_name, given_password) = (counted(given_name), counted(given_password));
            COMPARISONS.set(0);
            let pairs = [
                (&given_name[..], &name[..]),
                (&given_password[..], &password[..]),
            ];
            assert_eq!(are_equal(pairs), is_right);
            assert_eq!(COMPARISONS.get(), NAME.len() + PASSWORD.len());
        }
    }

    #[test]
    fn wrong_names_and_passwords_of_any_length_are_refused() {
        let expected = Credentials::new("default", "secret");
        let table = [
            ("default", "secret", true),
            ("default", "secreT", false),
            ("default", "Secret", false),
            ("default", "", false),
            ("default", "secre", false),
            ("default", "secret1", false),
            ("default", "secretsecret", false),
            ("Default", "secret", false),
            ("", "secret", false),
            ("defaults", "ecret", false),
        ];
        for (user, password, is_right) in table {
            let basic = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
            let by_fields = [
                ("x-clickhouse-user", user.to_owned()),
                ("x-clickhouse-key", password.to_owned()),
            ];
            let ways = [&by_fields[..], &[("authorization", basic)]];
            for fields in ways {
                let mut headers = HeaderMap::new();
                for (name, value) in fields {
                    headers.insert(*name, value.parse().unwrap());
                }
                let checked = check(&expected, &headers, None, None);
                assert_eq!(checked.is_ok(), is_right, "{user} {password}: {headers:?}");
            }
            let checked = check(&expected, &HeaderMap::new(), Some(user), Some(password));
            assert_eq!(checked.is_ok(), is_right, "{user} {password} in the URL");
        }
    }
}
