//! Links by which people sign in, for whoever has the terminal of the server.

use millrace_catalog::{Actor, Catalog, ChangeError, UtcTime};
use millrace_organizations::Sessions;

/// Link that works once.
pub struct SignInLink {
    /// Address of the page that signs in, with the token.
    pub url: String,
    /// Time at which the link stops working.
    pub expires_at: UtcTime,
}

/// Creates a link for a user. `base_url` is where people reach the organization API.
///
/// # Errors
///
/// No such user, the user is inactive, or the catalog cannot be written.
pub async fn create(
    catalog: &Catalog,
    actor: &Actor,
    base_url: &str,
    email: &str,
) -> Result<SignInLink, ChangeError> {
    let link = Sessions::new(catalog).create_link(actor, email).await?;
    Ok(SignInLink {
        // Behind the `#`, so that neither servers nor proxies see the token in an address.
        url: format!("{}/sign-in#{}", reachable(base_url), link.token.expose()),
        expires_at: link.expires_at,
    })
}

/// Address for a browser: one cannot connect to the address of all interfaces, and people sign in
/// at a loopback address where there is no TLS.
fn reachable(base_url: &str) -> String {
    let base_url = base_url.trim_end_matches('/');
    let unspecified = ["http://0.0.0.0:", "http://[::]:"];
    let port = unspecified
        .iter()
        .find_map(|prefix| base_url.strip_prefix(prefix));
    port.map_or_else(
        || base_url.to_owned(),
        |port| format!("http://localhost:{port}"),
    )
}

#[cfg(test)]
mod tests {
    use super::reachable;

    #[test]
    fn links_lead_to_addresses_that_browsers_can_open() {
        let table = [
            ("https://millrace.example/", "https://millrace.example"),
            ("http://127.0.0.1:8010", "http://127.0.0.1:8010"),
            ("http://0.0.0.0:8010", "http://localhost:8010"),
            ("http://[::]:8010", "http://localhost:8010"),
            ("http://10.0.0.0:80", "http://10.0.0.0:80"),
        ];
        for (base_url, expected) in table {
            assert_eq!(reachable(base_url), expected);
        }
    }
}
