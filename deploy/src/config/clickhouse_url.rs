//! Addresses in `clickhouse_url`: one server's, or several hosts' of a cluster.

use anyhow::{Context, bail};
use url::Url;

/// Checks the addresses, which commas separate, and returns them without a slash at the end.
pub(super) fn addresses(text: &str) -> anyhow::Result<Vec<String>> {
    let addresses = text.split(',').map(|address| checked(address.trim()));
    let addresses = addresses.collect::<anyhow::Result<Vec<String>>>()?;
    let is_tls = |address: &String| address.starts_with("https://");
    if addresses.iter().any(is_tls) && !addresses.iter().all(is_tls) {
        bail!("clickhouse_url has addresses with https:// and others without; give all the same");
    }
    Ok(addresses)
}

fn checked(address: &str) -> anyhow::Result<String> {
    if !address.starts_with("http://") && !address.starts_with("https://") {
        bail!(
            "clickhouse_url is {address:?}; give its HTTP interface, such as http://clickhouse:8123"
        );
    }
    // The rest of the URL is not printed: it may hold passwords.
    let parsed = Url::parse(address).context(
        "clickhouse_url is not a URL; give its HTTP interface, such as http://clickhouse:8123",
    )?;
    if !parsed.username().is_empty() || parsed.password().is_some() {
        bail!(
            "clickhouse_url has a user or a password in it; give them as clickhouse_user and clickhouse_password"
        );
    }
    if parsed.query().is_some() || parsed.fragment().is_some() {
        bail!("clickhouse_url has something behind its path; remove what follows ? or #");
    }
    Ok(address.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_addresses_are_separated_by_commas() {
        let table = [
            ("http://a:8123", vec!["http://a:8123"]),
            (
                "http://a:8123/, http://b",
                vec!["http://a:8123", "http://b"],
            ),
            ("https://a,https://b", vec!["https://a", "https://b"]),
        ];
        for (text, expected) in table {
            assert_eq!(addresses(text).unwrap(), expected, "{text}");
        }
        for text in ["", "http://a,", "http://a,b:8123", "http://a,https://b"] {
            assert!(addresses(text).is_err(), "{text}");
        }
    }
}
