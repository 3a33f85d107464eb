//! HTTP exchanges with the server.

use super::outcome::RequestOutcome;
use anyhow::{Context, bail};
use bytes::Bytes;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};
use url::{Host, Url};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout of a request: the server responds within ten seconds; a slow connection takes longer for
/// the body.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(300);
/// The fastest level: the next one saves less time on the network than it costs.
const ZSTD_LEVEL: i32 = 1;

/// Compression of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// No compression.
    None,
    /// Gzip, which proxies in between may want.
    Gzip,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// Chooses the compression for a server: none on the same machine.
    #[must_use]
    pub fn for_url(url: &Url) -> Self {
        let is_here = match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        };
        if is_here { Self::None } else { Self::Zstd }
    }

    /// Compresses a body.
    ///
    /// # Errors
    /// I/O errors of the library, which has none for data in memory.
    pub fn apply(self, body: &Bytes) -> io::Result<Bytes> {
        use flate2::write::GzEncoder;
        use std::io::Write;
        match self {
            Self::None => Ok(body.clone()),
            Self::Zstd => zstd::bulk::compress(body, ZSTD_LEVEL).map(Bytes::from),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(body)?;
                encoder.finish().map(Bytes::from)
            }
        }
    }

    fn header(self) -> Option<HeaderValue> {
        match self {
            Self::None => None,
            Self::Gzip => Some(HeaderValue::from_static("gzip")),
            Self::Zstd => Some(HeaderValue::from_static("zstd")),
        }
    }
}

/// Creates an HTTP client that trusts the system's certificate authorities.
///
/// # Errors
/// TLS cannot be set up.
pub fn client() -> anyhow::Result<reqwest::Client> {
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context("TLS cannot be set up")?
        .with_root_certificates(authorities)
        .with_no_client_auth();
    client_with(tls)
}

/// Creates an HTTP client with the given TLS configuration.
///
/// # Errors
/// The client cannot be set up.
pub fn client_with(tls: ClientConfig) -> anyhow::Result<reqwest::Client> {
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("millrace-import/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .build()
        .context("the HTTP client cannot be set up")
}

/// Parses the address of a server, such as `http://127.0.0.1:8000`, which may have a path.
///
/// # Errors
/// The address is invalid; the message says how to write it.
pub fn server_url(text: &str) -> anyhow::Result<Url> {
    let such_as = "such as https://events.example.com";
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    if scheme.is_empty() {
        // The text before a colon may be a server's name, with its port after it.
        let with_scheme = Url::parse(&format!("http://{text}"));
        let is_name = with_scheme.is_ok_and(|url| url.path() == "/" && url.query().is_none());
        let is_name = is_name && (text.contains(['.', ':']) || text == "localhost");
        match is_name {
            true => {
                bail!("--url is {text}; write http://{text}, or https://{text} if it speaks TLS")
            }
            false => bail!("--url is {text}, which is not a URL; give the server's, {such_as}"),
        }
    }
    if !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) {
        bail!("--url is {text}; events go by HTTP: write http://{rest} or https://{rest}");
    }
    let url = Url::parse(text);
    let mut url = url.with_context(|| format!("--url is {text}; give the server's, {such_as}"))?;
    if url.query().is_some() || url.fragment().is_some() {
        url.set_query(None);
        url.set_fragment(None);
        bail!("--url is {text}; write {url} without what is behind it");
    }
    if let Some(path) = url.path().trim_end_matches('/').strip_suffix("/batch") {
        let path = path.to_owned();
        url.set_path(&path);
        bail!("--url is {text}; write {url}, the server's own address: events go to /batch/ there");
    }
    Ok(url)
}

/// Server that gets the events.
#[derive(Clone, Debug)]
pub struct Target {
    client: reqwest::Client,
    url: Url,
    dry_run_url: Url,
    compression: Compression,
}

