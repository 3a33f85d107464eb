//! The engine's process: engine, listener, and a shutdown that lets running statements finish.

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
use tokio::sync::watch;
use tokio::time::{interval, sleep, timeout};

use crate::auth::Credentials;
use crate::connections::{ConnectionGuard, Connections};
use crate::engine::{Engine, PreparedEngine};
use crate::held_bytes::{HELD_BYTES_MAX, HeldBytes, REQUEST_BYTES_MAX};
use crate::http::ServerState;
use crate::request::SEND_MAX_DEFAULT;
use crate::send_limit::{SendLimit, SendLimited};
use crate::session::Sessions;
use crate::statement_slots::{STATEMENTS_MAX, StatementSlots};
use crate::{EngineError, EngineOptions};

/// Time that running statements have to finish once shutdown begins.
const GRACE: Duration = Duration::from_secs(10);
/// Time within which a client must send its request's head; a server's `keep_alive_timeout` is as
/// long.
const HEADER_READ_MAX: Duration = Duration::from_secs(10);
/// Longest request head, bytes: it is read before the client is authenticated. A longer statement
/// goes into the body.
const HEAD_BYTES_MAX: usize = 64 << 10;
const SESSIONS_CHECK: Duration = Duration::from_secs(10);

/// Starts the engine and serves requests until `shutdown` resolves; then waits for running
/// statements, for at most 10 seconds, and closes the engine. Blocks the calling thread. `on_ready`
/// is given the address once requests are served.
///
/// # Errors
/// A problem with the library, the data directory or the address, as one sentence for the operator.
pub fn run(
    options: EngineOptions,
    on_ready: impl FnOnce(SocketAddr),
    shutdown: impl Future,
) -> Result<(), EngineError> {
    let address = options.listen;
    // Bound before the engine starts, so that a busy port is reported at once; and before the
    // process is confined, as afterwards it can listen nowhere.
    let not_bound = |source| EngineError::Listen { address, source };
    let listener = std::net::TcpListener::bind(address).map_err(not_bound)?;
    listener.set_nonblocking(true).map_err(not_bound)?;
    let bound = listener.local_addr().map_err(not_bound)?;
    // Confines this thread and those that it starts: all of the runtime's, and hence the engine's.
    let prepared = PreparedEngine::prepare(&options)?;
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
        let starting = tokio::task::spawn_blocking(move || Engine::start(&options, prepared));
        let started = starting
            .await
            .map_err(|error| EngineError::FirstQuery(error.to_string()))?;
        let engine = Arc::new(started?);
        tracing::info!(address = %bound, version = engine.version, "ClickHouse engine is up");
        let state = Arc::new(ServerState {
            engine: Arc::clone(&engine),
            sessions: Sessions::default(),
            credentials,
            statement_slots: StatementSlots::default(),
            held_bytes: HeldBytes::new(HELD_BYTES_MAX),
            request_bytes: HeldBytes::new(REQUEST_BYTES_MAX),
        });
        on_ready(bound);
        serve(listener, &state, shutdown).await;
        state.sessions.end_all();
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

async fn serve(listener: TcpListener, state: &Arc<ServerState>, shutdown: impl Future) {
    let (stop, stopping) = watch::channel(false);
    let connections = Connections::default();
    let mut check = interval(SESSIONS_CHECK);
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        tokio::select! {
            _ = &mut shutdown => break,
            _ = check.tick() => state.sessions.end_expired(),
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => match connections.register(peer.ip()) {
                    Some(guard) => {
                        tokio::spawn(connection(stream, guard, Arc::clone(state), stopping.clone()));
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
    guard: ConnectionGuard,
    state: Arc<ServerState>,
    mut stopping: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let send_limit = SendLimit::new(SEND_MAX_DEFAULT);
    let stream = SendLimited::new(stream, send_limit.clone());
    let (guard, send_limit) = (&guard, &send_limit);
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(state.respond(request, guard, send_limit).await) }
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
        () = guard.evicted() => return,
        () = stop_requested(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn stop_requested(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}
