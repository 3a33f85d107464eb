//! Events in: the one handler of all capture paths and of the per-event protocol.
//!
//! Facts, body, key, parse, reserve, submit, answer. A client that goes away cancels everything
//! up to the submission and nothing after it.

use super::answer::Answer;
use super::head::bearer;
use super::imports;
use super::payload::{self, Payload};
use super::query::Query;
use super::report::{Told, stores};
use super::{Call, Route};
use crate::core::Core;
use crate::metrics::Stage;
use crate::watermark::Arrival;
use http::HeaderValue;
use hyper::body::Incoming;
use millrace_parse::{ApiError, Facts, KeyLookup, ParseError, Parsed, Protocol};
use millrace_pipeline::{Admission, Pending, Refusal, Slot};
use millrace_rows::{Batch, Lane, TeamId};
use std::rc::Rc;

/// Keys that one request may make us look up; a request has one, and more is a mistake of ours.
const LOOKUPS_MAX: usize = 4;

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
    let Payload { json, share, turn } = payload;
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
    let Taken { parsed, unnoted } = parse(call, &json, &facts).await?;
    let told = Told::of(&parsed, call.route == Route::V1);
    json.recycle(&call.core.buffers);
    if stores(&parsed)
        && let Some(slot) = slot
    {
        let taken = Taken { parsed, unnoted };
        store(call, arrival, slot, taken, told.plain()).await?;
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

/// A request that was understood.
struct Taken {
    parsed: Parsed,
    /// Its key and project, if it is not noted of the project that it has events.
    unnoted: Option<(Box<str>, TeamId)>,
}

/// Parses, and looks up the key when it is not in the cache.
async fn parse(call: &Call<'_>, json: &[u8], facts: &Facts<'_>) -> Result<Taken, ApiError> {
    let keys = &call.core.shared.deps.keys;
    let mut looked_up: Vec<(String, KeyLookup)> = Vec::new();
    let mut unnoted = None;
    loop {
        let mut find = |key: &str| {
            let known = looked_up.iter().find(|(known, _)| known == key);
            let lookup = known.map_or_else(|| keys.cached(key), |(_, lookup)| *lookup);
            call.conn.was_of(key);
            if let KeyLookup::Found(project) = lookup
                && !project.ingested_event
            {
                unnoted = Some((key.into(), project.team_id));
            }
            lookup
        };
        let started = call.now();
        let result = call.core.parser.borrow_mut().parse(json, facts, &mut find);
        call.took(Stage::Parse, started);
        match result {
            Ok(parsed) => return Ok(Taken { parsed, unnoted }),
            Err(ParseError::Refused(error)) => return Err(error),
            Err(ParseError::NeedsKey(key)) if looked_up.len() < LOOKUPS_MAX => {
                let found = keys
                    .find(&key)
                    .await
                    .map_err(|_| catalog_unavailable(call.core))?;
                looked_up.push((key, found.map_or(KeyLookup::Unknown, KeyLookup::Found)));
            }
            Err(ParseError::NeedsKey(_)) => return Err(catalog_unavailable(call.core)),
        }
    }
}

/// Stores a batch, unless it was stored when it was sent before.
async fn store(
    call: &Call<'_>,
    arrival: Arrival,
    slot: Slot,
    taken: Taken,
    plain: bool,
) -> Result<(), ApiError> {
    let core = call.core;
    let Taken { parsed, unnoted } = taken;
    let unnoted = unnoted.filter(|_| parsed.accepted > 0);
    let fingerprint = parsed.fingerprint;
    if core.shared.resends.knows(fingerprint) {
        core.metrics.resent();
        recycle(core, parsed.batch);
        return Ok(());
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
    let started = call.now();
    let taken = Admitted {
        batch: parsed.batch,
        admission,
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

/// What is stored of a request.
struct Admitted {
    batch: Batch,
    /// Of an import.
    admission: Option<Admission>,
    fingerprint: Option<u128>,
}

/// Runs to its end even when the client goes away meanwhile.
async fn commit(
    core: Rc<Core>,
    slot: Slot,
    admitted: Admitted,
    unnoted: Option<(Box<str>, TeamId)>,
) -> Result<(), Refusal> {
    let Admitted {
        batch,
        admission,
        fingerprint,
    } = admitted;
    let reuse = |spent| core.parser.borrow_mut().recycle(spent);
    let committed = match admission {
        None => slot.submit(batch, reuse).await?,
        Some(admission) => slot.submit_counted(batch, admission, reuse).await?,
    };
    match committed.pending {
        None => core.shared.resends.remember(fingerprint),
        Some(pending) if fingerprint.is_some() => remember_later(&core, pending, fingerprint),
        Some(_) => {}
    }
    if let Some((key, team_id)) = unnoted {
        core.shared.deps.keys.note_first_event(&key, team_id);
    }
    reuse(committed.spent);
    Ok(())
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

/// 503 for a log or a queue that takes no more.
pub fn refused(core: &Core, refusal: Refusal) -> ApiError {
    let code = match refusal {
        Refusal::QueueFull => "queue_full",
        Refusal::LogFull => "log_full",
        Refusal::DiskFull => "disk_full",
        Refusal::HistoricalShed => "historical_shed",
        Refusal::LogFailed => "log_failed",
        Refusal::ShuttingDown => "shutting_down",
    };
    core.later(
        code,
        format!("Nothing was stored: {refusal}. Send the request again."),
    )
}

fn catalog_unavailable(core: &Core) -> ApiError {
    core.later(
        "catalog_unavailable",
        "The project key cannot be looked up at the moment. Send the request again.",
    )
}
