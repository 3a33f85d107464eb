//! Sends statements with rows, and checks that ClickHouse answers.
//!
//! A gateway's page comes with status 200, too. The `clickhouse` crate takes that for success and
//! hides the answer's headers, so inserts are requests of our own: ClickHouse names in each answer
//! the query that it is about.

use crate::answer::failure_text;
use crate::insert_body::Body;
use crate::{InsertError, Settings};
use bytes::Bytes;
use clickhouse::error::Error;
use hyper::body::{Frame, Incoming};
use hyper::header::HeaderValue;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, ResponseFuture};
use hyper_util::rt::TokioExecutor;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use url::Url;

/// TCP keep-alive, the same as of the `clickhouse` crate's own connections.
const KEEPALIVE: Duration = Duration::from_secs(60);
const IDLE_MAX: Duration = Duration::from_secs(2);
/// Most bytes of an answer that are read: an exception begins with its code.
const ANSWER_BYTES_MAX: usize = 64 << 10;
pub(crate) const QUERY_ID: &str = "x-clickhouse-query-id";
pub(crate) const EXCEPTION_CODE: &str = "x-clickhouse-exception-code";

/// Connections for inserts. Clones share them.
#[derive(Clone)]
pub(crate) enum Poster {
    Plain(legacy::Client<HttpConnector, Pieces>),
    Tls(legacy::Client<HttpsConnector<HttpConnector>, Pieces>),
}

/// Body of a request, in pieces as they come. A body that ends too soon is detected by its length.
pub(crate) struct Pieces(mpsc::Receiver<Bytes>);

/// A success that was answered, with the query that it names; `None` if it names none, so that it
/// need not be ClickHouse's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SuccessAnswer {
    pub(crate) query_id: Option<String>,
}

// === impl SuccessAnswer ===

impl SuccessAnswer {
    /// Checks that the answer is ClickHouse's, and about the query with this id.
    ///
    /// # Errors
    /// A description of the answer, if it is not.
    pub(crate) fn check_query_id(&self, query_id: &str) -> Result<(), String> {
        match &self.query_id {
            Some(answered) if answered == query_id => Ok(()),
            Some(answered) => Err(format!(
                "success was answered of the query {answered}, which is not the one that was asked"
            )),
            None => Err(
                "success was answered, but not by ClickHouse: X-ClickHouse-Query-Id is missing"
                    .to_owned(),
            ),
        }
    }
}

// === impl Poster ===

impl Poster {
    pub(crate) fn new(settings: &Settings) -> Self {
        let mut client = legacy::Client::builder(TokioExecutor::new());
        client.pool_idle_timeout(IDLE_MAX);
        match &settings.tls {
            Some(tls) => Self::Tls(client.build(tls.connector())),
            None => {
                let mut connector = HttpConnector::new();
                connector.set_keepalive(Some(KEEPALIVE));
                Self::Plain(client.build(connector))
            }
        }
    }

    /// Sends rows with a statement to a host, and waits for the answer to its end.
    pub(crate) async fn post<B: Body>(
        &self,
        (settings, url): (&Settings, &str),
        parameters: &[(&str, &str)],
        rows: &B,
    ) -> Result<SuccessAnswer, InsertError> {
        let (sender, receiver) = mpsc::channel(1);
        let request = request(
            (settings, url),
            parameters,
            rows.len_bytes(),
            Pieces(receiver),
        )?;
        let mut response = pin!(self.request(request));
        let time_max = settings.insert_timeout;
        // An answer may come before all is sent, as an exception does. Sending goes first, so that
        // a server that had it all is not mistaken for one that did not wait.
        let early = tokio::select! {
            biased;
            sent = send(&sender, rows, time_max) => { sent?; None }
            response = &mut response => Some(response),
        };
        let is_early = early.is_some();
        // A body that ends before its length breaks the connection, and with it an early answer
        // that is not read yet: so it stays open until the answer is read.
        let open = is_early.then_some(sender);
        let answered = async {
            let response = match early {
                Some(response) => response,
                None => response.await,
            };
            success(response.map_err(|error| Error::Network(error.into()))?).await
        };
        let answered = timeout(time_max, answered).await;
        drop(open);
        let answered = answered.unwrap_or(Err(Error::TimedOut))?;
        if is_early {
            return Err(InsertError::unproven(
                "success was answered before all was sent",
            ));
        }
        Ok(answered)
    }

