//! Events in: the one handler of all capture paths and of the per-event protocol.
//!
//! Facts, body, key, parse, reserve, submit, answer. A client that goes away cancels everything
//! up to the submission and nothing after it.

use super::answer::Answer;
use super::body::overloaded;
use super::head::bearer;
use super::imports;
use super::parse::{FirstEvents, Taken, parse};
use super::payload::{self, Payload};
use super::query::Query;
use super::report::{Told, stores};
use super::{Call, Route};
use crate::core::Core;
use crate::metrics::Stage;
use crate::months::{MONTHS_MAX, MonthsRefusal, Paid};
use crate::watermark::Arrival;
use http::{HeaderValue, StatusCode};
use hyper::body::Incoming;
use millrace_parse::{ApiError, ErrorType, Facts, Parsed, Protocol};
use millrace_pipeline::{Admission, Pending, Refusal, Slot};
use millrace_rows::{Batch, Lane};
use std::rc::Rc;
use std::time::Instant;

/// Takes a request's events.
pub async fn capture(call: &Call<'_>, body: &mut Incoming) -> Result<Answer, ApiError> {
    let query = Query::of(call.parts.uri.query());
    if let Some(name) = query.unclear {
        return Err(unclear_flag(name));
    }
    let protocol = protocol(call)?;
    let lane = if query.historical_migration {
        Lane::Historical
    } else {
        Lane::Live
    };
    let key = match protocol {
        // An event in parts has its key in the head, or in itself.
        Protocol::V0 if call.route == Route::Ai => bearer(call.head.authorization),
        Protocol::V0 => None,
        Protocol::V1 { key, .. } => Some(key),
    };
    let payload = payload::read(call, &query, lane, key, body).await?;
    let Payload {
        json,
        mut share,
        turn,
        beside,
    } = payload;
    let arrival = call.arrival();
    let facts = Facts {
        received_at: call.received_at,
        created_at: arrival.created_at,
        request_id: call.request_id,
        engage: call.route == Route::Engage,
        sent_at_query: query.sent_at.as_deref(),
        historical_query: query.historical_migration,
        strict: query.strict,
        dry_run: query.dry_run,
        client_ip: Some(call.client_ip()),
        protocol,
        limits: call.core.shared.config.limits.parse,
    };
    // Asked before the parser works: a request that will not be stored should cost little. Only
    // the parser knows the lane for sure; the pipeline exchanges the place if need be.
    let slot = match query.dry_run {
        true => None,
        false => Some(reserve(call.core, lane, json.len())?),
    };
    let Taken { parsed, unnoted } = parse(call, json, &facts, beside).await?;
    share.is_of_known_project();
    // In place of the body, which is no longer needed: rows may take more than it did.
    if !share.grow_to(parsed.batch.bytes()) {
        recycle(call.core, parsed.batch);
        return Err(overloaded(call.core));
    }
    let told = Told::of(&parsed, call.route == Route::V1);
    if stores(&parsed)
        && let Some(slot) = slot
    {
        store(call, arrival, slot, parsed, unnoted, told.plain()).await?;
    } else {
        recycle(call.core, parsed.batch);
    }
    drop((share, turn));
    Ok(told.answer(query.beacon))
}

/// A flag in the query that is neither true nor false.
fn unclear_flag(name: &str) -> ApiError {
    let code = match name {
        "historical_migration" => "invalid_historical_migration",
        _ => "invalid_query",
    };
    ApiError::invalid(code, format!("`{name}` must be true or false.")).at(name)
}

fn protocol<'a>(call: &Call<'a>) -> Result<Protocol<'a>, ApiError> {
    if call.route != Route::V1 {
        return Ok(Protocol::V0);
    }
    let text = |value: Option<&'a HeaderValue>| value.and_then(|value| value.to_str().ok());
    let key = bearer(call.head.authorization)
        .filter(|key| !key.is_empty())
        .ok_or_else(|| {
            ApiError::unauthorized(
                "missing_api_key",
                "Send the project key as Authorization: Bearer <project key>.",
            )
        })?;
    Ok(Protocol::V1 {
        key,
        sent_at: text(call.head.request_timestamp),
        sdk_info: text(call.head.sdk_info),
    })
}

/// Stores a batch, unless it was stored when it was sent before.
async fn store(
    call: &Call<'_>,
    arrival: Arrival,
    slot: Slot,
    parsed: Parsed,
    unnoted: Option<FirstEvents>,
    plain: bool,
) -> Result<(), ApiError> {
    let core = call.core;
    let unnoted = unnoted.filter(|_| parsed.accepted > 0);
    let fingerprint = parsed.fingerprint;
    if core.shared.resends.knows(fingerprint) {
        core.metrics.resent();
        let shipping = slot.committed_before(parsed.batch.lane);
        recycle(core, parsed.batch);
        // It brings no rows that anyone would have to wait for.
        drop(arrival);
        let known = match shipping {
            Some(shipping) => shipping.finished().await,
            None => Ok(()),
        };
        return known.map_err(|refusal| refused(core, refusal));
    }
    let admission = match parsed.batch.lane {
        Lane::Live => None,
        Lane::Historical => match imports::admit(core, &parsed).await {
            Ok(admission) => admission,
            Err(error) => {
                recycle(core, parsed.batch);
                return Err(error);
            }
        },
    };
    // Behind whatever may refuse the request for longer: to be told to wait costs nothing.
    let months = match pay_for_months(call, &parsed) {
        Ok(months) => months,
        Err(refusal) => {
            recycle(core, parsed.batch);
            return Err(refusal);
        }
    };
    let started = call.now();
    let taken = Admitted {
        batch: parsed.batch,
        admission,
        months,
        fingerprint,
    };
    let stored = commit(Rc::clone(core), slot, taken, unnoted);
    let committed = async move {
        let committed = stored.await;
        // Kept as long as the rows are not with the commit thread, also when the client has gone.
        drop(arrival);
        committed
    };
    let committed = core.orphans.adopt(committed).await;
    call.took(Stage::Commit, started);
    committed.map_err(|refusal| refused(core, refusal))?;
    core.metrics.accepted(parsed.accepted);
    if !plain {
        count_report(core, &parsed.report);
    }
    Ok(())
}

