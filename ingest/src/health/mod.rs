//! Health listener: liveness, readiness and metrics, with a thread of its own, so that they are
//! answered when every core is busy.
//!
//! `GET /_health/live`, `GET /_health/ready`, `GET /_health/nodes`, `GET /metrics`. Only this
//! listener, and not the one for events, lists every part of the process under
//! `/_health/ready?verbose`, also those that readiness does not need, and, in a process with the
//! organization API, all nodes.
//!
//! This module has the listener and its connections, `responses` what they are answered.

mod responses;

pub use crate::readiness::{FailedCheck, PartState, Readiness};
pub use responses::{live, ready};

use crate::connection::raw_response::{https_required, respond_and_close};
use crate::metrics_page::MetricsPage;
use crate::metrics_source::MetricsSource;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use millrace_tls::{ClientCertificates, HandshakeError, HandshakeLimits, Handshaker, ServerTls};
use responses::{ProbeSources, respond};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::LocalOptions;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// Interval in which histograms are tidied; they keep every sample until then.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
/// Time that a probe may take to send its head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that a connection may last, as a probe that reads nothing of its response would keep it for
/// ever.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of a request's head, at most.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Connections at a time: one more ends the oldest, so that nobody keeps probes out.
const CONNECTIONS_MAX: usize = 64;
/// Limits of handshakes.
const HANDSHAKES: HandshakeLimits = HandshakeLimits {
    timeout: HEAD_TIMEOUT,
    count_max: CONNECTIONS_MAX,
};

/// Health listener; dropping it ends its thread.
#[derive(Debug)]
pub struct HealthServer {
    addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HealthServer {
    /// Listens on `addr` (port 0 takes a free one) with a thread of its own, with TLS if there is a
    /// certificate. Probes need none of their own. `metrics` has what `/metrics` shows.
    ///
    /// # Errors
    /// When the address cannot be listened on, or the thread or its runtime cannot be made.
    pub fn start(
        addr: SocketAddr,
        readiness: Readiness,
        metrics: impl Into<MetricsSource>,
        tls: Option<ServerTls>,
    ) -> std::io::Result<Self> {
        let metrics = metrics.into();
        let listener = TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("health".to_owned())
            .spawn(move || {
                let runtime = runtime().enable_all().build_local(LocalOptions::default());
                match runtime {
                    Ok(runtime) => {
                        let sources = Rc::new(ProbeSources {
                            readiness,
                            metrics,
                            metrics_page: MetricsPage::default(),
                        });
                        runtime.block_on(serve(listener, sources, tls, stopped));
                    }
                    Err(error) => tracing::error!(%error, "the health listener has no runtime"),
                }
            })?;
        Ok(Self {
            addr,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Address listened on.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for HealthServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Its only way to fail is a panic, which was reported where it happened.
            let _ = thread.join();
        }
    }
}

async fn serve(
    listener: TcpListener,
    sources: Rc<ProbeSources>,
    tls: Option<ServerTls>,
    mut stopped: oneshot::Receiver<()>,
) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the health listener cannot be polled"),
    };
    let not_asked = ClientCertificates::NotAsked;
    let handshaker = tls.map(|tls| Handshaker::new(tls, "health", not_asked, HANDSHAKES));
    let handshaker = handshaker.map(Rc::new);
    let mut upkeep = tokio::time::interval(UPKEEP_EVERY);
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    open.retain(|connection| !connection.is_finished());
                    if open.len() >= CONNECTIONS_MAX
                        && let Some(oldest) = open.pop_front()
                    {
                        oldest.abort();
                    }
                    let connection = probe(stream, handshaker.clone(), Rc::clone(&sources));
                    open.push_back(tokio::task::spawn_local(connection).abort_handle());
                    // Requests that have come are answered before more connections end theirs.
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    tracing::warn!(%error, "the health listener cannot accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            _ = upkeep.tick() => sources.metrics.run_upkeep(),
            _ = &mut stopped => return,
        }
    }
}

/// Serves a connection, behind its handshake where there is TLS.
async fn probe(tcp: TcpStream, handshaker: Option<Rc<Handshaker>>, sources: Rc<ProbeSources>) {
    let Some(handshaker) = handshaker else {
        return connection(tcp, sources).await;
    };
    match handshaker.accept(tcp).await {
        Ok(stream) => connection(stream, sources).await,
        Err(HandshakeError::PlainHttp(tcp)) => {
            respond_and_close(tcp, None, &https_required()).await;
        }
        Err(error) => tracing::debug!(%error, "a TLS handshake of a probe failed"),
    }
}

async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin, sources: Rc<ProbeSources>) {
    let service = service_fn(move |request: Request<Incoming>| {
        std::future::ready(Ok::<_, Infallible>(respond(&request, &sources)))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CONNECTION_TIMEOUT, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a probe's connection ended early"),
        Err(_) => tracing::debug!("a probe's connection lasted too long"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::time::Instant;

    fn sources() -> Rc<ProbeSources> {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        Rc::new(ProbeSources {
            readiness: Readiness::new(),
            metrics: recorder.handle().into(),
            metrics_page: MetricsPage::default(),
        })
    }

    /// Runs a probe's end of a connection, and returns how long the server kept the other end.
    async fn lasted<F: Future<Output = ()>>(probe: impl FnOnce(DuplexStream) -> F) -> Duration {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let began = Instant::now();
        let served = async {
            connection(theirs, sources()).await;
            began.elapsed()
        };
        let (lasted, ()) = tokio::join!(served, probe(ours));
        lasted
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_has_five_seconds_and_sixteen_kib() {
        let slow = lasted(|mut probe| async move {
            probe.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
            let mut answer = Vec::new();
            probe.read_to_end(&mut answer).await.unwrap();
        });
        assert_eq!(slow.await.as_secs(), 5);
        let long = |bytes: usize| {
            lasted(move |mut probe| async move {
                let head = format!(
                    "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\na: {}\r\n\r\n",
                    "a".repeat(bytes)
                );
                probe.write_all(head.as_bytes()).await.unwrap();
                let mut answer = String::new();
                probe.read_to_string(&mut answer).await.unwrap();
                let is_answered = answer.starts_with("HTTP/1.1 200");
                assert_eq!(is_answered, bytes < HEAD_BYTES_MAX, "{bytes}: {answer}");
            })
        };
        for bytes in [8 << 10, 15 << 10, 17 << 10, 512 << 10] {
            assert_eq!(long(bytes).await.as_secs(), 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_lasts_a_minute_however_many_requests_it_sends() {
        let busy = lasted(|mut probe| async move {
            let mut answer = [0; 4 << 10];
            // Asks every two seconds, until the server does not answer.
            loop {
                if probe
                    .write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
                    .await
                    .is_err()
                    || probe.read(&mut answer).await.unwrap_or(0) == 0
                {
                    return;
                }
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        });
        assert_eq!(busy.await.as_secs(), 60);
    }

    #[tokio::test(start_paused = true)]
    async fn metrics_that_are_asked_for_again_and_again_are_answered_at_once() {
        let lasted = lasted(|mut probe| async move {
            let head = "GET /metrics HTTP/1.1\r\nHost: h\r\n";
            let heads = format!("{head}\r\n").repeat(25) + head + "Connection: close\r\n\r\n";
            probe.write_all(heads.as_bytes()).await.unwrap();
            let mut answers = String::new();
            probe.read_to_string(&mut answers).await.unwrap();
            assert_eq!(answers.matches("HTTP/1.1 200").count(), 26);
        });
        assert_eq!(lasted.await.as_millis(), 0);
    }
}
