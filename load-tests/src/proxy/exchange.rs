//! One request, from its head to its response or to its end.

use super::limit::{Limit, Limited};
use super::shared::Shared;
use super::{CannedResponse, Fault, Insert, stale};
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::net::TcpStream;

/// A response of ClickHouse, or an injected one.
type ProxyResponse = Response<Either<Incoming, Full<Bytes>>>;

/// Handles a request with the fault in force. An error cuts the connection without a response.
/// `limit` belongs to the client's connection.
pub(super) async fn exchange(
    shared: &Arc<Shared>,
    limit: &Limit,
    request: Request<Incoming>,
) -> Result<ProxyResponse> {
    let query = request.uri().query().unwrap_or_default();
    let Some(fault) = shared.fault(query, is_insert(query)) else {
        let is_recorded = {
            let recording = shared.recording();
            recording
                .as_ref()
                .is_some_and(|recording| recording.takes(request.uri()))
        };
        return match is_recorded {
            true => recorded(shared, request).await,
            false => passed_on(shared, request).await,
        };
    };
    let outcome = respond_faulty(shared, limit, request, &fault).await;
    outcome.with_context(|| format!("fault {fault}"))
}

/// Responds as the fault has it.
async fn respond_faulty(
    shared: &Arc<Shared>,
    limit: &Limit,
    request: Request<Incoming>,
    fault: &Fault,
) -> Result<ProxyResponse> {
    // A fault that is complete at once is counted at once, the others after ClickHouse's part.
    let done = || shared.faults.fetch_add(1, Ordering::AcqRel);
    match fault {
        Fault::Down => bail!("cut"),
        Fault::Slow(time) => {
            let answer = passed_on(shared, request).await?;
            done();
            tokio::time::sleep(*time).await;
            Ok(answer)
        }
        Fault::Answer(given) => {
            drain(request.into_body()).await?;
            done();
            made_up(*given)
        }
        Fault::After(given) => {
            carried_out(shared, request).await?;
            done();
            made_up(*given)
        }
        Fault::StaleAnswer => repeated(shared, request).await,
        Fault::Lost => {
            carried_out(shared, request).await?;
            done();
            bail!("cut")
        }
        Fault::Silent => {
            carried_out(shared, request).await?;
            hold_until_lifted(shared, fault).await
        }
        Fault::Deaf => {
            drain(request.into_body()).await?;
            hold_until_lifted(shared, fault).await
        }
        Fault::CutAnswer(bytes) => {
            let answer = passed_on(shared, request).await?;
            done();
            limit.set(*bytes);
            Ok(answer)
        }
        Fault::CutRequest => {
            done();
            let body_bytes = request.body().size_hint().exact().unwrap_or_default();
            let half = usize::try_from(body_bytes / 2).unwrap_or(usize::MAX - 1);
            sent(shared, request, Limit::of(half + 1)).await?;
            bail!("cut")
        }
        Fault::With { name, value } => {
            done();
            passed_on(shared, with_setting(request, name, value)?).await
        }
    }
}

/// Waits until the fault is lifted, then cuts the connection.
async fn hold_until_lifted(shared: &Shared, fault: &Fault) -> Result<ProxyResponse> {
    let mut rule = shared.rule.subscribe();
    shared.faults.fetch_add(1, Ordering::AcqRel);
    let is_over = rule.wait_for(|rule| {
        let in_force = rule.as_ref().map(|active| &active.rule.fault);
        in_force != Some(fault)
    });
    let _ = is_over.await;
    bail!("cut")
}

async fn passed_on(shared: &Shared, request: Request<Incoming>) -> Result<ProxyResponse> {
    let answer = sent(shared, request, Limit::none()).await?;
    Ok(answer.map(Either::Left))
}

/// Passes a request on and records it if ClickHouse stored it.
async fn recorded(shared: &Shared, request: Request<Incoming>) -> Result<ProxyResponse> {
    let (parts, body) = request.into_parts();
    let rows = body.collect().await.context("body")?.to_bytes();
    let insert = Insert {
        path_and_query: parts.uri.to_string(),
        rows: rows.clone(),
    };
    let request = Request::from_parts(parts, Full::new(rows));
    let answer = sent(shared, request, Limit::none()).await?;
    if answer.status().is_success()
        && let Some(recording) = shared.recording().as_mut()
    {
        recording.keep(insert);
    }
    Ok(answer.map(Either::Left))
}

/// Repeats the last genuine answer to a request of this kind. Without one the request is passed on,
/// which is no fault, and its answer kept.
async fn repeated(shared: &Shared, request: Request<Incoming>) -> Result<ProxyResponse> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.context("body")?.to_bytes();
    let kind = stale::kind(is_insert(parts.uri.query().unwrap_or_default()), &body);
    let answer = match shared.stale_answers.of(&kind) {
        Some(answer) => {
            shared.faults.fetch_add(1, Ordering::AcqRel);
            answer
        }
        None => {
            let request = Request::from_parts(parts, Full::new(body));
            let answer = sent(shared, request, Limit::none()).await?;
            let (mut head, body) = answer.into_parts();
            // The body is sent as a whole.
            head.headers.remove(TRANSFER_ENCODING);
            head.headers.remove(CONTENT_LENGTH);
            let body = body.collect().await.context("answer")?.to_bytes();
            let answer = Response::from_parts(head, body);
            shared.stale_answers.keep(kind, &answer);
            answer
        }
    };
    Ok(answer.map(|body| Either::Right(Full::new(body))))
}

/// Passes a request on and discards ClickHouse's response.
async fn carried_out(shared: &Shared, request: Request<Incoming>) -> Result<()> {
    let answer = sent(shared, request, Limit::none()).await?;
    drain(answer.into_body()).await
}

/// Sends a request on, over a connection of its own which breaks after `limit` bytes.
async fn sent<B>(shared: &Shared, request: Request<B>, limit: Limit) -> Result<Response<Incoming>>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let upstream = shared.upstream().clone();
    let stream = TcpStream::connect(upstream)
        .await
        .context("ClickHouse is not there")?;
    stream.set_nodelay(true).context("TCP_NODELAY")?;
    let stream = TokioIo::new(Limited::new(stream, limit));
    let (mut sender, connection) = http1::handshake(stream).await.context("handshake")?;
    tokio::spawn(connection);
    sender.send_request(request).await.context("ClickHouse")
}

async fn drain(mut body: Incoming) -> Result<()> {
    while let Some(frame) = body.frame().await {
        frame.context("body")?;
    }
    Ok(())
}

fn made_up(given: CannedResponse) -> Result<ProxyResponse> {
    let text = given.text();
    let mut answer = Response::new(Either::Right(Full::new(text.into())));
    *answer.status_mut() = StatusCode::from_u16(given.status).context("status")?;
    if let Some(code) = given.code {
        answer
            .headers_mut()
            .insert("x-clickhouse-exception-code", code.into());
    }
    Ok(answer)
}

/// Returns true for an insert: it has its statement in the URL, whereas a query has it in the body.
fn is_insert(query: &str) -> bool {
    query.contains("query=INSERT")
}

fn with_setting(
    mut request: Request<Incoming>,
    name: &str,
    value: &str,
) -> Result<Request<Incoming>> {
    let uri = request.uri();
    let query = uri.query().unwrap_or_default();
    let joint = if query.is_empty() { "" } else { "&" };
    let path = format!("{}?{query}{joint}{name}={value}", uri.path());
    *request.uri_mut() = path.parse().context("setting")?;
    Ok(request)
}
