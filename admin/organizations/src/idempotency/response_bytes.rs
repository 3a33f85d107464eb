//! Bytes of stored responses, which are bounded for a user and for an organization.
//!
//! They are counted by the hour in which they were stored, in the transaction that stores, and an
//! hour counts until all of its responses have expired. So a claim reads some rows however many
//! responses there are, and nothing is subtracted when responses are swept, which would lock the
//! counts of several holders in any order.
//!
//! A count is raised when a response is stored. Requests that are executed at the same time may
//! exceed a bound by their responses, which have a bound of their own in memory.

use millrace_catalog::UtcTime;
use millrace_catalog::entities::idempotency_bytes as counts;
use millrace_catalog::limits::{
    RESPONSE_BYTES_PER_ORGANIZATION_MAX, RESPONSE_BYTES_PER_USER_MAX,
    RESPONSE_BYTES_RESERVED_PER_USER,
};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, ExprTrait, OnConflict};
use sea_orm::{
    ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, QueryFilter, QueryOrder,
};
use std::time::Duration;

const HOUR_MICROS: i64 = 3_600 * 1_000_000;
/// Time for which an hour counts, from its start: its last response is stored for a day.
pub(super) const COUNTED_MICROS: i64 = 25 * HOUR_MICROS;
/// Bytes of a response's row beside its body, and of its places in the indexes.
const ROW_BYTES: i64 = 512;

/// User and organization that a stored response counts for; nobody for an anonymous request, which
/// uses up an invite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseOwners {
    /// Owner of the key that the request was made with.
    pub user_id: Option<i64>,
    /// Organization that the request concerns.
    pub organization_id: Option<Uuid>,
}

/// Refusal to store more responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponsesFull {
    /// True if the organization is at its limit, false if the user is.
    pub is_of_organization: bool,
    /// Bytes allowed.
    pub bytes_max: u64,
    /// Time until enough of them have expired.
    pub wait: Duration,
}

/// User or organization with a limit, by the name under which its bytes are counted.
struct Holder {
    name: String,
    bytes_max: u64,
    is_organization: bool,
}

impl ResponseOwners {
    /// Holders of counts, in the order in which all transactions lock them.
    fn holders(self) -> impl Iterator<Item = Holder> {
        let user = self.user_id.map(|id| Holder {
            name: format!("user {id}"),
            bytes_max: RESPONSE_BYTES_PER_USER_MAX,
            is_organization: false,
        });
        let organization = self.organization_id.map(|id| Holder {
            name: format!("organization {id}"),
            bytes_max: RESPONSE_BYTES_PER_ORGANIZATION_MAX,
            is_organization: true,
        });
        user.into_iter().chain(organization)
    }
}

/// Finds an owner whose responses reach its limit; `None` if one more can be stored.
/// Other users of the organization cannot keep out a user who has less than what is reserved for
/// each.
pub(super) async fn find_full(
    within: &DatabaseTransaction,
    owners: ResponseOwners,
    now: UtcTime,
) -> Result<Option<ResponsesFull>, DbErr> {
    let mut of_user = 0;
    for holder in owners.holders() {
        if holder.is_organization && of_user < RESPONSE_BYTES_RESERVED_PER_USER {
            break;
        }
        let hours = counted(within, &holder.name, now).await?;
        if let Some(wait) = wait(&hours, holder.bytes_max, now) {
            return Ok(Some(ResponsesFull {
                is_of_organization: holder.is_organization,
                bytes_max: holder.bytes_max,
                wait,
            }));
        }
        of_user = bytes(&hours);
    }
    Ok(None)
}

/// Reads the hours of a holder that count, oldest first. Those of a clock that was ahead for a
/// while do not: they would count until then.
async fn counted(
    within: &DatabaseTransaction,
    holder: &str,
    now: UtcTime,
) -> Result<Vec<counts::Model>, DbErr> {
    counts::Entity::find()
        .filter(counts::Column::Holder.eq(holder))
        .filter(counts::Column::Hour.gt(now.plus_micros(-COUNTED_MICROS)))
        .filter(counts::Column::Hour.lte(now.plus_micros(HOUR_MICROS)))
        .order_by_asc(counts::Column::Hour)
        .all(within)
        .await
}

fn bytes(hours: &[counts::Model]) -> u64 {
    hours.iter().map(|hour| hour.bytes.unsigned_abs()).sum()
}

/// Time until enough hours have expired for the bytes to be fewer than allowed; `None` if they are
/// fewer now.
fn wait(hours: &[counts::Model], bytes_max: u64, now: UtcTime) -> Option<Duration> {
    let (mut left, mut wait) = (bytes(hours), None);
    for hour in hours {
        if left < bytes_max {
            break;
        }
        left = left.saturating_sub(hour.bytes.unsigned_abs());
        let ends = hour.hour.plus_micros(COUNTED_MICROS);
        let micros = ends.0.saturating_sub(now.0).unsigned_abs();
        wait = Some(Duration::from_micros(micros));
    }
    wait
}

/// Counts a response that is stored.
pub(super) async fn count(
    within: &DatabaseTransaction,
    owners: ResponseOwners,
    body_bytes: usize,
    now: UtcTime,
) -> Result<(), DbErr> {
    let bytes = i64::try_from(body_bytes).unwrap_or(i64::MAX);
    let bytes = bytes.saturating_add(ROW_BYTES);
    let hour = now.plus_micros(-now.0.rem_euclid(HOUR_MICROS));
    for holder in owners.holders() {
        let row = counts::ActiveModel {
            holder: ActiveValue::Set(holder.name),
            hour: ActiveValue::Set(hour),
            bytes: ActiveValue::Set(bytes),
        };
        let sum = Expr::col((counts::Entity, counts::Column::Bytes)).add(bytes);
        let mut again = OnConflict::columns([counts::Column::Holder, counts::Column::Hour]);
        again.value(counts::Column::Bytes, sum);
        counts::Entity::insert(row)
            .on_conflict(again)
            .exec_without_returning(within)
            .await?;
    }
    Ok(())
}
