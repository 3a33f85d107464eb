//! Baseline servers, which do as little as possible.
//!
//! They run beside the server under test in the same conditions. The ratios mean something even on
//! a noisy machine: to a bare hyper server that drops every body, and to one that also builds a
//! simd-json tape of each body.

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;
use tokio_rustls::TlsAcceptor;

const ANSWER: &str = "{\"status\":\"Ok\"}";

/// Processing of a body before the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Reads and drops the body.
    Drain,
    /// Gathers the body in one buffer and parses it to a simd-json tape; buffers are reused.
    Tape,
}

/// Counts of a server's requests.
#[derive(Debug, Default)]
pub struct RequestCounts {
    /// Requests answered.
    pub requests: AtomicU64,
    /// Bytes of their bodies.
    pub body_bytes: AtomicU64,
}

/// Serves until `shutdown` on the calling thread only. Bodies must not be compressed.
///
/// # Errors
/// The listener failed.
pub async fn serve(
    listener: TcpListener,
    work: Work,
    counts: Arc<RequestCounts>,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    serve_with(listener, None, work, counts, shutdown).await
}

/// Serves over TLS, otherwise like [`serve`].
///
/// # Errors
/// As [`serve`].
pub async fn serve_tls(
    listener: TcpListener,
    tls: TlsAcceptor,
    work: Work,
    counts: Arc<RequestCounts>,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    serve_with(listener, Some(tls), work, counts, shutdown).await
}

async fn serve_with(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    work: Work,
    counts: Arc<RequestCounts>,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let baseline = Rc::new(Baseline {
        work,
        counts,
        tls,
        parser: RefCell::default(),
    });
    let accept = async {
        loop {
            let (stream, _) = listener.accept().await.context("accept")?;
            stream.set_nodelay(true).context("TCP_NODELAY")?;
            tokio::task::spawn_local(accepted(stream, Rc::clone(&baseline)));
        }
    };
    LocalSet::new()
        .run_until(async {
            tokio::select! {
                outcome = accept => outcome,
                () = shutdown => Ok(()),
            }
        })
        .await
}

struct Baseline {
    work: Work,
    counts: Arc<RequestCounts>,
    tls: Option<TlsAcceptor>,
    parser: RefCell<Parser>,
}

#[derive(Default)]
struct Parser {
    /// Buffers for bodies that no request uses; as many as there were concurrent requests.
    bodies: Vec<Vec<u8>>,
    buffers: simd_json::Buffers,
}

async fn accepted(stream: TcpStream, baseline: Rc<Baseline>) {
    match baseline.tls.clone() {
        None => connection(stream, baseline).await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                connection(stream, baseline).await;
            }
        }
    }
}

async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin, baseline: Rc<Baseline>) {
    let service = service_fn(move |request| {
        let baseline = Rc::clone(&baseline);
        async move { Ok::<_, Infallible>(baseline.answer(request).await) }
    });
    // A broken connection is the client's affair.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

impl Baseline {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let outcome = match self.work {
            Work::Drain => self.drain(request.into_body()).await,
            Work::Tape => self.tape(request.into_body()).await,
        };
        self.counts.requests.fetch_add(1, Ordering::Relaxed);
        let mut response = Response::new(Full::new(Bytes::from_static(ANSWER.as_bytes())));
        if outcome.is_err() {
            *response.status_mut() = StatusCode::BAD_REQUEST;
        }
        response
    }

    async fn drain(&self, mut body: Incoming) -> Result<()> {
        while let Some(frame) = body.frame().await {
            self.count(frame?.data_ref());
        }
        Ok(())
    }

    /// Parses the body to a tape. Each request has a buffer of its own, as several run
    /// concurrently.
    async fn tape(&self, mut body: Incoming) -> Result<()> {
        let mut bytes = self.parser.borrow_mut().bodies.pop().unwrap_or_default();
        bytes.clear();
        let announced = body.size_hint().exact().unwrap_or_default();
        bytes.reserve(usize::try_from(announced).unwrap_or_default());
        while let Some(frame) = body.frame().await {
            let frame = frame?;
            self.count(frame.data_ref());
            bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        }
        let mut parser = self.parser.borrow_mut();
        let parsed = simd_json::to_tape_with_buffers(&mut bytes, &mut parser.buffers)
            .map(|tape| std::hint::black_box(tape.0.len()))
            .context("not JSON");
        parser.bodies.push(bytes);
        parsed.map(|_| ())
    }

    fn count(&self, data: Option<&Bytes>) {
        let bytes = data.map_or(0, Bytes::len) as u64;
        self.counts.body_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
