//! Checks of addresses and paths, and of keys that name some: exports go to no private network and
//! to no other folder.

use super::field_errors::{FieldError, invalid};
use super::fields::FieldKind as Kind;
use millrace_catalog::bounded_json;
use serde_json::Value;
use std::net::IpAddr;
use std::path::{Component, Path};
use url::{Host, Url};

/// Fields that a service account's key is used by.
const SERVICE_ACCOUNT: [&str; 3] = ["client_email", "private_key", "private_key_id"];
const CONNECTION: &str = "Give AccountName=…;AccountKey=…, or a BlobEndpoint=… with a key.";

/// Limits on where exports may go.
#[derive(Clone, Copy, Debug)]
pub struct DestinationLimits<'a> {
    /// True if private networks are allowed like the internet.
    pub allow_private: bool,
    /// Returns true for an address of the internet.
    pub is_public: fn(IpAddr) -> bool,
    /// Folder that exports to files stay in; `None`: there are none.
    pub export_root: Option<&'a Path>,
}

/// Checks a text of a field that names an address or a path; texts of other kinds name none.
pub(super) fn check_address(
    kind: Kind,
    text: &str,
    limits: &DestinationLimits<'_>,
) -> Result<(), FieldError> {
    match kind {
        Kind::Url => url(text, limits),
        Kind::Host => host(text, limits),
        Kind::HostPart => host_part(text),
        Kind::UrlPath => url_path(text),
        Kind::Path => path(text, limits),
        Kind::ServiceAccount => service_account(text, limits),
        Kind::AzureConnection => azure_connection(text, limits),
        Kind::Text
        | Kind::Integer { .. }
        | Kind::Boolean
        | Kind::TextList
        | Kind::Choice(_)
        | Kind::Compression
        | Kind::Format => Ok(()),
    }
}

fn url(text: &str, limits: &DestinationLimits<'_>) -> Result<(), FieldError> {
    let url = Url::parse(text).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
    let Some((url, host)) = url.as_ref().and_then(|url| Some((url, url.host()?))) else {
        return Err(invalid("Give an http or https URL."));
    };
    // Credentials in a URL would be kept and answered in plain text.
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("Give the URL without a user and a password."));
    }
    reachable(&host, limits)
}

fn host(text: &str, limits: &DestinationLimits<'_>) -> Result<(), FieldError> {
    // Addresses of version 6 have brackets in URLs only.
    let bare = text.parse().map(Host::<String>::Ipv6);
    match bare.or_else(|_| Host::parse(text)) {
        Ok(Host::Domain(name)) if name.is_empty() => Err(invalid("Give the name of a server.")),
        Ok(Host::Domain(name)) => reachable(&Host::Domain(name.as_str()), limits),
        Ok(Host::Ipv4(address)) => reachable(&Host::Ipv4(address), limits),
        Ok(Host::Ipv6(address)) => reachable(&Host::Ipv6(address), limits),
        Err(_) => Err(invalid("Give the name or the address of a server.")),
    }
}

/// Refuses texts that could lead to a server that is none of the accounts, regions or buckets.
fn host_part(text: &str) -> Result<(), FieldError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    // A blank text is refused elsewhere, as blank.
    if text.bytes().all(is_plain) || text.trim().is_empty() {
        return Ok(());
    }
    Err(invalid("This has letters, digits, dots and dashes only."))
}

/// Refuses texts that would extend the server's name.
fn url_path(text: &str) -> Result<(), FieldError> {
    // A blank text is refused elsewhere, as blank.
    if text.starts_with('/') || text.trim().is_empty() {
        return Ok(());
    }
    Err(invalid("This begins with a slash."))
}

/// Checks addresses. Addresses that a name resolves to are checked at each connection.
fn reachable(host: &Host<&str>, limits: &DestinationLimits<'_>) -> Result<(), FieldError> {
    let public = match host {
        Host::Ipv4(address) => (limits.is_public)((*address).into()),
        Host::Ipv6(address) => (limits.is_public)((*address).into()),
        Host::Domain(name) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            name != "localhost" && !name.ends_with(".localhost")
        }
    };
    if public || limits.allow_private {
        return Ok(());
    }
    Err(invalid(
        "This leads to a private network, where exports may not go.",
    ))
}

/// Checks a path below the organization's folder. Only its text is checked, as links may change
/// until it is used.
fn path(text: &str, limits: &DestinationLimits<'_>) -> Result<(), FieldError> {
    if limits.export_root.is_none() {
        let detail = "This server exports to no files: its operator has not set export_root.";
        return Err(invalid(detail));
    }
    let stays =
        |component: Component<'_>| matches!(component, Component::Normal(_) | Component::CurDir);
    if Path::new(text).components().all(stays) {
        return Ok(());
    }
    Err(invalid(
        "Give a path below the organization's folder for exports, without a slash at its beginning \
         and without \"..\".",
    ))
}

/// Checks a service account's key, and the servers that it names.
fn service_account(text: &str, limits: &DestinationLimits<'_>) -> Result<(), FieldError> {
    let Ok(Value::Object(key)) = bounded_json::parse(text.as_bytes(), bounded_json::VALUES_MAX)
    else {
        return Err(invalid("Give the JSON key of a service account."));
    };
    let values = key.values().filter_map(Value::as_str);
    let mut urls = values.filter(|value| value.contains("://"));
    urls.try_for_each(|value| url(value, limits))?;
    let is_given = |name: &&str| key.get(*name).and_then(Value::as_str).is_some_and(is_said);
    let missing = SERVICE_ACCOUNT.into_iter().find(|name| !is_given(name));
    missing.map_or(Ok(()), |name| {
        let detail =
            format!("The key has no {name}: give the whole JSON key of a service account.");
        Err(invalid(&detail))
    })
}

