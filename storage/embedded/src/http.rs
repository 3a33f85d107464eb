//! Request handling of the ClickHouse HTTP interface: routes, authentication, and the limit of
//! statements at once.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use http::header::{CONTENT_ENCODING, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::sync::oneshot;

use crate::auth::{self, Credentials, Denied};
use crate::connections::ConnectionGuard;
use crate::engine::Engine;
use crate::exception::Exception;
use crate::form;
use crate::held_bytes::HeldBytes;
use crate::request::QueryRequest;
use crate::response::{ResponseContext, error_response, text_response};
use crate::response_body::Body;
use crate::row_stream::join_statement;
use crate::send_limit::SendLimit;
use crate::session::Sessions;
use crate::statement::Statement;
use crate::statement_slots::{STATEMENTS_MAX, StatementSlots};
use crate::upload;

/// State shared by the tasks of all connections.
pub(crate) struct ServerState {
    pub(crate) engine: Arc<Engine>,
    pub(crate) sessions: Sessions,
    pub(crate) credentials: Credentials,
    pub(crate) statement_slots: StatementSlots,
    /// Memory of responses that are held back.
    pub(crate) held_bytes: HeldBytes,
    /// Memory of long texts and large compressed blocks of requests.
    pub(crate) request_bytes: HeldBytes,
}

// === impl ServerState ===

impl ServerState {
    /// Serves one request; one with the password sets the limit of its connection.
    pub(crate) async fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
        guard: &ConnectionGuard,
        send_limit: &SendLimit,
    ) -> Response<Body> {
        match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/ping" | "/replicas_status") => {
                return text_response(StatusCode::OK, "Ok.\n");
            }
            (&Method::GET | &Method::HEAD | &Method::POST, "/") => {}
            (&Method::GET | &Method::HEAD | &Method::POST, _) => {
                return text_response(
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
                let mut response = error_response(&exception, &self.engine);
                *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
                return response;
            }
        }
        let url_query = request.uri().query().unwrap_or_default();
        if *request.method() == Method::GET && url_query.is_empty() {
            return text_response(StatusCode::OK, "Ok.\n");
        }
        let query_request = match QueryRequest::read(request.method(), url_query, request.headers())
        {
            Ok(query_request) => query_request,
            Err(exception) => return error_response(&exception, &self.engine),
        };
        let given = (
            query_request.user.as_deref(),
            query_request.password.as_deref(),
        );
        match auth::check(&self.credentials, request.headers(), given.0, given.1) {
            Ok(()) => {
                guard.mark_authenticated();
                send_limit.set(query_request.send_max());
                self.run(query_request, request, guard.address()).await
            }
            Err(Denied::Wrong(exception)) => error_response(&exception, &self.engine),
            Err(Denied::Missing(exception)) => {
                let mut response = error_response(&exception, &self.engine);
                *response.status_mut() = StatusCode::UNAUTHORIZED;
                let realm = HeaderValue::from_static("Basic realm=\"ClickHouse server HTTP API\"");
                response.headers_mut().insert(WWW_AUTHENTICATE, realm);
                response
            }
        }
    }

    /// Runs a statement once fewer than [`STATEMENTS_MAX`] run. A query is stopped when its client
    /// disconnects; a statement that changes data and whose body arrived completely runs to its
    /// end.
    async fn run(
        self: Arc<Self>,
        query_request: QueryRequest,
        request: Request<Incoming>,
        address: IpAddr,
    ) -> Response<Body> {
        let tag = uuid::Uuid::new_v4().simple().to_string();
        let query_id = query_request.query_id.clone().filter(|id| !id.is_empty());
        let mut context = ResponseContext {
            engine: Arc::clone(&self.engine),
            query_id: query_id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
            tag: tag.clone(),
            compress: query_request.compress,
            wait_end_of_query: query_request.wait_end_of_query,
            send_max: query_request.send_max(),
            held_bytes: self.held_bytes.clone(),
            slot: Weak::new(),
        };
        let (sender, upload) = upload::channel();
        let encoding = request
            .headers()
            .get(CONTENT_ENCODING)
            .and_then(|value| value.to_str().ok());
        let encoding = encoding.map(str::to_owned);
        let Some(slot) = self.statement_slots.acquire(address).await else {
            let message = format!("Too many simultaneous queries. Maximum: {STATEMENTS_MAX}");
            return context.failed(&Exception::new(
                202,
                &message,
                "TOO_MANY_SIMULTANEOUS_QUERIES",
            ));
        };
        let slot = Arc::new(slot);
        context.slot = Arc::downgrade(&slot);
        let form = form::boundary(request.headers());
        let (started_sender, started) = oneshot::channel();
        let statement = Statement {
            request: query_request,
            tag,
            upload,
            encoding,
            form,
            memory: self.request_bytes.clone(),
            started: started_sender,
        };
        let (engine, sessions) = (Arc::clone(&self.engine), self.sessions.clone());
        let job = tokio::task::spawn_blocking(move || {
            let outcome = statement.run(&engine, &sessions);
            drop(slot);
            outcome
        });
        // A query has begun, or the statement has ended and dropped its sender.
        let pump = sender.pump(request.into_body(), || context.gives_up());
        let ((), started) = tokio::join!(pump, started);
        match started {
            Ok(started) => context.rows(started, job).await,
            Err(_) => match join_statement(job).await {
                Ok(mut ended) => {
                    let output = std::mem::take(&mut ended.finished.data);
                    context.finished(&ended, output.into(), self.held_bytes.reservation())
                }
                Err(exception) => context.failed(&exception),
            },
        }
    }
}
