//! The requests of the ClickHouse HTTP interface: which there are, who may make them, how many at once.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Frame;
use hyper::body::Incoming;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use crate::answer::{Context, ended, failure, text};
use crate::auth::{self, Credentials, Denied};
use crate::connections::Guest;
use crate::engine::Engine;
use crate::exception::Exception;
use crate::form;
use crate::request::Asked;
use crate::session::Sessions;
use crate::statement::Statement;
use crate::upload;

/// Statements at once; each has a thread. More wait.
pub(crate) const STATEMENTS_MAX: usize = 100;
/// How long one more waits for its turn.
const TURN_WAIT_MAX: Duration = Duration::from_secs(30);

/// What every connection's task shares.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) sessions: Sessions,
    pub(crate) credentials: Credentials,
    pub(crate) turns: Arc<Semaphore>,
}

/// The body of an answer: whole, or as its rows come.
pub(crate) enum Body {
    Full(Option<Bytes>),
    Stream(mpsc::Receiver<Piece>),
    /// The rows broke off. What was sent is flushed first, then the connection is closed in the middle.
    Broken(Option<io::Error>),
}

/// What comes of the rows of an answer. A sender that is gone without an end leaves a broken answer: it must not look
/// like one with fewer rows.
pub(crate) enum Piece {
    Rows(Bytes),
    Failed(io::Error),
    End,
}

// === impl Shared ===

impl Shared {
    /// Answers one request.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        guest: &Guest,
    ) -> Response<Body> {
        match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/ping" | "/replicas_status") => {
                return text(StatusCode::OK, "Ok.\n");
            }
            (&Method::GET | &Method::HEAD | &Method::POST, "/") => {}
            (&Method::GET | &Method::HEAD | &Method::POST, _) => {
                return text(
                    StatusCode::NOT_FOUND,
                    "There is no such path; use / or /ping.\n",
                );
            }
            _ => {
                let exception = Exception::new(
                    501,
                    "Only GET, HEAD and POST are answered",
                    "UNKNOWN_HTTP_METHOD",
                );
                let mut response = failure(&exception, &self.engine);
                *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
                return response;
            }
        }
        let url_query = request.uri().query().unwrap_or_default();
        if *request.method() == Method::GET && url_query.is_empty() {
            return text(StatusCode::OK, "Ok.\n");
        }
        let asked = match Asked::read(request.method(), url_query, request.headers()) {
            Ok(asked) => asked,
            Err(exception) => return failure(&exception, &self.engine),
        };
        let given = (asked.user.as_deref(), asked.password.as_deref());
        match auth::check(&self.credentials, request.headers(), given.0, given.1) {
            Ok(()) => {
                guest.signed_in();
                self.run(asked, request).await
            }
            Err(Denied::Wrong(exception)) => failure(&exception, &self.engine),
            Err(Denied::Nobody(exception)) => {
                let mut response = failure(&exception, &self.engine);
                *response.status_mut() = StatusCode::UNAUTHORIZED;
                let realm = HeaderValue::from_static("Basic realm=\"ClickHouse server HTTP API\"");
                response.headers_mut().insert(WWW_AUTHENTICATE, realm);
                response
            }
        }
    }

    /// Runs a statement in its turn. A query is stopped when its client goes away; anything that changes data and
    /// whose body has come whole runs to its end.
    async fn run(self: Arc<Self>, asked: Asked, request: Request<Incoming>) -> Response<Body> {
        let tag = uuid::Uuid::new_v4().simple().to_string();
        let query_id = asked.query_id.clone().filter(|id| !id.is_empty());
        let context = Context {
            engine: Arc::clone(&self.engine),
            query_id: query_id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
            tag: tag.clone(),
            compress: asked.compress,
            wait_end_of_query: asked.wait_end_of_query,
            send_max: asked.send_max(),
        };
        let (sender, upload) = upload::channel();
        let encoding = request
            .headers()
            .get(CONTENT_ENCODING)
            .and_then(|value| value.to_str().ok());
        let encoding = encoding.map(str::to_owned);
        let Ok(Ok(turn)) = timeout(TURN_WAIT_MAX, Arc::clone(&self.turns).acquire_owned()).await
        else {
            let message = format!("Too many simultaneous queries. Maximum: {STATEMENTS_MAX}");
            return context.failed(&Exception::new(
                202,
                &message,
                "TOO_MANY_SIMULTANEOUS_QUERIES",
            ));
        };
        let form = form::boundary(request.headers());
        let (started_sender, started) = oneshot::channel();
        let statement = Statement {
            asked,
            tag,
            upload,
            encoding,
            form,
            started: started_sender,
        };
        let (engine, sessions) = (Arc::clone(&self.engine), self.sessions.clone());
        let job = tokio::task::spawn_blocking(move || {
            let outcome = statement.run(&engine, &sessions);
            drop(turn);
            outcome
        });
        // A query has begun, or the statement has ended and dropped its sender.
        let ((), started) = tokio::join!(sender.pump(request.into_body()), started);
        match started {
            Ok(started) => context.rows(started, job).await,
            Err(_) => match ended(job).await {
                Ok(mut ended) => {
                    let output = std::mem::take(&mut ended.finished.data);
                    context.finished(&ended, output.into())
                }
                Err(exception) => context.failed(&exception),
            },
        }
    }
}

// === impl Body ===

impl Body {
    pub(crate) fn full(bytes: Bytes) -> Self {
        Self::Full((!bytes.is_empty()).then_some(bytes))
    }

    pub(crate) fn stream() -> (mpsc::Sender<Piece>, Self) {
        let (sender, receiver) = mpsc::channel(2);
        (sender, Self::Stream(receiver))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let failed = match &mut *self {
            Self::Full(bytes) => {
                return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))));
            }
            Self::Broken(error) => return Poll::Ready(error.take().map(Err)),
            Self::Stream(receiver) => match receiver.poll_recv(context) {
                Poll::Ready(Some(Piece::Rows(bytes))) => {
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Poll::Ready(Some(Piece::End)) => {
                    *self = Self::Full(None);
                    return Poll::Ready(None);
                }
                Poll::Ready(Some(Piece::Failed(error))) => error,
                Poll::Ready(None) => io::Error::other("the rows were given up in the middle"),
                Poll::Pending => return Poll::Pending,
            },
        };
        // hyper flushes when a body has nothing at the moment, and not when it fails: let it flush first.
        *self = Self::Broken(Some(failed));
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Full(None) | Self::Broken(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Self::Full(bytes) => http_body::SizeHint::with_exact(
                bytes.as_ref().map_or(0, |bytes| bytes.len() as u64),
            ),
            Self::Stream(_) | Self::Broken(_) => http_body::SizeHint::default(),
        }
    }
}
