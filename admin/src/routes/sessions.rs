//! `/api/sessions/`: the caller's own sessions.

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use crate::page::Envelope;
use millrace_catalog::{SessionRecord, SignInMethod, UtcTime};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

const ALL: &str = "/api/sessions/";
const ONE: &str = "/api/sessions/{id}/";
/// Alias of the session of the request.
const CURRENT: &str = "@current";
const BEYOND: &str = "The key allows less than a session.";

/// Operations of sessions. A session has all rights of its user, so only another session and a key
/// with the scope `*` see and end it.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::list(ALL, list)
            .about("List your sessions")
            .fails(403, "permission_denied", BEYOND),
        Operation::get(ONE, retrieve)
            .about("Read a session")
            .note("`@current` is the session of the request. The `ETag` leaves out `last_used_at`.")
            .live_fields(&["last_used_at"])
            .fails(403, "permission_denied", BEYOND),
        Operation::delete(ONE, end)
            .about("End a session")
            .note("It is refused from the next request on.")
            .fails(403, "permission_denied", BEYOND),
    ]
}

/// A session of a person who signed in with a browser.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Session")]
pub(super) struct SessionBody {
    /// Id of the session.
    id: Uuid,
    /// Way of signing in.
    method: MethodName,
    /// Browser, as it names itself; may be empty.
    user_agent: String,
    /// Time of signing in.
    created_at: UtcTime,
    /// Time of the last use, updated at most every five minutes. The session ends 12 hours after
    /// it.
    last_used_at: UtcTime,
    /// Time at which the session ends, however much it is used.
    expires_at: UtcTime,
    /// Id of the person.
    user_id: i64,
}

/// Way of signing in: a link of the operator, a link that was mailed, an invitation that was
/// accepted.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SignInMethod")]
#[serde(rename_all = "snake_case")]
enum MethodName {
    Link,
    Mail,
    Invite,
}

impl From<SignInMethod> for MethodName {
    fn from(method: SignInMethod) -> Self {
        match method {
            SignInMethod::Link => Self::Link,
            SignInMethod::Mail => Self::Mail,
            SignInMethod::Invite => Self::Invite,
        }
    }
}

impl From<SessionRecord> for SessionBody {
    fn from(session: SessionRecord) -> Self {
        Self {
            id: session.id,
            method: session.method.into(),
            user_agent: session.user_agent,
            created_at: session.created_at,
            last_used_at: session.last_used_at,
            expires_at: session.expires_at,
            user_id: session.user_id,
        }
    }
}

async fn list(context: Context) -> Result<Envelope<SessionBody>, ApiError> {
    let caller = context.caller()?;
    let read = |page| context.sessions().list_own(caller, page);
    context.list(context.page(), read).await
}

async fn retrieve(context: Context) -> Result<SessionBody, ApiError> {
    let (caller, id) = (context.caller()?, id(&context)?);
    let found = context.sessions().get_own(caller, id).await?;
    found.map(SessionBody::from).ok_or_else(ApiError::not_found)
}

async fn end(context: Context) -> Result<(), ApiError> {
    let (caller, id) = (context.caller()?, id(&context)?);
    Ok(context.sessions().end_own(caller, id).await?)
}

fn id(context: &Context) -> Result<Uuid, ApiError> {
    if context.text("id") == CURRENT {
        let session_id = context.caller()?.credential.session_id();
        return session_id.ok_or_else(ApiError::not_found);
    }
    context.uuid("id")
}
