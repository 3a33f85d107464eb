//! Live endpoint: serves the live stream of this node to the API of other processes.
//!
//! `POST /live` with a watch as JSON is answered by a line of JSON for each message, as long as
//! somebody reads. Whoever has the token sees the events of all projects: it is in the catalog, and
//! the listener is for the installation's own network.

use crate::request::head::bearer;
use bytes::Bytes;
use futures_util::stream;
use http::header::AUTHORIZATION;
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Limited, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use millrace_live::{LiveFeed, LiveMessage, RemoteWatch, WatchRefused};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Path of watches.
pub const PATH: &str = "/live";
/// Most connections; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 128;
/// Time in which a head has to come.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Time in which a body has to come.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a head, and of a body, at most.
const HEAD_BYTES_MAX: usize = 16 << 10;
const BODY_BYTES_MAX: usize = 64 << 10;
/// Pause after `accept` failed, as it does when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// Running endpoint; dropping it closes its listener.
#[derive(Debug)]
pub struct LiveEndpoint {
    addr: SocketAddr,
    task: JoinHandle<()>,
}

/// Live stream, and the token that opens it.
struct Guarded {
    feed: LiveFeed,
    token: String,
}

// === impl LiveEndpoint ===

impl LiveEndpoint {
    /// Listens on `addr` (port 0 takes a free one), on the runtime of the caller.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn start(addr: SocketAddr, token: String, feed: LiveFeed) -> io::Result<Self> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let guarded = Arc::new(Guarded { feed, token });
        let task = tokio::spawn(serve(listener, guarded));
        Ok(Self { addr, task })
    }

    /// Address listened on.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for LiveEndpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, guarded: Arc<Guarded>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // Never closed, so this never fails.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let connection = connection(stream, Arc::clone(&guarded));
                tokio::spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the live endpoint cannot accept");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, guarded: Arc<Guarded>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let guarded = Arc::clone(&guarded);
        async move { Ok::<_, Infallible>(answer(request, &guarded).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection of a viewer ended");
    }
}

async fn answer(request: Request<Incoming>, guarded: &Guarded) -> Response<ResponseBody> {
    match watch(request, guarded).await {
        Ok(messages) => Response::new(lines(messages)),
        Err(status) => {
            let mut response = Response::new(Empty::<Bytes>::new().boxed_unsync());
            *response.status_mut() = status;
            response
        }
    }
}

async fn watch(
    request: Request<Incoming>,
    guarded: &Guarded,
) -> Result<mpsc::Receiver<LiveMessage>, StatusCode> {
    if request.method() != Method::POST || request.uri().path() != PATH {
        return Err(StatusCode::NOT_FOUND);
    }
    let token = bearer(request.headers().get(AUTHORIZATION)).unwrap_or_default();
    if !bool::from(token.as_bytes().ct_eq(guarded.token.as_bytes())) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect();
    let body = timeout(BODY_TIMEOUT, body).await;
    let body = body.map_err(|_| StatusCode::REQUEST_TIMEOUT)?;
    let body = body.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?.to_bytes();
    let watch: RemoteWatch = serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let watched = guarded.feed.watch(watch.into()).await;
    watched.map_err(|refused| match refused {
        WatchRefused::Full | WatchRefused::ProjectFull => StatusCode::TOO_MANY_REQUESTS,
        WatchRefused::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    })
}

/// Body with a line of JSON for each message.
fn lines(messages: mpsc::Receiver<LiveMessage>) -> ResponseBody {
    let frames = stream::unfold(messages, |mut messages| async move {
        let message = messages.recv().await?;
        Some((Ok::<_, Infallible>(Frame::data(line(&message))), messages))
    });
    StreamBody::new(frames).boxed_unsync()
}

fn line(message: &LiveMessage) -> Bytes {
    // Fails for no message.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line.into()
}