impl Target {
    /// Creates a client for the server at `url`, such as `http://127.0.0.1:8000`.
    ///
    /// # Errors
    /// The URL is invalid, or TLS cannot be set up.
    pub fn new(url: &str, compression: Option<Compression>) -> anyhow::Result<Self> {
        let base = server_url(url)?;
        let compression = compression.unwrap_or_else(|| Compression::for_url(&base));
        let url = Url::parse(&format!("{}/batch/", base.as_str().trim_end_matches('/')))?;
        let mut dry_run_url = url.clone();
        dry_run_url.set_query(Some("dry_run=true"));
        Ok(Self {
            client: client()?,
            url,
            dry_run_url,
            compression,
        })
    }

    /// Compression of bodies.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Sends a compressed body and reads the response.
    pub async fn send(&self, wire: Bytes) -> RequestOutcome {
        self.exchange(&self.url, wire, self.compression.header())
            .await
    }

    /// Sends a body as a dry run, of which the server stores nothing.
    pub async fn dry_run(&self, body: Bytes) -> RequestOutcome {
        self.exchange(&self.dry_run_url, body, None).await
    }

    async fn exchange(
        &self,
        url: &Url,
        body: Bytes,
        encoding: Option<HeaderValue>,
    ) -> RequestOutcome {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(encoding) = encoding {
            headers.insert(CONTENT_ENCODING, encoding);
        }
        let request = self
            .client
            .post(url.clone())
            .headers(headers)
            .timeout(REQUEST_TIMEOUT)
            .body(body);
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => return self.outcome_of_error(&error).await,
        };
        let (status, headers) = (response.status(), response.headers().clone());
        match response.bytes().await {
            Ok(body) => RequestOutcome::of_response(status, &headers, &body),
            Err(error) => RequestOutcome::of_error(&error),
        }
    }

    /// Outcome of an exchange that broke.
    ///
    /// A server without the endpoint may close the connection before it has read a large body, and
    /// its response is lost: it is asked again with a small one.
    async fn outcome_of_error(&self, error: &reqwest::Error) -> RequestOutcome {
        if !error.is_connect() && !error.is_timeout() {
            let small = self.client.post(self.dry_run_url.clone()).body("{}");
            if let Ok(response) = small.timeout(CONNECT_TIMEOUT).send().await
                && matches!(response.status().as_u16(), 404 | 405)
            {
                return RequestOutcome::of_response(response.status(), response.headers(), &[]);
            }
        }
        RequestOutcome::of_error(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_accepted_or_refused_with_the_right_spelling() {
        let right = [
            ("http://127.0.0.1:8000", "http://127.0.0.1:8000/"),
            ("HTTPS://Events.example.com/", "https://events.example.com/"),
            ("https://example.com/events", "https://example.com/events"),
            ("http://[::1]:8000", "http://[::1]:8000/"),
        ];
        for (text, expected) in right {
            assert_eq!(server_url(text).unwrap().as_str(), expected);
        }
        let wrong = [
            ("localhost:8000", "write http://localhost:8000, or https://"),
            ("localhost", "write http://localhost, or https://"),
            ("127.0.0.1:8000", "write http://127.0.0.1:8000,"),
            ("events.example.com/", "write http://events.example.com/,"),
            ("nowhere", "not a URL; give the server's, such as https://"),
            ("", "not a URL; give the server's, such as https://"),
            ("ftp://a.example/x", "write http://a.example/x or https://"),
            ("://a.example", "not a URL; give the server's"),
            ("http://", "give the server's, such as https://"),
            ("http://a.example:port", "give the server's, such as"),
            ("http://a.example/?key=1", "write http://a.example/ without"),
            ("http://a.example#top", "write http://a.example/ without"),
            ("http://a.example/batch/", "write http://a.example/, the"),
            (
                "http://a.example/in/batch",
                "write http://a.example/in, the",
            ),
        ];
        for (text, expected) in wrong {
            let error = server_url(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
