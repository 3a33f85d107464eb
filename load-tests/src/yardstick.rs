//! Servers that do as little as possible, to compare with.
//!
//! They run beside the server under test, in the same conditions, so that ratios say something
//! even on a noisy machine: what a bare hyper server takes when it drops every body, and what it
//! takes when it also builds a simd-json tape of each.

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

/// What is done with a body before the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Read and dropped.
    Drain,
    /// Gathered into one buffer and parsed to a tape with simd-json, buffers reused.
    Tape,
}

/// What a server has seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Requests answered.
    pub requests: AtomicU64,
    /// Bytes of their bodies.
    pub body_bytes: AtomicU64,
}

/// Serves until `shutdown`; one thread, the calling one. Bodies must not be compressed.
///
/// # Errors
/// The listener failed.
pub async fn serve(
    listener: TcpListener,
    work: Work,
    seen: Arc<Seen>,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    serve_with(listener, None, work, seen, shutdown).await
}

/// The same behind TLS.
///
/// # Errors
/// As [`serve`].
pub async fn serve_tls(
    listener: TcpListener,
    tls: TlsAcceptor,
    work: Work,
    seen: Arc<Seen>,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    serve_with(listener, Some(tls), work, seen, shutdown).await
}

async fn serve_with(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    work: Work,
    seen: Arc<Seen>,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let yardstick = Rc::new(Yardstick {
        work,
        seen,
        tls,
        parser: RefCell::default(),
    });
    let accept = async {
        loop {
            let (stream, _) = listener.accept().await.context("accept")?;
            stream.set_nodelay(true).context("TCP_NODELAY")?;
            tokio::task::spawn_local(accepted(stream, Rc::clone(&yardstick)));
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

struct Yardstick {
    work: Work,
    seen: Arc<Seen>,
    tls: Option<TlsAcceptor>,
    parser: RefCell<Parser>,
}

#[derive(Default)]
struct Parser {
    /// Buffers for bodies that no request is using; as many as there were requests at once.
    bodies: Vec<Vec<u8>>,
    buffers: simd_json::Buffers,
}

async fn accepted(stream: TcpStream, yardstick: Rc<Yardstick>) {
    match yardstick.tls.clone() {
        None => connection(stream, yardstick).await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                connection(stream, yardstick).await;
            }
        }
    }
}

async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin, yardstick: Rc<Yardstick>) {
    let service = service_fn(move |request| {
        let yardstick = Rc::clone(&yardstick);
        async move { Ok::<_, Infallible>(yardstick.answer(request).await) }
    });
    // A connection that breaks is its client's affair.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

impl Yardstick {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let outcome = match self.work {
            Work::Drain => self.drain(request.into_body()).await,
            Work::Tape => self.tape(request.into_body()).await,
        };
        self.seen.requests.fetch_add(1, Ordering::Relaxed);
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

    /// Each request gathers its body in a buffer of its own, as several are under way at once.
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
        self.seen.body_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
