//! Object stores: every object below a prefix of S3, Google's buckets, Azure's containers, and what speaks like them.
//!
//! Credentials and endpoints are those of the environment, under the names that each store's own tools know.

use anyhow::{Context, bail};
use async_trait::async_trait;
use futures_util::StreamExt;
use http_body_util::BodyExt;
use millrace_sources::{Export, FetchError, Part};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt};
use reqwest::{Body, Client, Request};
use std::io::Write;
use std::sync::Arc;
use url::Url;

/// Objects that are fetched at once.
const PARALLEL: usize = 4;

/// The objects below a prefix.
#[derive(Debug)]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    parts: Vec<Part>,
    bytes: u64,
}

impl Objects {
    /// Lists a prefix such as `s3://bucket/exports/2024`, `gs://…` or `az://container/…`.
    ///
    /// # Errors
    /// When it is none, or cannot be listed.
    pub async fn list(url: &str, http: &Client) -> anyhow::Result<Self> {
        let parsed = Url::parse(url).with_context(|| {
            format!("{url} is no prefix; name one such as s3://bucket/exports/2024")
        })?;
        let store = open(&parsed, http).with_context(|| {
            format!("{url} cannot be opened; give credentials in the environment")
        })?;
        let prefix = Path::from_url_path(parsed.path()).context("the prefix is no path")?;
        let mut objects = store.list(Some(&prefix));
        let mut found = Vec::new();
        while let Some(object) = objects.next().await {
            let object = object.with_context(|| format!("{url} cannot be listed"))?;
            if object.size > 0 {
                found.push((object.location, object.size));
            }
        }
        drop(objects);
        if found.is_empty() {
            bail!("there is nothing below {url}; check the prefix");
        }
        found.sort();
        Ok(Self {
            store,
            bytes: found.iter().map(|(_, bytes)| bytes).sum(),
            parts: found
                .into_iter()
                .map(|(location, bytes)| part(&location, &prefix, bytes))
                .collect(),
        })
    }

    /// Bytes of all objects.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Folders become part of the name: staged files lie in one folder.
fn part(location: &Path, prefix: &Path, bytes: u64) -> Part {
    let whole = location.to_string();
    let below = whole
        .strip_prefix(prefix.as_ref())
        .map(|name| name.trim_start_matches('/'))
        .filter(|name| !name.is_empty());
    let name = below.unwrap_or_else(|| location.filename().unwrap_or(&whole));
    Part {
        name: name.replace('/', "~"),
        from: whole.clone(),
        until: bytes.to_string(),
    }
}

fn open(url: &Url, http: &Client) -> object_store::Result<Arc<dyn ObjectStore>> {
    let connector = Connector(http.clone());
    Ok(match url.scheme() {
        "s3" | "s3a" => Arc::new(
            AmazonS3Builder::from_env()
                .with_http_connector(connector)
                .with_url(url.as_str())
                .build()?,
        ),
        "gs" => Arc::new(
            GoogleCloudStorageBuilder::from_env()
                .with_http_connector(connector)
                .with_url(url.as_str())
                .build()?,
        ),
        _ => Arc::new(
            MicrosoftAzureBuilder::from_env()
                .with_http_connector(connector)
                .with_url(url.as_str())
                .build()?,
        ),
    })
}

#[async_trait]
impl Export for Objects {
    fn parts(&self) -> Vec<Part> {
        self.parts.clone()
    }

    fn parallel(&self) -> usize {
        PARALLEL
    }

    async fn fetch(
        &self,
        _http: &Client,
        part: &Part,
        into: &mut (dyn Write + Send),
    ) -> Result<(), FetchError> {
        let again = |message: String| FetchError::Again {
            after: None,
            message,
        };
        let found = self.store.get(&Path::from(part.from.as_str())).await;
        let found = found.map_err(|error| match error {
            object_store::Error::NotFound { .. }
            | object_store::Error::PermissionDenied { .. }
            | object_store::Error::Unauthenticated { .. } => FetchError::Final {
                message: error.to_string(),
            },
            other => again(other.to_string()),
        })?;
        let mut bytes = 0;
        let mut stream = found.into_stream();
        while let Some(piece) = stream.next().await {
            let piece = piece.map_err(|error| again(error.to_string()))?;
            into.write_all(&piece)?;
            bytes += piece.len();
        }
        if part.until == bytes.to_string() {
            Ok(())
        } else {
            Err(again(format!("{bytes} bytes came of {}", part.until)))
        }
    }
}

/// Requests of object stores by our own client, whose TLS is the same everywhere.
#[derive(Debug)]
struct Connector(Client);

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service(self.0.clone())))
    }
}

#[derive(Debug)]
struct Service(Client);

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let url = Url::parse(&parts.uri.to_string())
            .map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let mut request = Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        *request.body_mut() = Some(Body::wrap(body));
        let answer = self.0.execute(request).await.map_err(broken)?;
        let answer: http::Response<Body> = answer.into();
        let (parts, body) = answer.into_parts();
        let body = body.map_err(broken);
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

fn broken(error: reqwest::Error) -> HttpError {
    let kind = if error.is_connect() {
        HttpErrorKind::Connect
    } else if error.is_timeout() {
        HttpErrorKind::Timeout
    } else {
        HttpErrorKind::Interrupted
    };
    HttpError::new(kind, error)
}
