//! Whether the process lives, and whether it is to be sent events; with metrics, on a listener
//! and a thread of their own, so that both are answered when every core is busy.
//!
//! `GET /_health/live`, `GET /_health/ready`, `GET /metrics`.

use crate::http::Answer;
use crate::metrics;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use std::convert::Infallible;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::LocalOptions;
use tokio::sync::oneshot;
use uuid::Uuid;

/// How often histograms are tidied; they keep every sample until then.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
/// How long a probe may take to send its head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// A condition: `None` while it holds, else what is wrong, for people.
type Check = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// Whether the process is to be sent events: a list of named conditions. Clones share it.
#[derive(Clone, Default)]
pub struct Readiness(Arc<Conditions>);

#[derive(Default)]
struct Conditions {
    checks: RwLock<Vec<(&'static str, Check)>>,
    shutting_down: AtomicBool,
}

/// A condition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The condition.
    pub name: &'static str,
    /// What is wrong, for people.
    pub detail: String,
}

/// The health listener; dropping it ends its thread.
#[derive(Debug)]
pub struct HealthServer {
    addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

// === impl Readiness ===

impl Readiness {
    /// Ready, as long as nothing else is asked for.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for one more condition. `check` is called for every probe, so it must not wait.
    pub fn require(
        &self,
        name: &'static str,
        check: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) {
        let mut checks = self
            .0
            .checks
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        checks.push((name, Box::new(check)));
    }

    /// From now on not ready: a load balancer should look elsewhere.
    pub fn shut_down(&self) {
        self.0.shutting_down.store(true, Ordering::Release);
    }

    /// Whether the process ends.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.0.shutting_down.load(Ordering::Acquire)
    }

    /// What is wrong now; nothing when ready.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let checks = self.0.checks.read().unwrap_or_else(PoisonError::into_inner);
        let failed = checks
            .iter()
            .filter_map(|(name, check)| check().map(|detail| Problem { name, detail }));
        let ending = self.is_shutting_down().then(|| Problem {
            name: "shutdown",
            detail: "the server is shutting down".to_owned(),
        });
        failed.chain(ending).collect()
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Readiness").field(&self.problems()).finish()
    }
}

/// The answer to `/_health/live`: whoever can answer lives.
pub fn live() -> Answer {
    Answer::ok_static(r#"{"status":"live"}"#).never_cached()
}

/// The answer to `/_health/ready`.
pub fn ready(readiness: &Readiness) -> Answer {
    #[derive(Serialize)]
    struct NotReady {
        r#type: &'static str,
        code: &'static str,
        detail: &'static str,
        attr: Option<&'static str>,
        problems: Vec<Problem>,
    }
    let problems = readiness.problems();
    if problems.is_empty() {
        return Answer::ok_static(r#"{"status":"ready"}"#).never_cached();
    }
    let body = NotReady {
        r#type: "server_error",
        code: "not_ready",
        detail: "The server does not take events now; problems says why.",
        attr: None,
        problems,
    };
    Answer::json(StatusCode::SERVICE_UNAVAILABLE, &body).never_cached()
}

// === impl HealthServer ===

impl HealthServer {
    /// Listens on `addr` (port 0 takes a free one) with a thread of its own.
    ///
    /// # Errors
    /// When the address cannot be listened on, or the thread or its runtime cannot be made.
    pub fn start(
        addr: SocketAddr,
        readiness: Readiness,
        prometheus: PrometheusHandle,
    ) -> std::io::Result<Self> {
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
                        runtime.block_on(serve(listener, readiness, prometheus, stopped));
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

    /// The address listened on.
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
    readiness: Readiness,
    prometheus: PrometheusHandle,
    mut stopped: oneshot::Receiver<()>,
) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "the health listener cannot be polled"),
    };
    let probed = Rc::new((readiness, prometheus));
    let mut upkeep = tokio::time::interval(UPKEEP_EVERY);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    tokio::task::spawn_local(connection(stream, Rc::clone(&probed)));
                }
                Err(error) => {
                    tracing::warn!(%error, "the health listener cannot accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            _ = upkeep.tick() => probed.1.run_upkeep(),
            _ = &mut stopped => return,
        }
    }
}

async fn connection(stream: tokio::net::TcpStream, probed: Rc<(Readiness, PrometheusHandle)>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(&request, &probed.0, &probed.1);
        async move { Ok::<_, Infallible>(response) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a probe's connection ended early");
    }
}

fn respond(
    request: &Request<Incoming>,
    readiness: &Readiness,
    prometheus: &PrometheusHandle,
) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let path = path.strip_suffix('/').unwrap_or(path);
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let answer = match path {
        "" | "/_health/live" | "/_health/ready" | "/metrics" if !is_read => {
            Answer::method_not_allowed("GET, HEAD", false)
        }
        "/_health/live" | "" => live(),
        "/_health/ready" => ready(readiness),
        "/metrics" => {
            let ready = readiness.problems().is_empty();
            metrics::ready().set(f64::from(u8::from(ready)));
            let mut response = Response::new(Full::from(prometheus.render()));
            let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, text);
            return response;
        }
        _ => Answer::not_found(),
    };
    answer.into_response(None, Uuid::now_v7())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_that_fails_is_named() {
        let readiness = Readiness::new();
        assert_eq!(ready(&readiness).status, StatusCode::OK);
        let full = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&full);
        readiness.require("catalog", || None);
        readiness.require("log", move || {
            flag.load(Ordering::Acquire)
                .then(|| "the log is full".to_owned())
        });
        assert_eq!(readiness.problems(), []);
        full.store(true, Ordering::Release);
        readiness.shut_down();
        let names: Vec<_> = readiness
            .problems()
            .into_iter()
            .map(|problem| problem.name)
            .collect();
        assert_eq!(names, ["log", "shutdown"]);
        let answer = ready(&readiness);
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        let body = String::from_utf8(answer.body.to_vec()).unwrap();
        assert!(
            body.contains(r#"{"name":"log","detail":"the log is full"}"#),
            "{body}"
        );
    }
}
