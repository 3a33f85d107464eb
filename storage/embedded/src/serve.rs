//! The process: engine, listener, and an end that lets running statements finish.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, watch};
use tokio::time::{interval, sleep, timeout};

use crate::auth::Credentials;
use crate::connections::{Connections, Guest};
use crate::engine::{Engine, Ground};
use crate::http::{STATEMENTS_MAX, Shared};
use crate::session::Sessions;
use crate::{EngineError, EngineOptions};

/// How long running statements may take to finish once the end is asked for.
const GRACE: Duration = Duration::from_secs(10);
/// A client must have sent its request's head by then; a server's `keep_alive_timeout` is as long.
const HEADER_READ_MAX: Duration = Duration::from_secs(10);
/// Longest head, bytes: it is read before it is known who sends it. A longer statement goes into the body.
const HEAD_BYTES_MAX: usize = 64 << 10;
const SESSIONS_CHECK: Duration = Duration::from_secs(10);

/// Starts the engine, listens, and answers until `shutdown` resolves; then finishes what runs, for at most 10 seconds,
/// and closes the engine. Blocks the calling thread. `on_ready` is told the address once requests are answered.
///
/// # Errors
/// One sentence for the operator: library, data directory, address.
pub fn run(
    options: EngineOptions,
    on_ready: impl FnOnce(SocketAddr),
    shutdown: impl Future,
) -> Result<(), EngineError> {
    let address = options.listen;
    // Before the engine starts, so that a busy port is told at once; and before the process is confined, as from then
    // on it listens nowhere else.
    let not_bound = |source| EngineError::Listen { address, source };
    let listener = std::net::TcpListener::bind(address).map_err(not_bound)?;
    listener.set_nonblocking(true).map_err(not_bound)?;
    let bound = listener.local_addr().map_err(not_bound)?;
    // What is confined is this thread and those that it starts: all of the runtime's, and hence the engine's.
    let ground = Ground::prepare(&options)?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(STATEMENTS_MAX + 16)
        .thread_name("clickhouse-http")
        .enable_all()
        .build()
        .map_err(EngineError::Runtime)?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener).map_err(not_bound)?;
        let credentials = Credentials::new(&options.user, &options.password);
        let starting = tokio::task::spawn_blocking(move || Engine::start(&options, ground));
        let started = starting
            .await
            .map_err(|error| EngineError::FirstQuery(error.to_string()))?;
        let engine = Arc::new(started?);
        tracing::info!(address = %bound, version = engine.version, "ClickHouse engine is up");
        let shared = Arc::new(Shared {
            engine: Arc::clone(&engine),
            sessions: Sessions::default(),
            credentials,
            turns: Arc::new(Semaphore::new(STATEMENTS_MAX)),
        });
        on_ready(bound);
        serve(listener, &shared, shutdown).await;
        shared.sessions.end_all();
        let closed = tokio::task::spawn_blocking(move || engine.shutdown())
            .await
            .unwrap_or(false);
        if closed {
            tracing::info!("ClickHouse engine is down");
        } else {
            tracing::info!("ClickHouse engine ends with its process: connections to it are open");
        }
        Ok(())
    })
}

async fn serve(listener: TcpListener, shared: &Arc<Shared>, shutdown: impl Future) {
    let (stop, stopping) = watch::channel(false);
    let connections = Connections::default();
    let mut check = interval(SESSIONS_CHECK);
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            _ = &mut shutdown => break,
            _ = check.tick() => shared.sessions.end_expired(),
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => match connections.enter(peer.ip()) {
                    Some(guest) => {
                        tokio::spawn(connection(stream, guest, Arc::clone(shared), stopping.clone()));
                    }
                    None => tracing::debug!(%peer, "a connection too many is closed"),
                },
                Err(error) => {
                    // Out of file descriptors, most likely: some come back as connections end.
                    tracing::warn!(%error, "cannot accept a connection");
                    sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
    drop(listener);
    drop(stopping);
    let _ = stop.send(true);
    // Every connection's task holds a receiver; when the last is gone, all have finished.
    if timeout(GRACE, stop.closed()).await.is_err() {
        tracing::warn!("statements still running after the grace period are abandoned");
    }
}

async fn connection(
    stream: TcpStream,
    guest: Guest,
    shared: Arc<Shared>,
    mut stopping: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let guest = &guest;
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(shared.answer(request, guest).await) }
    });
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_READ_MAX)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service)
    );
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = guest.ended() => return,
        () = asked_to_stop(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn asked_to_stop(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}
