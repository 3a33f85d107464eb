//! `Idempotency-Key`: a `POST` that is sent again gets the first one's response.
//!
//! Successes are kept for 24 hours by key and path, however the path spells its ids; failures are
//! not, as they may be tried again. Secrets that are shown once are not kept: they are null in the
//! replay. Where the kept responses of the user or of the organization are the most allowed, a new
//! request with a key is refused before it runs.
//!
//! If the process crashes after the change's transaction and before its response is kept, the
//! claim lapses after two minutes and the request runs again.

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use crate::request::path_id;
use crate::response::render::Success;
use bytes::Bytes;
use http::{HeaderName, StatusCode};
use millrace_catalog::{Catalog, bounded_json};
use millrace_organizations::{IdempotencyClaim, IdempotencyKeys, ResponseOwners};
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Longest key, in characters.
const KEY_CHARS_MAX: usize = 255;

/// Idempotency key of a request, with the hash of its body.
pub(crate) struct Idempotency {
    catalog: Catalog,
    id: String,
    request_hash: String,
    owners: ResponseOwners,
}

/// A claimed key: no other request with it runs until the claim ends or lapses.
pub(crate) struct ClaimedKey {
    of: Idempotency,
    claim: Uuid,
}

/// Result of claiming a key.
pub(crate) enum ClaimOutcome {
    /// The key is new: run the request, then end the claim.
    New(Box<ClaimedKey>),
    /// The request was made before; this is its response.
    Done(Success),
}

impl Idempotency {
    /// Reads the request's key, if it has one, for the path of an operation.
    ///
    /// # Errors
    ///
    /// 400 for an invalid key.
    pub(crate) fn of(
        context: &Context,
        template: &str,
        body: &Bytes,
    ) -> Result<Option<Self>, ApiError> {
        let Some(key) = context.request.headers.get(IDEMPOTENCY_KEY) else {
            return Ok(None);
        };
        let usable = |key: &&str| {
            let printable = key.bytes().all(|byte| (b' '..=b'~').contains(&byte));
            printable && (1..=KEY_CHARS_MAX).contains(&key.len())
        };
        let key = key.to_str().ok().filter(usable).ok_or_else(|| {
            let detail = "Idempotency-Key must have 1 to 255 characters of printable ASCII.";
            ApiError::invalid("invalid_input", None, detail)
        })?;
        let owner = context.caller.as_ref();
        let owner = owner.map(|caller| caller.credential.id());
        let path = path_id::resolved_path(context, template);
        let id = digest(&[
            owner.unwrap_or_default().as_bytes(),
            path.as_bytes(),
            key.as_bytes(),
        ]);
        let organization = context.organization.as_ref();
        Ok(Some(Self {
            catalog: context.catalog().clone(),
            id,
            request_hash: digest(&[body]),
            owners: ResponseOwners {
                user_id: context.caller.as_ref().map(|caller| caller.user.id),
                organization_id: organization.map(|access| access.organization.id),
            },
        }))
    }

    /// Response of the first request, if there was one; does not claim the key.
    ///
    /// # Errors
    ///
    /// Those of [`Idempotency::begin`].
    pub(crate) async fn replay(&self) -> Result<Option<Success>, ApiError> {
        let answered = IdempotencyKeys::new(&self.catalog).answer(&self.id, &self.request_hash);
        match answered.await? {
            Some(known) => replay_or_conflict(known).map(Some),
            None => Ok(None),
        }
    }

    /// Claims the request.
    ///
    /// # Errors
    ///
    /// 409 if the key was used with another body, or if the first request is still running; 429 if
    /// its response could not be kept.
    pub(crate) async fn begin(self) -> Result<ClaimOutcome, ApiError> {
        let claimed =
            IdempotencyKeys::new(&self.catalog).claim(&self.id, &self.request_hash, self.owners);
        match claimed.await? {
            IdempotencyClaim::New(claim) => {
                Ok(ClaimOutcome::New(Box::new(ClaimedKey { of: self, claim })))
            }
            known => replay_or_conflict(known).map(ClaimOutcome::Done),
        }
    }
}

impl ClaimedKey {
    /// Keeps a success for replays, or releases the key after a failure.
    pub(crate) async fn end(self, operation: &Operation, outcome: &Result<Success, ApiError>) {
        let claim = self.claim;
        let Idempotency {
            catalog,
            id,
            owners,
            ..
        } = self.of;
        let ended = match outcome {
            Ok(success) if success.status.is_success() => {
                let body = without_secrets(&success.body, operation.shown_once);
                let status = success.status.as_u16();
                IdempotencyKeys::new(&catalog)
                    .keep_answer(&id, claim, owners, status, &body)
                    .await
            }
            _ => IdempotencyKeys::new(&catalog).release(&id, claim).await,
        };
        if let Err(error) = ended {
            // The change is committed; a retry runs again once the claim lapses.
            tracing::error!(%error, "an idempotent answer was not kept");
        }
    }
}

/// Replay of a request that was made, or 409 for one that runs or has another body, or 429.
fn replay_or_conflict(known: IdempotencyClaim) -> Result<Success, ApiError> {
    match known {
        IdempotencyClaim::Done(kept) => Ok(Success {
            status: StatusCode::from_u16(kept.status).unwrap_or_default(),
            content_type: "application/json",
            body: kept.body.into(),
            stream: None,
            tag: None,
            coding: None,
            cookie: None,
            is_replay: true,
            is_uncopied: false,
        }),
        IdempotencyClaim::Mismatch => Err(ApiError::conflict(
            "idempotency_mismatch",
            "This Idempotency-Key was used with another body; use a new one.",
        )),
        IdempotencyClaim::Full(full) => Err(ApiError::too_many_kept_responses(&full)),
        IdempotencyClaim::New(_) | IdempotencyClaim::InProgress => Err(ApiError::conflict(
            "idempotency_in_progress",
            "The first request with this Idempotency-Key is still on its way; try again.",
        )),
    }
}

fn without_secrets(body: &Bytes, fields: &[&str]) -> String {
    let text = || String::from_utf8_lossy(body).into_owned();
    if fields.is_empty() {
        return text();
    }
    let Ok(mut value) = bounded_json::parse(body, usize::MAX) else {
        return text();
    };
    for field in fields {
        if let Some(secret) = value.get_mut(field) {
            *secret = Value::Null;
        }
    }
    value.to_string()
}

/// Hashes parts with their lengths, so that their boundaries count.
fn digest(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    let bytes = hasher.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
