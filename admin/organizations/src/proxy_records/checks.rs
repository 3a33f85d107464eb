//! Checks of proxy records: claiming due records, and storing results.
//!
//! A process claims the due records by moving their `check_at`, so that only one of several
//! processes checks each. A claim whose process died lapses; then the record is due again.
//!
//! The pause between two checks grows with the time for which their result stayed the same.

use super::{ProxyRecords, audit_change, domain_taken, is_proven, records};
use millrace_catalog::entities::proxy_records::ProxyStatus;
use millrace_catalog::transaction::locked;
use millrace_catalog::{Activity, Actor, CatalogError, ChangeError, UtcTime};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::{Expr, LockBehavior, LockType};
use sea_orm::{
    ActiveEnum, ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend, DbErr,
    EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select,
};

const MINUTE_MICROS: i64 = 60 * 1_000_000;
const HOUR_MICROS: i64 = 60 * MINUTE_MICROS;
/// Lifetime of a claim; longer than a check can take.
const CLAIM_MICROS: i64 = 2 * MINUTE_MICROS;
/// Shortest and longest pause between two checks.
const PAUSE_MICROS_MIN: i64 = MINUTE_MICROS;
const PAUSE_MICROS_MAX: i64 = HOUR_MICROS;
/// Ratio of the time without a change to the pause.
const PAUSE_PART: i64 = 10;
/// Age at which a record that never worked times out.
const TIMED_OUT_MICROS: i64 = 7 * 24 * HOUR_MICROS;
/// Message of a record that works while another organization's does. A domain points to one name at
/// a time, so the other record's next check most often frees it.
const WORKS_ELSEWHERE: &str = "The domain leads here, but the record of another organization for it works \
     as well. This one becomes valid once a check finds that the other does not any more, or once it is \
     deleted.";

impl ProxyRecords<'_> {
    /// Claims records of all organizations whose check is due for two minutes, the longest overdue
    /// first. Results go to [`ProxyRecords::record_check`].
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn claim_due(self, limit: u64) -> Result<Vec<records::Model>, CatalogError> {
        let now = self.0.now();
        let looked = due(now, 1).one(self.0.reader()).await;
        if looked.map_err(|error| self.0.error(&error))?.is_none() {
            // The usual case: nothing is due, and nothing is written.
            return Ok(Vec::new());
        }
        let transaction = self.0.begin().await?;
        let claimed = claim(&transaction, now, limit).await;
        let claimed = claimed.map_err(|error| self.0.error(&error))?;
        self.0.commit(transaction).await?;
        Ok(claimed)
    }

    /// Stores the result of a check: [`ProxyStatus::Waiting`], [`ProxyStatus::Issuing`] or
    /// [`ProxyStatus::Valid`]; `None` if the check failed by itself, so that the status stays. A
    /// record that worked before and does not now becomes [`ProxyStatus::Erroring`]; one that never
    /// worked in seven days becomes [`ProxyStatus::TimedOut`], even by a failed check. While
    /// another organization's record for the domain works, this one does not become valid, and its
    /// message says why. A change leaves an audit entry. Returns false if the record was deleted
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn record_check(
        self,
        id: Uuid,
        found: Option<ProxyStatus>,
        message: Option<String>,
    ) -> Result<bool, ChangeError> {
        let kept = self.keep_check(id, found, message.clone()).await;
        match kept {
            // Another record of the domain became valid at the same moment: the retry sees it.
            Err(ChangeError::Invalid(_)) => self.keep_check(id, found, message).await,
            kept => kept,
        }
    }

    async fn keep_check(
        self,
        id: Uuid,
        found: Option<ProxyStatus>,
        message: Option<String>,
    ) -> Result<bool, ChangeError> {
        let transaction = self.0.begin().await?;
        let set = async {
            let query = locked(&transaction, records::Entity::find_by_id(id));
            let Some(before) = query.one(&transaction).await? else {
                return Ok(false);
            };
            let now = self.0.now();
            let (mut status, mut message) = (status(&before, found, now), message);
            if becomes_proven(&before, status) && is_proven(&transaction, &before.domain).await? {
                status = self::status(&before, Some(ProxyStatus::Issuing), now);
                message = Some(WORKS_ELSEWHERE.to_owned());
            }
            let audit = audit_change(Activity::Updated, &before)
                .field("status", before.status.to_value(), status.to_value())
                .field("message", &before.message, &message);
            let mut row = records::ActiveModel {
                id: ActiveValue::Unchanged(id),
                ..Default::default()
            };
            let mut unchanged_since = before.updated_at;
            if !audit.changes_nothing() {
                unchanged_since = now;
                row.status = ActiveValue::Set(status);
                row.message = ActiveValue::Set(message);
                row.updated_at = ActiveValue::Set(now);
                self.0.record(&transaction, &Actor::System, audit).await?;
            }
            row.check_at = ActiveValue::Set(next_check(unchanged_since, now));
            let updated = records::Entity::update(row).exec(&transaction).await;
            updated.map_err(domain_taken)?;
            Ok(true)
        };
        let set = set.await;
        self.0.finish(transaction, set).await
    }
}

fn becomes_proven(before: &records::Model, status: ProxyStatus) -> bool {
    let is_one = |status: &ProxyStatus| ProxyStatus::PROVEN.contains(status);
    is_one(&status) && !is_one(&before.status)
}

/// Query for the records whose check is due, the longest overdue first.
fn due(now: UtcTime, limit: u64) -> Select<records::Entity> {
    records::Entity::find()
        .filter(records::Column::CheckAt.lte(now))
        .order_by_asc(records::Column::CheckAt)
        .order_by_asc(records::Column::Id)
        .limit(limit)
}

async fn claim(
    within: &DatabaseTransaction,
    now: UtcTime,
    limit: u64,
) -> Result<Vec<records::Model>, DbErr> {
    let mut query = due(now, limit);
    if within.get_database_backend() == DbBackend::Postgres {
        // Others claim or delete locked rows, in another order: skip them.
        query = query.lock_with_behavior(LockType::Update, LockBehavior::SkipLocked);
    }
    let found = query.all(within).await?;
    let ids = found.iter().map(|record| record.id);
    let lapses_at = Expr::value(now.plus_micros(CLAIM_MICROS));
    records::Entity::update_many()
        .col_expr(records::Column::CheckAt, lapses_at)
        .filter(records::Column::Id.is_in(ids))
        .exec(within)
        .await?;
    Ok(found)
}

/// Next status of a record after a check.
fn status(before: &records::Model, found: Option<ProxyStatus>, now: UtcTime) -> ProxyStatus {
    let is_old = now.0 - before.created_at.0 >= TIMED_OUT_MICROS;
    match (found, before.status) {
        (Some(ProxyStatus::Valid), _) => ProxyStatus::Valid,
        (None, had @ (ProxyStatus::Valid | ProxyStatus::Warning)) => had,
        (_, ProxyStatus::Valid | ProxyStatus::Warning | ProxyStatus::Erroring) => {
            ProxyStatus::Erroring
        }
        _ if is_old => ProxyStatus::TimedOut,
        (found, had) => found.unwrap_or(had),
    }
}

fn next_check(unchanged_since: UtcTime, now: UtcTime) -> UtcTime {
    let pause_micros = (now.0 - unchanged_since.0) / PAUSE_PART;
    now.plus_micros(pause_micros.clamp(PAUSE_MICROS_MIN, PAUSE_MICROS_MAX))
}
