//! Capture: the one handler of all capture paths and of the per-event protocol.
//!
//! Body, key, parse, reserve, submit, respond. A client that goes away cancels everything up to the
//! submission and nothing after it.

use super::context::RequestContext;
use super::parse::{FirstEventNote, ParsedRequest, parse};
use super::payload::{self, Payload};
use super::report::{CaptureResponse, stores};
use crate::admission::budget::Share;
use crate::admission::month_limiter::MonthCharge;
use crate::admission::rejection::Rejection;
use crate::admission::response_budget::UNCOUNTED_BYTES_MAX;
use crate::core::Core;
use crate::metrics::Stage;
use crate::request::head::bearer;
use crate::request::query::Query;
use crate::request::route::Route;
use crate::response::HttpResponse;
use crate::watermark::EpochGuard;
use http::HeaderValue;
use hyper::body::Incoming;
use millrace_live::Observation;
use millrace_parse::{ApiError, ParseContext, Parsed, Protocol};
use millrace_pipeline::panic_point::{PanicPoint, pass};
use millrace_pipeline::{ImportReservation, Pending, Refusal, Slot};
use millrace_rows::{Batch, Lane};
use std::rc::Rc;

/// Handles a request with events.
pub async fn capture(
    request: &RequestContext<'_>,
    body: &mut Incoming,
) -> Result<HttpResponse, ApiError> {
    let query = Query::of(request.parts.uri.query());
    if let Some(name) = query.unclear {
        return Err(unclear_flag(name));
    }
    let protocol = protocol(request)?;
    let lane = query.lane();
    let key = match protocol {
        // An event in parts has its key in the head, or in itself.
        Protocol::V0 if request.route == Route::Ai => bearer(request.head.authorization),
        Protocol::V0 => None,
        Protocol::V1 { key, .. } => Some(key),
    };
    let Payload {
        json,
        mut share,
        permit,
        offload,
    } = payload::read(request, &query, lane, key, body).await?;
    // Rows of the offload pool get their time when they are complete, so that the watermark need
    // not wait for them.
    let epoch = offload.is_none().then(|| request.epoch_guard());
    let context = ParseContext {
        received_at: request.received_at,
        created_at: epoch
            .as_ref()
            .map_or(request.received_at, |epoch| epoch.created_at),
        request_id: request.request_id,
        engage: request.route == Route::Engage,
        sent_at_query: query.sent_at.as_deref(),
        historical_query: query.historical_migration,
        strict: query.strict,
        dry_run: query.dry_run,
        client_ip: Some(request.client_ip()),
        protocol,
        limits: request.core.process.config.limits.parse,
    };
    let slot = match query.dry_run {
        true => None,
        false => Some(request.core.admission.reserve_slot(lane, json.len())?),
    };
    let ParsedRequest {
        parsed,
        unnoted,
        observation,
    } = parse(request, json, &context, offload).await?;
    let epoch = epoch.unwrap_or_else(|| request.epoch_guard());
    share.mark_project_known();
    let response = match counted_response(request, &parsed, &mut share, query.beacon) {
        Ok(response) => response,
        Err(refused) => {
            recycle(request.core, parsed.batch);
            return Err(refused);
        }
    };
    if stores(&parsed)
        && let Some(slot) = slot
    {
        let plain = response.plain();
        store(request, epoch, slot, parsed, unnoted, observation, plain).await?;
    } else {
        recycle(request.core, parsed.batch);
        observation.into_iter().for_each(|it| it.refused());
    }
    drop((share, permit));
    Ok(response.into_http())
}

/// Builds the response, and takes memory for the rows and for a response that is long, before the
/// rows are stored: it may wait for its client for longer than the body was here.
fn counted_response(
    request: &RequestContext<'_>,
    parsed: &Parsed,
    share: &mut Share,
    beacon: bool,
) -> Result<CaptureResponse, ApiError> {
    let admission = &request.core.admission;
    // Replaces the share of the body, which is no longer needed: rows may take more than it did.
    if !share.grow_to(parsed.batch.bytes()) {
        return Err(admission.overloaded());
    }
    let mut response = CaptureResponse::of(parsed, request.route == Route::V1, beacon);
    let bytes = response.bytes();
    if bytes > UNCOUNTED_BYTES_MAX {
        response.count_in(admission.response_share(parsed.project_id, bytes)?);
    }
    Ok(response)
}

/// Builds a 400 for a flag in the query that is neither true nor false.
fn unclear_flag(name: &str) -> ApiError {
    let code = match name {
        "historical_migration" => "invalid_historical_migration",
        _ => "invalid_query",
    };
    ApiError::invalid(code, format!("`{name}` must be true or false.")).at(name)
}

fn protocol<'a>(request: &RequestContext<'a>) -> Result<Protocol<'a>, ApiError> {
    if request.route != Route::V1 {
        return Ok(Protocol::V0);
    }
    let text = |value: Option<&'a HeaderValue>| value.and_then(|value| value.to_str().ok());
    let key = bearer(request.head.authorization)
        .filter(|key| !key.is_empty())
        .ok_or_else(|| {
            ApiError::unauthorized(
                "missing_api_key",
                "Send the project key as Authorization: Bearer <project key>.",
            )
        })?;
    Ok(Protocol::V1 {
        key,
        sent_at: text(request.head.request_timestamp),
        sdk_info: text(request.head.sdk_info),
    })
}

