//! The accept loop.
//!
//! warp's own server has no time-outs, so connections are served by hyper here, with limits on
//! the number of connections, in all and of each address; on the time of a handshake, where there
//! is TLS (`socket`), and of a request's head; on how long a client may read nothing of its response, and on how slowly it may read the rest. A
//! client that stalls in a request while the server stops is not waited for (`stopping`).
//! `middleware` bounds the time until there is a response, and the memory of all responses.

use crate::connections::ConnectionLimiter;
use crate::filter::routes;
use crate::mail::Outbox;
use crate::metrics;
use crate::proxy_check::ProxyCheckWorker;
use crate::request::origin::Peer;
use crate::response::paced_body::paced;
use crate::services::Services;
use crate::socket::{handshaker, socket};
use crate::stopping::Stopping;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;
use tokio_util::task::AbortOnDropHandle;

/// Most open connections; more wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 1_024;
/// Longest time that requests in flight may take after `shutdown`.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time from `shutdown` to the end of [`serve`]: requests in flight, then mails.
pub const STOP_TIME_MAX: Duration = DRAIN_TIMEOUT.saturating_mul(2);
/// Pause after `accept` failed, as it does when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Size limit of a request's head.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Serves the API on `listener` and checks proxy records until `shutdown` resolves. Then waits at
/// most 10 seconds for requests in flight, and as long again for mails. Must run on the runtime
/// that opened the catalog.
///
/// # Errors
///
/// The authority of the probe's options is no certificate, or the listener cannot accept at all, or
/// what makes the checks panicked (one check that does is only logged); then requests in flight are
/// waited for. Running out of file descriptors is no such error: that passes, and is waited for.
pub async fn serve(
    listener: TcpListener,
    services: Services,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    metrics::describe();
    let proxy_checks = ProxyCheckWorker::new(&services).map_err(io::Error::other)?;
    serve_beside(proxy_checks.run(), listener, services, shutdown).await
}

/// Serves the API beside the checks of proxy records.
async fn serve_beside(
    proxy_checks: impl Future<Output = Infallible> + Send + 'static,
    listener: TcpListener,
    services: Services,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let (outbox, stopping) = (services.outbox.clone(), services.stopping.clone());
    let connections = ConnectionLimiter::new(services.config.trusted_proxies.clone());
    let tls = services.tls.clone();
    let head_timeout = services.config.head_timeout;
    let write_timeout = services.config.write_timeout;
    // Aborted when this call ends, or before the drain.
    let mut proxy_checks = AbortOnDropHandle::new(tokio::spawn(proxy_checks));
    let filter = routes(services).map_err(io::Error::other)?;
    let service = TowerToHyperService::new(warp::service(filter));
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let handshaker = tls.map(|tls| Arc::new(handshaker(tls)));
    let graceful = GracefulShutdown::new();
    let mut shutdown = pin!(shutdown);
    let ended = loop {
        let (slot, tcp, from) = tokio::select! {
            () = &mut shutdown => break Ok(()),
            Err(error) = &mut proxy_checks => {
                break Err(io::Error::other(format!("checks of proxy records failed: {error}")));
            }
            accepted = accept(&listener, &slots) => accepted?,
        };
        let Some(permit) = connections.try_acquire(from.ip()) else {
            tracing::debug!(address = %from.ip(), "an address has too many connections");
            continue;
        };
        let peer = Peer {
            address: from,
            is_tls: handshaker.is_some(),
        };
        let has_request = Arc::new(AtomicBool::new(false));
        let (service, requested) = (service.clone(), Arc::clone(&has_request));
        let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
            requested.store(true, Ordering::Relaxed);
            request.extensions_mut().insert(peer);
            let answering = hyper::service::Service::call(&service, request);
            async move { answering.await.map(paced) }
        });
        let (watcher, stopping) = (graceful.watcher(), stopping.clone());
        let handshaker = handshaker.clone();
        // Ends with the connection, which ends with its time-outs or the drain.
        tokio::spawn(async move {
            let socket = socket(tcp, handshaker.as_deref(), &stopping).await;
            if let Some(socket) = socket {
                let mut stream = TimeoutStream::new(socket);
                stream.set_write_timeout(Some(write_timeout));
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(head_timeout)
                    .max_buf_size(HEAD_BYTES_MAX)
                    .serve_connection(TokioIo::new(Box::pin(stream)), service);
                served(watcher.watch(connection), stopping, has_request).await;
            }
            drop((slot, permit));
        });
    };
    stopping.begin();
    drop((listener, proxy_checks));
    drain(graceful, outbox).await;
    ended
}

/// Waits for requests in flight, and then for mails.
async fn drain(graceful: GracefulShutdown, outbox: Option<Outbox>) {
    if tokio::time::timeout(DRAIN_TIMEOUT, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("requests to the admin API were cut off after {DRAIN_TIMEOUT:?}");
    }
    if let Some(outbox) = outbox {
        outbox.drain(DRAIN_TIMEOUT).await;
    }
}

/// Waits for the end of a connection; ends it if it still has no request some time after a stop.
async fn served(
    connection: impl Future<Output = hyper::Result<()>>,
    stopping: Stopping,
    has_request: Arc<AtomicBool>,
) {
    tokio::select! {
        ended = connection => if let Err(error) = ended {
            tracing::debug!(%error, "a connection to the admin API ended early");
        },
        () = stopping.first_head_stalled(&has_request) => {
            tracing::debug!("a head did not arrive while the admin API stopped");
        }
    }
}

/// Accepts the next connection once there is a slot for it; an error is the listener's.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> io::Result<(OwnedSemaphorePermit, TcpStream, SocketAddr)> {
    loop {
        // Taken first, so that a connection we cannot serve stays with the kernel.
        let slot = Arc::clone(slots).acquire_owned().await;
        let slot = slot.map_err(io::Error::other)?;
        match listener.accept().await {
            Ok((stream, from)) => return Ok((slot, stream, from)),
            Err(error) if is_broken(&error) => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection to the admin API");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Returns true if the listener itself is broken, not the connection.
fn is_broken(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(
        kind,
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_catalog::Catalog;
    use millrace_catalog::testing::{DatabaseKind, TestDatabase};
    use millrace_exports::SecretKey;
    use tokio::time::timeout;

    async fn failing() -> Infallible {
        panic!("a mistake of ours");
    }

    #[tokio::test]
    async fn a_panic_of_the_checks_of_proxy_records_ends_the_server_with_an_error() {
        let database = TestDatabase::of(DatabaseKind::Sqlite).await;
        let catalog = Catalog::open(database.url()).await.unwrap();
        let services = Services::new(catalog, SecretKey::generate().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let serving = serve_beside(failing(), listener, services, std::future::pending());
        let ended = timeout(Duration::from_secs(20), serving).await;
        let ended = ended.expect("it serves on, and checks nothing any more");
        assert!(ended.unwrap_err().to_string().contains("a mistake of ours"));
    }

    #[tokio::test]
    async fn a_connection_without_a_slot_stays_with_the_kernel() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let slots = Arc::new(Semaphore::new(2));
        let mut clients = Vec::new();
        let mut served = Vec::new();
        for _ in 0..3 {
            clients.push(TcpStream::connect(address).await.unwrap());
        }
        for _ in 0..2 {
            served.push(accept(&listener, &slots).await.unwrap());
        }
        let soon = Duration::from_millis(50);
        assert!(timeout(soon, accept(&listener, &slots)).await.is_err());
        served.pop();
        let (_, _, from) = accept(&listener, &slots).await.unwrap();
        assert_eq!(from, clients[2].local_addr().unwrap());
    }
}
