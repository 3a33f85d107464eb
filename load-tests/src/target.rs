//! Target of a run: the parts of a URL.

use anyhow::{Context, Result, bail};
use http::Uri;

/// Parts of the URL to send to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Authority, `host:port`, for connecting and for the Host header.
    pub authority: String,
    /// Path and query.
    pub path: String,
    /// True if the URL uses TLS.
    pub tls: bool,
}

impl Target {
    /// Parses a URL.
    ///
    /// # Errors
    /// It is not an `http://` or `https://` URL.
    pub fn parse(url: &str) -> Result<Self> {
        let uri: Uri = url
            .parse()
            .with_context(|| format!("{url:?} is not a URL"))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => bail!("{url:?} does not begin with http:// or https://"),
        };
        let default_port = if tls { 443 } else { 80 };
        let authority = uri
            .authority()
            .with_context(|| format!("{url:?} has no host"))?;
        let path = match uri.path_and_query().map(http::uri::PathAndQuery::as_str) {
            None | Some("" | "/") => "/batch/",
            Some(path) => path,
        };
        Ok(Self {
            authority: format!(
                "{}:{}",
                authority.host(),
                authority.port_u16().unwrap_or(default_port)
            ),
            path: path.to_owned(),
            tls,
        })
    }

    /// Host as a certificate names it: without port, and without an IPv6 address's brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        let host = self.authority.rsplit_once(':').map_or("", |(host, _)| host);
        host.trim_start_matches('[').trim_end_matches(']')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_parsed_into_its_parts() {
        for (url, authority, host, path, tls) in [
            ("http://h:8000", "h:8000", "h", "/batch/", false),
            ("http://h:8000/", "h:8000", "h", "/batch/", false),
            ("http://h/e/?s=t", "h:80", "h", "/e/?s=t", false),
            ("http://[::1]:1/batch", "[::1]:1", "::1", "/batch", false),
            (
                "https://h.example",
                "h.example:443",
                "h.example",
                "/batch/",
                true,
            ),
            ("https://[::1]", "[::1]:443", "::1", "/batch/", true),
        ] {
            let target = Target::parse(url).unwrap();
            let parts = (&*target.authority, target.host(), &*target.path, target.tls);
            assert_eq!(parts, (authority, host, path, tls), "{url}");
        }
        for url in ["ftp://h", "h:80", "/batch", "", "not a url"] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
    }
}
