//! Requests of object stores by our own client, whose TLS is the same everywhere.

use super::keys::{self, Form, Page};
use super::signing::Signing;
use async_trait::async_trait;
use http::{Method, Uri};
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use reqwest::{Body, Client, Request, Response};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::timeout;
use url::{Host, Url};

/// Machines of a cloud are told their credentials at once, others never.
const MACHINE_TIMEOUT: Duration = Duration::from_secs(3);

/// The most bytes of a page of what a store lists: it has some thousand keys.
const PAGE_BYTES_MAX: usize = 64 << 20;

/// Makes connections for the library, by our client.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    http: Client,
    form: Form,
    shared: Arc<Shared>,
}

/// What requests and whoever asked for them have together.
#[derive(Debug, Default)]
struct Shared {
    /// Set when the store is built, and there are credentials.
    signing: OnceLock<Signing>,
    /// Keys that were left out of what was listed.
    left_out: Mutex<BTreeSet<String>>,
}

impl Connector {
    pub(super) fn new(http: Client, form: Form) -> Self {
        Self {
            http,
            form,
            shared: Arc::default(),
        }
    }

    /// Says what requests are signed with.
    pub(super) fn sign_with(&self, signing: Signing) {
        // It is said once.
        let _ = self.shared.signing.set(signing);
    }

    /// Keys that were left out of what was listed so far.
    pub(super) fn left_out(&self) -> Vec<String> {
        let left_out = self.shared.left_out.lock();
        let left_out = left_out.unwrap_or_else(PoisonError::into_inner);
        left_out.iter().cloned().collect()
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service(self.clone())))
    }
}

/// The environment has no credentials, and neither has this machine.
#[derive(Debug, thiserror::Error)]
#[error("this machine has no credentials of its own")]
pub(super) struct NoCredentials;

#[derive(Debug)]
struct Service(Connector);

impl Service {
    /// Takes the marks out of a request's path.
    async fn unmark(&self, request: &mut HttpRequest) -> Result<(), HttpError> {
        let Some(path) = keys::plain_in_url(request.uri().path()) else {
            return Ok(());
        };
        let query = request.uri().query();
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        let odd = |error: http::Error| HttpError::new(HttpErrorKind::Unknown, error);
        let mut parts = request.uri().clone().into_parts();
        let path = format!("{path}{query}").parse();
        parts.path_and_query = Some(path.map_err(|error| odd(http::Error::from(error)))?);
        let uri = Uri::from_parts(parts).map_err(|error| odd(http::Error::from(error)))?;
        *request.uri_mut() = uri;
        match self.0.shared.signing.get() {
            Some(signing) => signing.sign(request).await,
            None => Ok(()),
        }
    }

    /// A page of what the store lists, with marks.
    async fn page(&self, mut answer: Response) -> Result<HttpResponse, HttpError> {
        let mut said = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(broken)? {
            said.extend_from_slice(&piece);
            if said.len() > PAGE_BYTES_MAX {
                return Err(HttpError::new(HttpErrorKind::Unknown, EndlessPage));
            }
        }
        let page = Page::of(&String::from_utf8_lossy(&said), self.0.form);
        let left_out = self.0.shared.left_out.lock();
        let mut left_out = left_out.unwrap_or_else(PoisonError::into_inner);
        left_out.extend(page.left_out);
        let body = HttpResponseBody::from(page.body);
        Ok(http::Response::new(body))
    }
}

/// Whether a request asks which objects there are.
fn is_listing(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = query.split('&');
    request.method() == Method::GET && pairs.any(|it| matches!(it, "list-type=2" | "comp=list"))
}

/// A page of what a store lists has no end.
#[derive(Debug, thiserror::Error)]
#[error("what the store lists has no end")]
struct EndlessPage;

#[async_trait]
impl HttpService for Service {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.unmark(&mut request).await?;
        let is_listing = is_listing(&request);
        let (parts, body) = request.into_parts();
        let url = Url::parse(&parts.uri.to_string())
            .map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let is_machine = is_machine(&url);
        let mut request = Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        *request.body_mut() = Some(Body::wrap(body));
        let asked = self.0.http.execute(request);
        let answer = if is_machine {
            let no_credentials = || HttpError::new(HttpErrorKind::Unknown, NoCredentials);
            let answered = timeout(MACHINE_TIMEOUT, asked).await;
            let answered = answered.map_err(|_| no_credentials())?;
            let has_some = |answer: &Response| answer.status().is_success();
            let answered = answered.ok().filter(has_some);
            answered.ok_or_else(no_credentials)?
        } else {
            asked.await.map_err(broken)?
        };
        if is_listing && answer.status().is_success() {
            return self.page(answer).await;
        }
        let answer: http::Response<Body> = answer.into();
        let (parts, body) = answer.into_parts();
        let body = body.map_err(broken);
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

/// Whether it is what tells machines of a cloud about themselves.
fn is_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) if address.is_link_local() => true,
        Some(Host::Domain("metadata.google.internal")) => true,
        // Wherever AWS_METADATA_ENDPOINT says.
        _ => url.path() == "/latest/api/token",
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