/// Pays for the older months of what is to be stored.
fn pay_for_months(call: &Call<'_>, parsed: &Parsed) -> Result<Paid, ApiError> {
    let months = &call.core.shared.months;
    let paid = months.pay(
        parsed.team_id,
        &parsed.batch,
        call.received_at,
        Instant::now(),
    );
    paid.map_err(|refusal| match refusal {
        MonthsRefusal::TooMany { months } => ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            ErrorType::InvalidRequest,
            "too_many_months",
            format!(
                "The events of the request are of {months} months that are over for a while; nothing was stored. \
                 Send events of at most {MONTHS_MAX} such months in a request."
            ),
        ),
        MonthsRefusal::Later {
            retry_after_seconds,
        } => ApiError {
            retry_after_seconds: Some(retry_after_seconds),
            ..ApiError::unavailable(
                "too_many_months",
                "The project sends events of many months that are over for a while; nothing of the request was \
                 stored. Send it again, and such events in the order of their time.",
            )
        },
    })
}

/// What is stored of a request.
struct Admitted {
    batch: Batch,
    /// Of an import.
    admission: Option<Admission>,
    /// Given back if it is not stored.
    months: Paid,
    fingerprint: Option<u128>,
}

/// Runs to its end even when the client goes away meanwhile.
async fn commit(
    core: Rc<Core>,
    slot: Slot,
    admitted: Admitted,
    unnoted: Option<FirstEvents>,
) -> Result<(), Refusal> {
    let Admitted {
        batch,
        admission,
        months,
        fingerprint,
    } = admitted;
    let reuse = |spent| core.parser.borrow_mut().recycle(spent);
    let committed = slot.commit(batch, admission, reuse).await?;
    months.keep();
    // Now, as it is stored from here on, whatever its client is told and when.
    match committed.pending {
        None => core.shared.resends.remember(fingerprint),
        Some(pending) if fingerprint.is_some() => remember_later(&core, pending, fingerprint),
        Some(_) => {}
    }
    if let Some(FirstEvents { key, team_id }) = unnoted {
        core.shared.deps.keys.note_first_event(&key, team_id);
    }
    reuse(committed.spent);
    match committed.shipping {
        Some(shipping) => shipping.finished().await,
        None => Ok(()),
    }
}

/// Remembers a request that was acknowledged before it was stored, once it is: sent again before, or
/// if it never is, it has to be stored.
fn remember_later(core: &Rc<Core>, pending: Pending, fingerprint: Option<u128>) {
    let resends = core.shared.resends.clone();
    let remembered = async move {
        if pending.is_stored().await {
            resends.remember(fingerprint);
        }
    };
    // Nobody waits for it, so the core drives it to its end.
    drop(core.orphans.adopt(remembered));
}

/// Of a batch that is not stored.
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

fn reserve(core: &Core, lane: Lane, bytes: usize) -> Result<Slot, ApiError> {
    core.shared
        .deps
        .pipeline
        .reserve(lane, bytes)
        .map_err(|refusal| refused(core, refusal))
}

/// 413 for events whose rows take more room than one insert may.
fn too_large() -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        ErrorType::InvalidRequest,
        "batch_too_large",
        "The events of the request take more room than can be stored at once; nothing was stored. Send fewer events \
         per request.",
    )
}

/// 503 for a log or a queue that takes no more.
pub fn refused(core: &Core, refusal: Refusal) -> ApiError {
    let code = match refusal {
        Refusal::QueueFull => "queue_full",
        Refusal::LogFull => "log_full",
        Refusal::DiskFull => "disk_full",
        Refusal::HistoricalShed => "historical_shed",
        // Of what was written when the disk failed, the next start finds all or nothing.
        Refusal::LogFailed => {
            return core.later(
                "log_failed",
                format!(
                    "It is not known whether the events were stored: {refusal}. Send the request again; an event \
                     that has a uuid of its own counts once."
                ),
            );
        }
        Refusal::ShuttingDown => "shutting_down",
        Refusal::NotShipped => {
            return core.later(
                "not_shipped",
                format!("The events are stored, but not in ClickHouse yet: {refusal}. Sent again, they are stored once more."),
            );
        }
        Refusal::TooLarge => return too_large(),
    };
    core.later(
        code,
        format!("Nothing was stored: {refusal}. Send the request again."),
    )
}