/// Stores a batch, unless it was stored when it was sent before.
async fn store(
    request: &RequestContext<'_>,
    epoch: EpochGuard,
    slot: Slot,
    parsed: Parsed,
    unnoted: Option<FirstEventNote>,
    observation: Option<Box<Observation>>,
    plain: bool,
) -> Result<(), ApiError> {
    let core = request.core;
    let refused = |refusal| core.admission.error(Rejection::Pipeline(refusal));
    let unnoted = unnoted.filter(|_| parsed.accepted > 0);
    let fingerprint = parsed.fingerprint;
    if core.process.request_dedup.contains(fingerprint) {
        core.metrics.resent();
        let shipping = slot.committed_before(parsed.batch.lane);
        recycle(core, parsed.batch);
        // A resent request has no rows that the watermark would have to wait for.
        drop(epoch);
        let known = match shipping {
            Some(shipping) => shipping.finished().await,
            None => Ok(()),
        };
        return known.map_err(refused);
    }
    let reservation = match parsed.batch.lane {
        Lane::Live => None,
        Lane::Historical => match core.admission.reserve_import(&parsed).await {
            Ok(reservation) => reservation,
            Err(error) => {
                recycle(core, parsed.batch);
                return Err(error);
            }
        },
    };
    // Charged after every check that may refuse the request for longer: to be told to wait costs
    // nothing.
    let months = match core.admission.charge_months(&parsed, request.received_at) {
        Ok(months) => months,
        Err(refusal) => {
            recycle(core, parsed.batch);
            return Err(refusal);
        }
    };
    let started = request.now();
    let admitted = AdmittedBatch {
        batch: parsed.batch,
        reservation,
        months,
        fingerprint,
        observation,
    };
    let stored = commit(Rc::clone(core), slot, admitted, unnoted);
    let committed = async move {
        let committed = stored.await;
        // Held until the rows are with the commit thread, also when the client has gone.
        drop(epoch);
        committed
    };
    let committed = core.detached.run_to_completion(committed).await;
    request.took(Stage::Commit, started);
    committed.map_err(refused)?;
    core.metrics.accepted(parsed.accepted);
    if !plain {
        count_report(core, &parsed.report);
    }
    Ok(())
}

/// Admitted batch of a request, with its reservations.
struct AdmittedBatch {
    batch: Batch,
    /// Reservation of an import's events.
    reservation: Option<ImportReservation>,
    /// Charge for older months, refunded if the batch is not stored.
    months: MonthCharge,
    fingerprint: Option<u128>,
    /// Copy of the rows for those who watch, if there are any.
    observation: Option<Box<Observation>>,
}

/// Commits a batch; runs to its end even when the client goes away meanwhile.
async fn commit(
    core: Rc<Core>,
    slot: Slot,
    admitted: AdmittedBatch,
    unnoted: Option<FirstEventNote>,
) -> Result<(), Refusal> {
    pass(PanicPoint::RequestSubmitted);
    let AdmittedBatch {
        batch,
        reservation,
        months,
        fingerprint,
        observation,
    } = admitted;
    let lane = batch.lane;
    let reuse = |spent| core.parser.borrow_mut().recycle(spent);
    let committed = slot.commit(batch, reservation, reuse).await?;
    months.keep();
    // Now, as it is stored from here on, whatever response its client gets.
    match committed.pending {
        None => {
            core.process.request_dedup.insert(fingerprint);
            match (observation, committed.position) {
                (Some(observation), Some(position)) => observation.logged(lane, position),
                (Some(observation), None) => observation.missed(),
                (None, _) => {}
            }
        }
        Some(pending) if fingerprint.is_some() || observation.is_some() => {
            note_when_stored(&core, pending, fingerprint, lane, observation);
        }
        Some(_) => {}
    }
    if let Some(FirstEventNote { key, project_id }) = unnoted {
        core.process.deps.keys.note_first_event(&key, project_id);
    }
    reuse(committed.spent);
    match committed.shipping {
        Some(shipping) => shipping.finished().await,
        None => Ok(()),
    }
}

/// Remembers and shows a request that was acknowledged before it was stored, once it is stored:
/// sent again before, or if it never is, it has to be stored.
fn note_when_stored(
    core: &Rc<Core>,
    pending: Pending,
    fingerprint: Option<u128>,
    lane: Lane,
    observation: Option<Box<Observation>>,
) {
    let request_dedup = core.process.request_dedup.clone();
    let noted = async move {
        let Some(position) = pending.position().await else {
            return;
        };
        request_dedup.insert(fingerprint);
        if let Some(observation) = observation {
            observation.logged(lane, position);
        }
    };
    // Nothing awaits this task, so the core drives it to its end.
    drop(core.detached.run_to_completion(noted));
}

/// Gives back the buffers of a batch that is not stored.
fn recycle(core: &Core, batch: Batch) {
    let buffers = batch.groups.into_iter().map(|group| group.bytes);
    core.parser.borrow_mut().recycle(buffers);
}

fn count_report(core: &Core, report: &millrace_parse::Report) {
    for rejection in &report.rejected {
        core.metrics.rejected(rejection.code, 1);
    }
    let listed = u32::try_from(report.rejected.len()).unwrap_or(u32::MAX);
    let unlisted = report.rejected_count.saturating_sub(listed);
    if unlisted > 0 {
        core.metrics.rejected("unlisted", unlisted);
    }
    core.metrics.warned(report.warning_count);
}
