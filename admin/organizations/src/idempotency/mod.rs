//! Idempotency keys: a request is executed once, however often it is sent.
//!
//! A claim is one row, inserted before the request is executed, so that only one of two concurrent
//! requests executes. Responses are stored for 24 hours, and later claims sweep old ones. A claim
//! that did not end, because its process died or hangs, lapses after two minutes; its former holder
//! can neither complete nor release the claim that another one has made since.
//!
//! A response is never forgotten before its time, as its request would be executed again. What a
//! user and an organization store is bounded all the same (`response_bytes`): a new request is
//! refused at its claim, before anything is done, while known ones get their responses.

mod handle;
mod response_bytes;
mod retention;

pub use handle::IdempotencyKeys;
pub use response_bytes::{ResponseOwners, ResponsesFull};

use millrace_catalog::entities::idempotency_keys as keys;
use millrace_catalog::{CatalogError, UtcTime};
use retention::{KEPT_MICROS, is_forgotten};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveValue, ColumnTrait, Condition, DatabaseTransaction, DbErr, EntityTrait, QueryFilter,
    TryInsertResult,
};

/// Lifetime of a claim, in microseconds: after it, another request may claim the key.
const CLAIM_MICROS: i64 = 120 * 1_000_000;

/// Outcome of claiming a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdempotencyClaim {
    /// New request: the caller executes it, and ends the claim by this id.
    New(Uuid),
    /// The request is being executed.
    InProgress,
    /// The key was used with another body.
    Mismatch,
    /// The request was executed, with this response.
    Done(StoredResponse),
    /// New request, which may not be executed: its response could not be stored.
    Full(ResponsesFull),
}

/// Response for replays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// HTTP status.
    pub status: u16,
    /// Body.
    pub body: String,
}

impl IdempotencyKeys<'_> {
    /// Looks a request up without claiming it; `None` if a claim would be new.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn answer(
        self,
        id: &str,
        request_hash: &str,
    ) -> Result<Option<IdempotencyClaim>, CatalogError> {
        let since = |micros: i64| UtcTime(self.0.now().0.saturating_sub(micros));
        let answered = Condition::all()
            .add(keys::Column::Status.is_not_null())
            .add(keys::Column::CreatedAt.gt(since(KEPT_MICROS)));
        let in_progress = Condition::all()
            .add(keys::Column::Status.is_null())
            .add(keys::Column::CreatedAt.gt(since(CLAIM_MICROS)));
        let found = keys::Entity::find_by_id(id.to_owned())
            .filter(Condition::any().add(answered).add(in_progress))
            .one(self.0.reader())
            .await
            .map_err(|error| self.0.error(&error))?;
        Ok(found.map(|had| known(Some(had), request_hash)))
    }

    /// Claims a request: `id` names it, `request_hash` stands for its body, and its response will
    /// count for `owners`.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn claim(
        self,
        id: &str,
        request_hash: &str,
        owners: ResponseOwners,
    ) -> Result<IdempotencyClaim, CatalogError> {
        let transaction = self.0.begin().await?;
        let claimed = claim(&transaction, id, request_hash, owners, self.0.now()).await;
        let claimed = claimed.map_err(|error| self.0.error(&error))?;
        self.0.commit(transaction).await?;
        Ok(claimed)
    }

    /// Stores the response of a claimed request for replays, and counts it for `owners`, unless the
    /// claim lapsed and another request has the key.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn keep_answer(
        self,
        id: &str,
        claim: Uuid,
        owners: ResponseOwners,
        status: u16,
        body: &str,
    ) -> Result<(), CatalogError> {
        let answer = keys::ActiveModel {
            status: ActiveValue::Set(i16::try_from(status).ok()),
            body: ActiveValue::Set(Some(body.to_owned())),
            ..Default::default()
        };
        let transaction = self.0.begin().await?;
        let kept: Result<(), DbErr> = async {
            let updated = keys::Entity::update_many()
                .set(answer)
                .filter(is_claimed_by(id, claim))
                .exec(&transaction)
                .await?;
            if updated.rows_affected > 0 {
                response_bytes::count(&transaction, owners, body.len(), self.0.now()).await?;
            }
            Ok(())
        }
        .await;
        kept.map_err(|error| self.0.error(&error))?;
        self.0.commit(transaction).await
    }

    /// Releases the claim of a failed request, so that it can be repeated, unless the claim lapsed
    /// and another request has the key.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn release(self, id: &str, claim: Uuid) -> Result<(), CatalogError> {
        let released = keys::Entity::delete_many()
            .filter(is_claimed_by(id, claim))
            .exec(self.0.writer())
            .await;
        released.map(drop).map_err(|error| self.0.error(&error))
    }
}

/// Condition for the row of a claim: until the request is executed, the row has no status, and the
/// claim's id as its body.
fn is_claimed_by(id: &str, claim: Uuid) -> Condition {
    Condition::all()
        .add(keys::Column::Id.eq(id))
        .add(keys::Column::Status.is_null())
        .add(keys::Column::Body.eq(claim.to_string()))
}

async fn claim(
    within: &DatabaseTransaction,
    id: &str,
    request_hash: &str,
    owners: ResponseOwners,
    now: UtcTime,
) -> Result<IdempotencyClaim, DbErr> {
    let lapsed = Condition::all()
        .add(keys::Column::Status.is_null())
        .add(keys::Column::CreatedAt.lte(now.plus_micros(-CLAIM_MICROS)));
    // The claim's own row comes first, while nothing else is locked: that cannot deadlock.
    keys::Entity::delete_many()
        .filter(keys::Column::Id.eq(id))
        .filter(Condition::any().add(lapsed).add(is_forgotten(now)))
        .exec(within)
        .await?;
    retention::sweep(within, now).await?;
    if let Some(full) = response_bytes::find_full(within, owners, now).await? {
        let had = keys::Entity::find_by_id(id.to_owned()).one(within).await?;
        return Ok(match had {
            Some(had) => known(Some(had), request_hash),
            None => IdempotencyClaim::Full(full),
        });
    }
    let claim = Uuid::new_v4();
    let row = keys::ActiveModel {
        id: ActiveValue::Set(id.to_owned()),
        request_hash: ActiveValue::Set(request_hash.to_owned()),
        status: ActiveValue::Set(None),
        body: ActiveValue::Set(Some(claim.to_string())),
        created_at: ActiveValue::Set(now),
    };
    let mut once = OnConflict::column(keys::Column::Id);
    once.do_nothing();
    let inserted = keys::Entity::insert(row).on_conflict(once).try_insert();
    if let TryInsertResult::Inserted(_) = inserted.exec(within).await? {
        return Ok(IdempotencyClaim::New(claim));
    }
    let had = keys::Entity::find_by_id(id.to_owned()).one(within).await?;
    Ok(known(had, request_hash))
}

fn known(had: Option<keys::Model>, request_hash: &str) -> IdempotencyClaim {
    match had {
        Some(had) if had.request_hash != request_hash => IdempotencyClaim::Mismatch,
        Some(keys::Model {
            status: Some(status),
            body: Some(body),
            ..
        }) => IdempotencyClaim::Done(StoredResponse {
            status: u16::try_from(status).unwrap_or_default(),
            body,
        }),
        // Released between the insert and this read: a retry will claim it.
        _ => IdempotencyClaim::InProgress,
    }
}
