//! HTTP clients: hyper reads their requests, and each goes on to the engine as it comes.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Request, Response};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

use super::acceptor::{Accepted, Phase, Phases};
use super::access::Access;
use super::request::{Refusal, prepare, prepare_answer};
use super::stream::{ClientState, ClientStream, Exchange};
use super::upstream::{BUFFER_BYTES_MAX, EngineBody, Upstream, UpstreamError};
use crate::connections::Place;

/// Header of the answer to each statement, and of no other.
const QUERY_ID: HeaderName = HeaderName::from_static("x-clickhouse-query-id");

/// Header by which clients tell an exception from an answer.
const EXCEPTION_CODE: HeaderName = HeaderName::from_static("x-clickhouse-exception-code");

/// Code of an exception that only the user of the engine's own session gets: no other has a limit
/// of sessions (`USER_SESSION_LIMIT_EXCEEDED`). Which paths need a user at all, the engine knows.
const SESSION_TOO_MANY: &str = "700";

/// Answer for a client.
type Answer = Response<Either<Full<Bytes>, EngineBody>>;

/// HTTP interface of one engine.
pub(super) struct HttpGate {
    engine: SocketAddr,
    access: Arc<Access>,
}

/// One client.
struct Client {
    address: IpAddr,
    access: Arc<Access>,
    place: Arc<Place>,
    state: Arc<ClientState>,
    upstream: Upstream,
}

// === impl HttpGate ===

impl HttpGate {
    pub(super) const fn new(engine: SocketAddr, access: Arc<Access>) -> Self {
        Self { engine, access }
    }

    /// Serves a connection to its end.
    pub(super) fn serve(&self, accepted: Accepted) -> impl Future<Output = ()> + use<> {
        let Accepted {
            tcp,
            address,
            place,
            phases,
        } = accepted;
        let state = Arc::new(ClientState::default());
        let stream = ClientStream::new(tcp, Arc::clone(&state), Arc::clone(&place));
        let client = Client {
            address,
            access: Arc::clone(&self.access),
            place,
            state,
            upstream: Upstream::new(self.engine),
        };
        serve(stream, client, phases)
    }
}

async fn serve(stream: ClientStream, client: Client, mut phases: Phases) {
    let client = Arc::new(client);
    let service = service_fn(move |request| {
        let client = Arc::clone(&client);
        async move { client.answer(request).await }
    });
    // The date of an answer is the engine's.
    let connection = Builder::new()
        .max_header_size(BUFFER_BYTES_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .preserve_header_case(true)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let mut is_stopping = false;
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break ended,
            () = phases.reached(Phase::Stopping), if !is_stopping => {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection of a client of ClickHouse ended early");
    }
}

// === impl Client ===

impl Client {
    /// Answers a request. An error ends the connection without an answer.
    async fn answer(&self, request: Request<Incoming>) -> Result<Answer, UpstreamError> {
        let exchange = Exchange::begin(&self.state, &self.place);
        let (mut parts, body) = request.into_parts();
        match prepare(&mut parts, self.address, &self.access) {
            Err(refusal) => return Ok(refused(refusal)),
            Ok(true) => exchange.set_unpaced(),
            Ok(false) => {}
        }
        let request = Request::from_parts(parts, body);
        let mut answer = self.upstream.send(request).await?;
        let code = answer.headers().get(EXCEPTION_CODE);
        if code.is_some_and(|code| code == SESSION_TOO_MANY) {
            return Ok(refused(Refusal::NoUser));
        }
        // What needs no password, such as `/ping`, tells nothing.
        if answer.status().is_success() && answer.headers().contains_key(QUERY_ID) {
            self.place.set_logged_in();
        }
        prepare_answer(answer.headers_mut());
        Ok(answer.map(|body| Either::Right(EngineBody::new(body, exchange))))
    }
}

fn refused(refusal: Refusal) -> Answer {
    let body = Full::new(Bytes::from_static(refusal.text().as_bytes()));
    let mut answer = Response::new(Either::Left(body));
    *answer.status_mut() = refusal.status();
    let text = HeaderValue::from_static("text/plain; charset=UTF-8");
    answer.headers_mut().insert(CONTENT_TYPE, text);
    if let Some(code) = refusal.code() {
        let code = HeaderValue::from_static(code);
        answer.headers_mut().insert(EXCEPTION_CODE, code);
    }
    answer
}
