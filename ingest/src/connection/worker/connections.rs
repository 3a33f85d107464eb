//! Connections of a worker: accepted, served, refused, and waited for.

use crate::admission::rejection::Rejection;
use crate::config::ServerConfig;
use crate::connection::limits::ConnectionPermit;
use crate::connection::raw_response::{https_required, raw_rejection, respond_and_close};
use crate::connection::state::ConnectionState;
use crate::connection::stop_phase::StopPhase;
use crate::connection::stream::TimedStream;
use crate::connection::transport::{Transport, handshaker};
use crate::core::Core;
use crate::http::handle;
use crate::metrics;
use futures_util::FutureExt;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use millrace_pipeline::panic_point::{PanicPoint, pass};
use millrace_tls::{HandshakeError, Handshaker};
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// Refused connections that get a response at the same time, per core; further ones are dropped.
const REFUSALS_MAX: usize = 64;
/// Time for which an idle connection may still bring a request once the process ends: one that is
/// under way while we close would be reset without a response.
const CLOSE_GRACE: Duration = Duration::from_secs(1);
/// Pause of accepting when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// State that a worker's connections share.
pub(super) struct Worker {
    core: Rc<Core>,
    http: http1::Builder,
    /// Handshakes of the core, where there is TLS.
    handshaker: Option<Rc<Handshaker>>,
    stop: watch::Receiver<StopPhase>,
    open: Cell<usize>,
    refusals: Cell<usize>,
    closed: Notify,
}

impl Worker {
    /// Worker without connections.
    pub(super) fn new(core: Rc<Core>, stop: watch::Receiver<StopPhase>) -> Rc<Self> {
        let config = &core.process.config;
        let tls = config.tls.clone();
        let limits = config.limits.handshakes;
        Rc::new(Self {
            http: hyper_settings(config),
            handshaker: tls.map(|tls| Rc::new(handshaker(tls, limits))),
            core,
            stop,
            open: Cell::new(0),
            refusals: Cell::new(0),
            closed: Notify::new(),
        })
    }

    /// Number of open connections.
    pub(super) fn open(&self) -> usize {
        self.open.get()
    }

    /// Serves an accepted connection, or refuses it.
    pub(super) async fn accepted(self: &Rc<Self>, accepted: io::Result<(TcpStream, SocketAddr)>) {
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_the_connections_own(&error) => return,
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                return tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        };
        let process = &self.core.process;
        let limited = (!process.config.trusts(peer.ip())).then_some(peer.ip());
        match process.connection_limiter.admit(limited) {
            Ok(permit) => {
                pass(PanicPoint::ConnectionAccepted);
                self.open.set(self.open.get() + 1);
                let open_connection = OpenConnection(Rc::clone(self));
                match self.handshaker.clone() {
                    None => self.spawn(connection(open_connection, stream, peer, permit)),
                    Some(handshaker) => {
                        let connection = secured(open_connection, handshaker, stream, peer, permit);
                        self.spawn(connection);
                    }
                }
            }
            Err(_) => self.refuse(stream),
        }
    }

    /// Serves a connection beside the others.
    fn spawn(&self, serving: impl Future<Output = ()> + 'static) {
        // Nothing of it is used after a panic.
        let serving = AssertUnwindSafe(serving).catch_unwind();
        let core = Rc::clone(&self.core);
        tokio::task::spawn_local(serving.map(move |ended| {
            if ended.is_err() {
                core.renew_after_panic();
                metrics::panicked();
                tracing::error!("a request panicked; its connection was closed");
            }
        }));
    }

    /// Answers 503 to a connection over the limit, if there is time for it.
    fn refuse(self: &Rc<Self>, stream: TcpStream) {
        if self.refusals.get() >= REFUSALS_MAX {
            return;
        }
        self.refusals.set(self.refusals.get() + 1);
        let worker = Rc::clone(self);
        let error = self.core.admission.error(Rejection::TooManyConnections);
        tokio::task::spawn_local(async move {
            let response = raw_rejection(&error);
            respond_and_close(stream, worker.handshaker.as_deref(), &response).await;
            worker.refusals.set(worker.refusals.get() - 1);
        });
    }

    /// Waits until every connection and every submission has ended.
    pub(super) async fn drained(&self) {
        while self.open.get() > 0 || !self.core.detached.is_empty() {
            // Detached tasks do not notify; they are few, and only the end of a process waits for
            // them.
            let _ = timeout(ACCEPT_PAUSE, self.closed.notified()).await;
        }
    }
}

/// Counts a connection out, however its task ends.
struct OpenConnection(Rc<Worker>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        self.0.closed.notify_one();
    }
}

/// Serves a connection behind its handshake, which gives way as a wait for a head does.
async fn secured(
    open_connection: OpenConnection,
    handshaker: Rc<Handshaker>,
    tcp: TcpStream,
    peer: SocketAddr,
    permit: ConnectionPermit,
) {
    let worker = &open_connection.0;
    let stall_timeout = worker.core.process.config.limits.stop_stall_timeout;
    let mut stop = worker.stop.clone();
    let stalled = async {
        StopPhase::stopped(&mut stop).await;
        tokio::time::sleep(stall_timeout).await;
    };
    let head_wait = permit.head_wait();
    let done = tokio::select! {
        done = handshaker.accept(tcp) => done,
        () = head_wait.evicted() => return,
        () = stalled => return,
    };
    match done {
        Ok(stream) => connection(open_connection, stream, peer, permit).await,
        Err(HandshakeError::PlainHttp(tcp)) => {
            respond_and_close(tcp, None, &https_required()).await;
        }
        Err(error) => tracing::debug!(%error, %peer, "a TLS handshake failed"),
    }
}

async fn connection(
    open_connection: OpenConnection,
    stream: impl Transport,
    peer: SocketAddr,
    permit: ConnectionPermit,
) {
    let worker = &open_connection.0;
    let core = &worker.core;
    let config = &core.process.config;
    let conn = ConnectionState::new(peer.ip(), config);
    let admission = Rc::clone(core);
    let head_wait = permit.head_wait();
    let stream = TimedStream::new(
        stream,
        Rc::clone(&conn),
        admission,
        head_wait,
        &config.limits,
    );
    let stream = TokioIo::new(stream);
    let service = service_fn(|request| {
        let ambiguous = conn.begin();
        handle(Rc::clone(core), Rc::clone(&conn), request, ambiguous)
    });
    let mut serving = pin!(worker.http.serve_connection(stream, service));
    let mut stop = worker.stop.clone();
    let ended = tokio::select! {
        biased;
        ended = serving.as_mut() => ended,
        () = StopPhase::stopped(&mut stop) => {
            // Before the connection is polled, so that a request that stalls learns of it.
            core.note_stop();
            conn.note_stop();
            if let Ok(ended) = timeout(CLOSE_GRACE, serving.as_mut()).await {
                ended
            } else {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "a connection ended early");
    }
}

/// Returns true if accepting failed for reasons of the one connection only.
fn is_the_connections_own(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

/// hyper's part of the limits. Its header timeout is off because the socket keeps time itself
/// ([`TimedStream`]); its limit on heads is twice ours, so that our response, in JSON, comes
/// first.
fn hyper_settings(config: &ServerConfig) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.header_read_timeout(None)
        .max_header_size(config.limits.header_bytes_max.saturating_mul(2))
        .half_close(true)
        // Its pipelining aid forgets to write the last response when the client sent more than was
        // read, which is every refusal before the end of a body.
        .pipeline_flush(false);
    http
}
