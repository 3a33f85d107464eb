//! Sends the requests of the client library by a client of the caller's, for the same TLS and the
//! same limits everywhere.

use async_trait::async_trait;
use http_body_util::{BodyExt, Limited};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use reqwest::{Body, Client, Request, Url};
use std::error::Error as StdError;
use std::fmt::Debug;
use std::io;
use url::ParseError;

/// Hook of a [`StoreConnector`]: the caller's own part of each exchange.
#[async_trait]
pub trait StoreHook: Clone + Debug + Send + Sync + 'static {
    /// Bytes of a response that are read at most.
    const RESPONSE_BYTES_MAX: usize;

    /// Converts an error of the client. The kind decides whether the library sends a request again.
    fn failure(error: reqwest::Error) -> HttpError;

    /// Converts the error of a URL that is none.
    fn no_url(error: ParseError) -> HttpError {
        HttpError::new(HttpErrorKind::Unknown, error)
    }

    /// Changes a request before it is sent.
    async fn prepare(&self, _request: &mut HttpRequest) -> Result<(), HttpError> {
        Ok(())
    }

    /// Sends a request, and may change the response.
    async fn send(
        &self,
        client: &Client,
        request: Request,
    ) -> Result<http::Response<Body>, HttpError> {
        let response = client.execute(request).await.map_err(Self::failure)?;
        Ok(response.into())
    }
}

/// Connector of a store: it sends requests by a client, with a hook.
#[derive(Clone, Debug)]
pub struct StoreConnector<H> {
    client: Client,
    hook: H,
}

impl<H: StoreHook> StoreConnector<H> {
    /// Creates a connector.
    pub const fn new(client: Client, hook: H) -> Self {
        Self { client, hook }
    }
}

impl<H: StoreHook> HttpConnector for StoreConnector<H> {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl<H: StoreHook> HttpService for StoreConnector<H> {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.hook.prepare(&mut request).await?;
        let (parts, body) = request.into_parts();
        let url = Url::parse(&parts.uri.to_string()).map_err(H::no_url)?;
        let mut request = Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        *request.body_mut() = Some(Body::wrap(body));
        let response = self.hook.send(&self.client, request).await?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, H::RESPONSE_BYTES_MAX).map_err(body_failure::<H>);
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

/// Converts an error of a body: of the client, or of the limit on its length.
fn body_failure<H: StoreHook>(error: Box<dyn StdError + Send + Sync>) -> HttpError {
    match error.downcast::<reqwest::Error>() {
        Ok(error) => H::failure(*error),
        Err(_) => HttpError::new(HttpErrorKind::Decode, io::Error::other("too long")),
    }
}