    /// Sends a statement that carries no rows to a host, and waits for the answer to its end. The
    /// caller limits how long that may take.
    pub(crate) async fn post_statement(
        &self,
        (settings, url): (&Settings, &str),
        parameters: &[(&str, &str)],
        sql: &str,
    ) -> Result<SuccessAnswer, Error> {
        let begun = self.begin_statement((settings, url), parameters, &[], sql);
        success(begun.await?).await
    }

    /// Sends a statement that carries no rows to a host, with further headers, and returns the
    /// answer as soon as its head is there.
    pub(crate) async fn begin_statement(
        &self,
        (settings, url): (&Settings, &str),
        parameters: &[(&str, &str)],
        headers: &[(&'static str, &str)],
        sql: &str,
    ) -> Result<Response<Incoming>, Error> {
        let (sender, receiver) = mpsc::channel(1);
        let body = Pieces(receiver);
        let mut request = request((settings, url), parameters, sql.len() as u64, body)?;
        for (name, value) in headers {
            let value = HeaderValue::from_str(value);
            let value = value.map_err(|error| Error::InvalidParams(error.into()))?;
            request.headers_mut().insert(*name, value);
        }
        // The channel holds one piece.
        let _ = sender.try_send(Bytes::copy_from_slice(sql.as_bytes()));
        drop(sender);
        let answered = self.request(request).await;
        answered.map_err(|error| Error::Network(error.into()))
    }

    fn request(&self, request: Request<Pieces>) -> ResponseFuture {
        match self {
            Self::Plain(client) => client.request(request),
            Self::Tls(client) => client.request(request),
        }
    }
}

fn request(
    (settings, url): (&Settings, &str),
    parameters: &[(&str, &str)],
    bytes: u64,
    body: Pieces,
) -> Result<Request<Pieces>, Error> {
    let mut url = Url::parse(url).map_err(|error| Error::InvalidParams(error.into()))?;
    url.query_pairs_mut().clear().extend_pairs(parameters);
    Request::post(url.as_str())
        .header("Content-Length", bytes)
        .header(
            "User-Agent",
            concat!("millrace/", env!("CARGO_PKG_VERSION")),
        )
        .header("X-ClickHouse-User", &settings.user)
        .header("X-ClickHouse-Key", &settings.password)
        .body(body)
        .map_err(|error| Error::InvalidParams(error.into()))
}

/// Sends the rows piece by piece. A piece that cannot be read leaves the body shorter than its
/// length, which the server takes for a broken connection.
async fn send<B: Body>(
    sender: &mpsc::Sender<Bytes>,
    rows: &B,
    time_max: Duration,
) -> Result<(), InsertError> {
    let mut index = 0;
    while let Some(chunks) = rows.piece(index).await? {
        for chunk in chunks.into_iter().filter(|chunk| !chunk.is_empty()) {
            let sent = timeout(time_max, sender.send(chunk)).await;
            if sent.map_err(|_| Error::TimedOut)?.is_err() {
                // The connection is closed; the answer tells why.
                return Ok(());
            }
        }
        index += 1;
    }
    Ok(())
}

/// Reads an answer to its end; a success has an empty body. If the body breaks off, the header
/// alone tells the exception, as when the server closes a connection whose request it has not read.
async fn success(response: Response<Incoming>) -> Result<SuccessAnswer, Error> {
    let (head, mut body) = response.into_parts();
    let code = header(&head.headers, EXCEPTION_CODE);
    let query_id = header(&head.headers, QUERY_ID);
    let mut text = Vec::new();
    while let Some(frame) =
        poll_fn(|cx| hyper::body::Body::poll_frame(Pin::new(&mut body), cx)).await
    {
        let frame = match frame {
            Ok(frame) => frame,
            Err(_) if code.is_some() => break,
            Err(error) => return Err(Error::Network(error.into())),
        };
        if let Ok(data) = frame.into_data()
            && text.len() < ANSWER_BYTES_MAX
        {
            text.extend_from_slice(&data);
        }
    }
    if head.status == StatusCode::OK && code.is_none() && (text.is_empty() || query_id.is_none()) {
        return Ok(SuccessAnswer { query_id });
    }
    let message = failure_text(head.status, code.as_deref(), &text);
    Err(Error::BadResponse(message))
}

/// Value of a header as text.
pub(crate) fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

// === impl Pieces ===

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.0.poll_recv(cx);
        piece.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}
