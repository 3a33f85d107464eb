//! HTTP requests of object stores through the guard.

use async_trait::async_trait;
use http_body_util::{BodyExt, Limited};
use millrace_dial::DialError;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use reqwest::{Body, Client, Request, Url};
use std::io;

/// Bytes of an answer that are read at most: a page of keys has about a megabyte, a manifest less.
const ANSWER_BYTES_MAX: usize = 16 << 20;

#[derive(Debug)]
pub(super) struct GuardedConnector(pub(super) Client);

impl HttpConnector for GuardedConnector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(GuardedService(self.0.clone())))
    }
}

#[derive(Debug)]
struct GuardedService(Client);

#[async_trait]
impl HttpService for GuardedService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let url = Url::parse(&parts.uri.to_string()).map_err(|_| dial(DialError::NoAddress))?;
        let mut request = Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        *request.body_mut() = Some(Body::wrap(body));
        let answer = self.0.execute(request).await;
        let answer: http::Response<Body> = answer.map_err(|error| broken(&error))?.into();
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX);
        let body = body.map_err(|error| match error.downcast_ref() {
            Some(error) => broken(error),
            None => HttpError::new(HttpErrorKind::Decode, io::Error::other("too long")),
        });
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

/// Drops the error's text, as it has URLs, which have signatures.
fn broken(error: &reqwest::Error) -> HttpError {
    match DialError::of(error) {
        Some(error) => dial(error),
        // A request that may have arrived is sent again only if it is idempotent.
        None if error.is_decode() => HttpError::new(HttpErrorKind::Decode, Broken),
        None => HttpError::new(HttpErrorKind::Interrupted, Broken),
    }
}

/// Converts an error of dialling. Refused addresses and names that do not resolve are not retried.
fn dial(error: DialError) -> HttpError {
    let kind = match error {
        DialError::NoAddress => HttpErrorKind::Unknown,
        DialError::Connect(_) => HttpErrorKind::Connect,
        DialError::TimedOut => HttpErrorKind::Timeout,
    };
    HttpError::new(kind, error)
}

#[derive(Debug, thiserror::Error)]
#[error("the connection broke")]
struct Broken;
