//! Requests of object stores by our own client, whose TLS is the same everywhere.

use async_trait::async_trait;
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use reqwest::{Body, Client, Request, Response};
use std::time::Duration;
use tokio::time::timeout;
use url::{Host, Url};

/// Machines of a cloud are told their credentials at once, others never.
const MACHINE_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Connector(pub(super) Client);

impl HttpConnector for Connector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service(self.0.clone())))
    }
}

/// The environment has no credentials, and neither has this machine.
#[derive(Debug, thiserror::Error)]
#[error("this machine has no credentials of its own")]
pub(super) struct NoCredentials;

#[derive(Debug)]
struct Service(Client);

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let url = Url::parse(&parts.uri.to_string())
            .map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let is_machine = is_machine(&url);
        let mut request = Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        *request.body_mut() = Some(Body::wrap(body));
        let asked = self.0.execute(request);
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
