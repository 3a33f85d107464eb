//! Stands between server and engine and keeps the inserts that pass.
//!
//! What is kept are the bytes of the requests, so that a bare loop can send the engine the very
//! same blocks.

use crate::plan::Target;
use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// A request that inserts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Insert {
    /// The path and the statement with its settings.
    pub path_and_query: String,
    /// The rows.
    pub rows: Bytes,
}

/// A running tap.
#[derive(Debug)]
pub struct Tap {
    /// Where it listens, as `http://host:port`.
    pub url: String,
    passing: Arc<Passing>,
    /// Dropped to end it.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<()>>>,
}

#[derive(Debug)]
struct Passing {
    /// The engine.
    to: String,
    /// A part of the statement of those that are kept.
    of: String,
    bytes_max: usize,
    kept: Mutex<Vec<Insert>>,
}

impl Tap {
    /// Starts one in front of `url` that keeps inserts with `of` in their statements, about
    /// `bytes_max` bytes of them.
    ///
    /// # Errors
    /// The URL is none, or the system refuses a port or a thread.
    pub fn start(url: &str, of: &str, bytes_max: usize) -> Result<Self> {
        let passing = Arc::new(Passing {
            to: Target::parse(url)?.authority,
            of: of.to_owned(),
            bytes_max,
            kept: Mutex::default(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start a runtime")?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
        listener
            .set_nonblocking(true)
            .context("cannot listen without waiting")?;
        let url = format!("http://{}", listener.local_addr().context("address")?);
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&passing);
        let thread = std::thread::Builder::new()
            .name("tap".to_owned())
            .spawn(move || runtime.block_on(serve(listener, shared, stopped)))
            .context("cannot start a thread")?;
        Ok(Self {
            url,
            passing,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Ends it; gives what was kept, in the order in which it came.
    ///
    /// # Errors
    /// It had failed.
    pub fn end(mut self) -> Result<Vec<Insert>> {
        self.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().map_err(|_| anyhow!("the tap panicked"))??;
        }
        Ok(std::mem::take(&mut *self.passing.lock()))
    }

    fn stop(&mut self) {
        drop(self.stop.take());
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn serve(
    listener: std::net::TcpListener,
    passing: Arc<Passing>,
    mut stopped: oneshot::Receiver<()>,
) -> Result<()> {
    let listener = TcpListener::from_std(listener).context("cannot listen")?;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut stopped => return Ok(()),
        };
        let (stream, _) = accepted.context("accept")?;
        let passing = Arc::clone(&passing);
        let service = service_fn(move |request| {
            let passing = Arc::clone(&passing);
            async move { Ok::<_, Infallible>(passing.answer(request).await) }
        });
        tokio::spawn(
            hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service),
        );
    }
}

impl Passing {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Insert>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sender tries again what did not get through.
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        self.pass(request).await.unwrap_or_else(|error| {
            let mut response = Response::new(Full::new(Bytes::from(format!("{error:#}"))));
            *response.status_mut() = StatusCode::BAD_GATEWAY;
            response
        })
    }

    async fn pass(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>> {
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let path_and_query = parts.uri.path_and_query().map_or("/", |it| it.as_str());
        let insert = self.is_kept(path_and_query).then(|| Insert {
            path_and_query: path_and_query.to_owned(),
            rows: body.clone(),
        });
        unframed(&mut parts.headers);
        let stream = TcpStream::connect(&self.to).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::from_parts(parts, Full::new(body));
        let (mut parts, answer) = sender.send_request(request).await?.into_parts();
        let answer = answer.collect().await?.to_bytes();
        unframed(&mut parts.headers);
        if parts.status.is_success()
            && let Some(insert) = insert
        {
            self.keep(insert);
        }
        Ok(Response::from_parts(parts, Full::new(answer)))
    }

    fn is_kept(&self, path_and_query: &str) -> bool {
        let statement = statement(path_and_query).unwrap_or_default();
        statement.starts_with("INSERT INTO ") && statement.contains(&self.of)
    }

    fn keep(&self, insert: Insert) {
        let mut kept = self.lock();
        let bytes: usize = kept.iter().map(|insert| insert.rows.len()).sum();
        if bytes < self.bytes_max {
            kept.push(insert);
        }
    }
}

/// How a body is delimited is the affair of each connection.
fn unframed(headers: &mut HeaderMap) {
    for name in [CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION] {
        headers.remove(name);
    }
}

/// The statement of a request whose body is rows.
fn statement(path_and_query: &str) -> Option<String> {
    let (_, query) = path_and_query.split_once('?')?;
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let (_, statement) = pairs.find(|(name, _)| name == "query")?;
    Some(statement.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clickhouse::ClickHouse;
    use crate::yardstick::{Seen, Work, serve};
    use std::sync::atomic::Ordering;

    const INSERT: &str = "/?decompress=1&query=INSERT+INTO+%60m%60.%60events%60+%28a%29";

    #[tokio::test]
    async fn inserts_pass_and_are_kept() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let seen = Arc::new(Seen::default());
        let engine = async {
            let stopped = async { drop(stopped.await) };
            serve(listener, Work::Drain, Arc::clone(&seen), stopped).await
        };
        let ask = async {
            let tap = Tap::start(&url, "`events`", 7).unwrap();
            let clickhouse = ClickHouse {
                url: tap.url.clone(),
                user: "u".to_owned(),
                password: "p".to_owned(),
                table: ClickHouse::TABLE.to_owned(),
            };
            for (path, rows) in [
                (INSERT, "one"),
                ("/?query=INSERT+INTO+%60m%60.%60others%60", "other"),
                ("/?query=SELECT+%60events%60", "question"),
                (INSERT, "second"),
                (INSERT, "too many"),
            ] {
                let rows = Bytes::from_static(rows.as_bytes());
                clickhouse.insert(path, rows).await.unwrap();
            }
            drop(stop);
            tokio::task::spawn_blocking(|| tap.end()).await.unwrap()
        };
        let (served, kept) = tokio::join!(engine, ask);
        served.unwrap();
        let insert = |rows: &'static str| Insert {
            path_and_query: INSERT.to_owned(),
            rows: Bytes::from_static(rows.as_bytes()),
        };
        assert_eq!(kept.unwrap(), [insert("one"), insert("second")]);
        assert_eq!(seen.requests.load(Ordering::Relaxed), 5);
        assert_eq!(seen.body_bytes.load(Ordering::Relaxed), 30);
    }

    #[tokio::test]
    async fn an_engine_that_is_not_there_is_an_error_of_the_sender() {
        let tap = Tap::start("http://127.0.0.1:9", "`events`", 7).unwrap();
        let clickhouse = ClickHouse {
            url: tap.url.clone(),
            user: String::new(),
            password: String::new(),
            table: String::new(),
        };
        let error = clickhouse.execute("SELECT 1").await.unwrap_err();
        assert!(error.to_string().contains("502"), "{error}");
    }
}