fn azure_connection(text: &str, limits: &DestinationLimits<'_>) -> Result<(), FieldError> {
    let parts = text.split(';').map(str::trim).filter(|part| is_said(part));
    let (mut is_named, mut has_key) = (false, false);
    for part in parts {
        let Some((name, value)) = part.split_once('=') else {
            return Err(invalid(CONNECTION));
        };
        if value.contains("://") {
            url(value, limits)?;
        }
        match name {
            "AccountName" | "BlobEndpoint" => is_named |= is_said(value),
            "AccountKey" | "SharedAccessSignature" => has_key |= is_said(value),
            "UseDevelopmentStorage" => {
                reachable(&Host::Domain("localhost"), limits)?;
                (is_named, has_key) = (true, true);
            }
            _ => {}
        }
    }
    match (is_named, has_key) {
        (true, true) => Ok(()),
        (true, false) => Err(invalid(
            "This has no key: give an AccountKey, or a SharedAccessSignature, too.",
        )),
        _ => Err(invalid(CONNECTION)),
    }
}

fn is_said(text: &str) -> bool {
    !text.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_catalog::testing::nested_markers;

    fn limits(allow_private: bool) -> DestinationLimits<'static> {
        DestinationLimits {
            allow_private,
            is_public: |address| address.to_string() == "8.8.8.8",
            export_root: Some(Path::new("/exports")),
        }
    }

    #[test]
    fn private_addresses_are_refused_unless_they_are_allowed() {
        let table = [
            (Kind::Url, "https://s3.example.com", true),
            (Kind::Url, "https://8.8.8.8:9000/x", true),
            (Kind::Url, "http://127.0.0.1:9000", false),
            (Kind::Url, "http://2130706433/", false),
            (Kind::Url, "http://0x7f.1/", false),
            (Kind::Url, "http://[::1]/", false),
            (Kind::Url, "http://localhost/", false),
            (Kind::Url, "http://a.LOCALHOST./", false),
            (Kind::Host, "db.example.com", true),
            (Kind::Host, "8.8.8.8", true),
            (Kind::Host, "10.0.0.1", false),
            (Kind::Host, "127.1", false),
            (Kind::Host, "::1", false),
            (Kind::Host, "[::1]", false),
            (Kind::Host, "localhost", false),
            (Kind::AzureConnection, "AccountName=a;AccountKey=b==", true),
            (
                Kind::AzureConnection,
                "BlobEndpoint=http://127.0.0.1:1/a;AccountKey=b==",
                false,
            ),
            (Kind::AzureConnection, "UseDevelopmentStorage=true", false),
            (
                Kind::ServiceAccount,
                r#"{"client_email": "e", "private_key": "p", "private_key_id": "i", "token_uri": "https://a.example"}"#,
                true,
            ),
            (
                Kind::ServiceAccount,
                r#"{"client_email": "e", "private_key": "p", "private_key_id": "i", "gcs_base_url": "http://10.1.1.1"}"#,
                false,
            ),
        ];
        for (kind, text, public) in table {
            let checked = check_address(kind, text, &limits(false));
            assert_eq!(checked.is_ok(), public, "{text}");
            check_address(kind, text, &limits(true)).unwrap();
        }
    }

    #[test]
    fn texts_that_are_no_address_are_refused() {
        // As deep as the longest text can be.
        let nested = nested_markers(30, 120);
        let table = [
            (Kind::Url, "ftp://a.example"),
            (Kind::Url, "file:///etc/passwd"),
            (Kind::Url, "a.example"),
            (Kind::Url, "https://user@a.example"),
            (Kind::Url, "https://:canary@a.example"),
            (Kind::Url, ""),
            (Kind::Host, ""),
            (Kind::Host, "a b"),
            (Kind::Host, "a/b"),
            (Kind::Host, "user@a.example"),
            (Kind::HostPart, "evil.example/#"),
            (Kind::HostPart, "a@b"),
            (Kind::HostPart, "a b"),
            (Kind::HostPart, " a"),
            (Kind::Path, "/"),
            (Kind::Path, "/etc"),
            (Kind::Path, "/exports"),
            (Kind::Path, "/exports/a"),
            (Kind::Path, "a/../../b"),
            (Kind::Path, "/exports2"),
            (Kind::Path, "/exports/../etc"),
            (Kind::Path, ".."),
            (Kind::AzureConnection, "a"),
            (Kind::AzureConnection, "AccountKey=a"),
            (Kind::ServiceAccount, "[]"),
            (Kind::ServiceAccount, "x"),
            (Kind::ServiceAccount, nested.as_str()),
        ];
        for (kind, text) in table {
            let error = check_address(kind, text, &limits(true)).unwrap_err();
            assert_eq!(error.0, "invalid_input", "{kind:?} {text}");
        }
        for text in ["a", "a/b", "./a", "{year}/a"] {
            check_address(Kind::Path, text, &limits(false)).unwrap();
        }
        let nowhere = DestinationLimits {
            export_root: None,
            ..limits(true)
        };
        check_address(Kind::Path, "a", &nowhere).unwrap_err();
    }
}
