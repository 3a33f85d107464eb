//! `/api/projects/:project_id/live/`: the events of a project as they arrive, with their fate.
//!
//! The response is a stream of server-sent events without an end. It ends with the server, with the
//! source, or when the caller loses access; clients come back with `Last-Event-ID`.

mod filter;
mod server_sent;

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::response::stream::{BodyStream, Pieces};
use crate::response::{ApiResponse, HandlerResult};
use crate::stream_grant::{CHECK_EVERY, StreamGrant};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use millrace_catalog::{Level, ProjectId, RequiredScope};
use millrace_live::{LiveMessage, WatchRequest};
use std::io;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

const ONE: &str = "/api/projects/{project_id}/live/";
const READ: [RequiredScope; 1] = [RequiredScope::read("event")];
const MEDIA_TYPE: &str = "text/event-stream";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Header that has nginx pass events on as they come.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// Bytes of a `Last-Event-ID` that is looked at.
const ID_BYTES_MAX: usize = 128;
/// Messages that wait for the connection; more wait where they are counted.
const PIECES_MAX: usize = 2;

/// Operations of live streams.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::watch(ONE, &[MEDIA_TYPE], watch)
            .about("Watch the events of a project as they arrive")
            .note(
                "Server-sent events. `event`: an event, accepted (`fate` is `logged`) or rejected \
                 (`rejected`, with `code`, `attr` and `detail`), with the codes of its warnings, its \
                 SDK, its size in bytes, the project key masked and, for administrators, the \
                 client's address. `stored`: `ids` of logged events that are in ClickHouse now. \
                 `rate`, each second: `events` of the project, `matching` the filter, `shown`; \
                 `unseen` were too many to look at, for `dropped` the connection was too slow, and \
                 `nodes_missing` are not reached. \
                 Above 50 matching events a second, a sample of them is shown. Events of the last \
                 15 seconds are shown again behind the header `Last-Event-ID`. The stream ends when \
                 the key or its access does.",
            )
            .query("event", "string", "Only events of this name.")
            .query("distinct_id", "string", "Only events of this distinct id.")
            .query(
                "fate",
                "string",
                "Only events that are `logged`, `stored` (shown once they are) or `rejected`.",
            )
            .query(
                "code",
                "string",
                "Only events with this code of a rejection or a warning.",
            )
            .query("$lib", "string", "Only events of this SDK.")
            .query(
                "property",
                "string",
                "Only events with this property, as `name=value`; a value that is no text as JSON. \
                 May be given five times.",
            )
            .scopes(&READ)
            .limited_by(&[
                Limit::UserLiveStreams,
                Limit::ProjectLiveStreams,
                Limit::LiveStreams,
                Limit::LiveEvents,
            ])
            .fails(400, "invalid_input", "A filter cannot have this value."),
    ]
}

async fn watch(context: Context) -> HandlerResult {
    let filter = filter::of(&context)?;
    let source = context.services.live.clone();
    let source = source.ok_or_else(ApiError::unavailable)?;
    let (project_id, user_id) = (context.project()?.id, context.caller()?.user.id);
    let permit = context.services.live_slots.acquire(project_id, user_id);
    let permit = permit.ok_or_else(ApiError::too_many_live_streams)?;
    let request = WatchRequest {
        project_id: ProjectId(project_id),
        filter,
        shows_ip: context.organization()?.level >= Some(Level::Administrator),
        seen: last_event_id(&context.request.headers),
    };
    let messages = source.watch(request).await?;
    let (sender, pieces) = mpsc::channel(PIECES_MAX);
    tokio::spawn(pass_on(context, messages, sender));
    // Streams have no end, and so no size.
    let pieces = Pieces::new(pieces, u64::MAX, permit);
    let headers = vec![(ACCEL_BUFFERING, HeaderValue::from_static("no"))];
    let stream = BodyStream::new(pieces, headers);
    Ok(ApiResponse::streamed(MEDIA_TYPE, stream))
}

/// Passes messages on until there are no more, nobody takes them, the caller may see no more, or
/// the server stops.
async fn pass_on(
    context: Context,
    mut messages: mpsc::Receiver<LiveMessage>,
    pieces: mpsc::Sender<io::Result<Bytes>>,
) {
    let grant = StreamGrant::of(&context, &READ);
    let mut checks = interval_at(Instant::now() + CHECK_EVERY, CHECK_EVERY);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    if pieces.send(Ok(server_sent::beginning())).await.is_err() {
        return;
    }
    loop {
        let next = async {
            let place = pieces.reserve().await.ok()?;
            let message = messages.recv().await?;
            Some((place, message))
        };
        tokio::select! {
            next = next => match next {
                Some((place, message)) => place.send(Ok(server_sent::text(&message))),
                None => return,
            },
            _ = checks.tick() => if !grant.holds().await {
                return;
            },
            () = context.services.stopping.begun() => return,
        }
    }
}

/// Id of the last event that a client has seen, if it tells one.
fn last_event_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(LAST_EVENT_ID)?.to_str().ok()?;
    (id.len() <= ID_BYTES_MAX).then(|| id.to_owned())
}
