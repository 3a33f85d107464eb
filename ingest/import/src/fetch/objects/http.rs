//! Changes to requests and responses between the `object_store` library and the store.

use super::keys::{self, ListingElements, ListingPage};
use super::signing::Signing;
use async_trait::async_trait;
use http::{Method, Uri};
use millrace_objects::StoreHook;
use object_store::client::{HttpError, HttpErrorKind, HttpRequest};
use reqwest::{Body, Client, Request, Response};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::timeout;
use url::{Host, Url};

/// Timeout of a cloud's metadata service: it answers a machine of the cloud at once, others never.
const METADATA_TIMEOUT: Duration = Duration::from_secs(3);

/// Most bytes of a page of a listing, which has some thousand keys.
const PAGE_BYTES_MAX: usize = 64 << 20;

/// Hook that marks keys for the library, and unmarks them for the store.
#[derive(Clone, Debug)]
pub(super) struct KeyMarks {
    elements: ListingElements,
    shared: Arc<Shared>,
}

/// State shared by the requests and the owner of the store.
#[derive(Debug, Default)]
struct Shared {
    /// Set once the store is built and has credentials.
    signing: OnceLock<Signing>,
    /// Keys that were left out of listings.
    left_out: Mutex<BTreeSet<String>>,
}

impl KeyMarks {
    pub(super) fn new(elements: ListingElements) -> Self {
        Self {
            elements,
            shared: Arc::default(),
        }
    }

    /// Sets the credentials that requests are signed with.
    pub(super) fn sign_with(&self, signing: Signing) {
        // Only the first credentials count: a second call changes nothing.
        let _ = self.shared.signing.set(signing);
    }

    /// Keys that were left out of listings so far.
    pub(super) fn left_out(&self) -> Vec<String> {
        let left_out = self.shared.left_out.lock();
        let left_out = left_out.unwrap_or_else(PoisonError::into_inner);
        left_out.iter().cloned().collect()
    }

    /// Reads a page of a listing and adds marks to its keys.
    async fn page(&self, mut response: Response) -> Result<String, HttpError> {
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(Self::failure)? {
            body.extend_from_slice(&piece);
            if body.len() > PAGE_BYTES_MAX {
                return Err(HttpError::new(HttpErrorKind::Unknown, EndlessPage));
            }
        }
        let page = ListingPage::of(&String::from_utf8_lossy(&body), self.elements);
        let left_out = self.shared.left_out.lock();
        let mut left_out = left_out.unwrap_or_else(PoisonError::into_inner);
        left_out.extend(page.left_out);
        Ok(page.body)
    }
}

#[async_trait]
impl StoreHook for KeyMarks {
    /// Bytes of an object: as many as it has.
    const RESPONSE_BYTES_MAX: usize = usize::MAX;

    fn failure(error: reqwest::Error) -> HttpError {
        let kind = if error.is_connect() {
            HttpErrorKind::Connect
        } else if error.is_timeout() {
            HttpErrorKind::Timeout
        } else {
            HttpErrorKind::Interrupted
        };
        HttpError::new(kind, error)
    }

    /// Removes the marks from a request's path, and signs it again.
    async fn prepare(&self, request: &mut HttpRequest) -> Result<(), HttpError> {
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
        match self.shared.signing.get() {
            Some(signing) => signing.sign(request).await,
            None => Ok(()),
        }
    }

    /// Sends a request. The metadata service has little time, and pages of listings get marks.
    async fn send(
        &self,
        client: &Client,
        request: Request,
    ) -> Result<http::Response<Body>, HttpError> {
        let is_listing = is_listing(&request);
        let is_metadata_service = is_metadata_service(request.url());
        let pending = client.execute(request);
        let response = if is_metadata_service {
            let no_credentials = || HttpError::new(HttpErrorKind::Unknown, NoCredentials);
            let response = timeout(METADATA_TIMEOUT, pending).await;
            let response = response.map_err(|_| no_credentials())?;
            let has_some = |response: &Response| response.status().is_success();
            let response = response.ok().filter(has_some);
            response.ok_or_else(no_credentials)?
        } else {
            pending.await.map_err(Self::failure)?
        };
        if is_listing && response.status().is_success() {
            let page = self.page(response).await?;
            return Ok(http::Response::new(Body::from(page)));
        }
        Ok(response.into())
    }
}

/// Neither the environment nor the metadata service has credentials.
#[derive(Debug, thiserror::Error)]
#[error("this machine has no credentials of its own")]
pub(super) struct NoCredentials;

/// Returns true if a request lists objects.
fn is_listing(request: &Request) -> bool {
    let query = request.url().query().unwrap_or_default();
    let mut pairs = query.split('&');
    request.method() == Method::GET && pairs.any(|it| matches!(it, "list-type=2" | "comp=list"))
}

/// A page of a listing is longer than [`PAGE_BYTES_MAX`].
#[derive(Debug, thiserror::Error)]
#[error("the list of the store has no end")]
struct EndlessPage;

/// Returns true for the metadata service, which gives a cloud's machines their credentials.
fn is_metadata_service(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) if address.is_link_local() => true,
        Some(Host::Domain("metadata.google.internal")) => true,
        // At any address, as AWS_METADATA_ENDPOINT may name one.
        _ => url.path() == "/latest/api/token",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use futures_util::{StreamExt, stream};
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn a_page_of_a_listing_is_read_for_64_mib_at_most() {
        const PIECE_BYTES: usize = 1 << 20;
        let sent = Arc::new(AtomicUsize::new(0));
        let (counted, piece) = (Arc::clone(&sent), Bytes::from(vec![b'x'; PIECE_BYTES]));
        let pieces = stream::repeat_with(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Frame::data(piece.clone()))
        });
        let body = Body::wrap(StreamBody::new(pieces.take(200)));
        let elements = ListingElements {
            object: "Contents",
            key: "Key",
        };
        let marks = KeyMarks::new(elements);
        let Err(error) = marks.page(http::Response::new(body).into()).await else {
            panic!("all of it was read");
        };
        assert!(format!("{error:?}").contains("EndlessPage"), "{error:?}");
        assert_eq!(sent.load(Ordering::Relaxed), 65);
    }
}
