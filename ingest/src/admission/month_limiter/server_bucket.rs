//! Bucket of all organizations together, of which each has a share.
//!
//! Organizations are free, so a limit of each bounds nothing by itself. A month costs a token here
//! only if nobody paid for it lately: events of the same months, as devices of many customers send
//! them, are one insert.
//!
//! An owner may begin months as long as more are left than they began within [`WINDOW`], and by one
//! request at most half of them. So owners who take all that they may end with equal shares, and
//! leave as much to the next one: of two each has a third, of seventeen each an eighteenth. One
//! owner alone is never limited by it, as their own bucket holds less.

use super::bucket::{MONTHS_MAX, MonthOwner, PaidMonths, TokenBucket};
use millrace_rows::{Lane, Month};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Older months that all may begin at once after a rest.
pub(super) const SERVER_MONTHS_MAX: usize = 2 * MONTHS_MAX + 16;
/// Time from one older month to the next that all may begin.
pub(super) const SERVER_MONTH_EVERY: Duration = Duration::from_micros(62_500);
/// Time for which months count for their owner's share.
const WINDOW: Duration = Duration::from_secs(15);
/// Tokens that an import needs, however many months it has.
const IMPORT_TOKENS_MAX: usize = SERVER_MONTHS_MAX / 4;

/// Bucket of all owners. It is made by the first charge.
#[derive(Debug, Default)]
pub(super) struct ServerBucket {
    tokens: Option<TokenBucket>,
    paid: PaidMonths,
    /// Charges within [`WINDOW`], oldest first.
    recent_charges: VecDeque<RecentCharge>,
    /// Time at which the months of an import beyond its tokens are paid off; no other import has
    /// any until then. As a debt of the bucket they would keep out everybody's events.
    excess_paid_at: Option<Instant>,
}

#[derive(Debug)]
struct RecentCharge {
    owner: MonthOwner,
    months: usize,
    at: Instant,
}

/// Months of one charge that nobody paid for before.
#[derive(Debug)]
pub(super) struct ServerCharge {
    owner: MonthOwner,
    pub(super) months: Vec<Month>,
    /// Number of tokens that were taken for them.
    tokens: usize,
}

impl ServerBucket {
    /// Charges for the months that are not free.
    ///
    /// # Errors
    /// Time to wait: the owner's share is used up.
    pub(super) fn charge(
        &mut self,
        owner: MonthOwner,
        months: &[Month],
        lane: Lane,
        now: Instant,
    ) -> Result<ServerCharge, Duration> {
        self.paid.forget_old(now);
        while let Some(first) = self.recent_charges.front()
            && now.duration_since(first.at) >= WINDOW
        {
            self.recent_charges.pop_front();
        }
        let months = self.paid.missing(months.iter().copied());
        if months.is_empty() {
            return Ok(ServerCharge {
                owner,
                months,
                tokens: 0,
            });
        }
        let tokens = self
            .tokens
            .get_or_insert_with(|| TokenBucket::full(SERVER_MONTHS_MAX, SERVER_MONTH_EVERY, now));
        let own = self
            .recent_charges
            .iter()
            .filter(|charge| charge.owner == owner);
        let needed = match lane {
            Lane::Live => months.len(),
            Lane::Historical => months.len().min(IMPORT_TOKENS_MAX),
        };
        let began: usize = own.map(|charge| charge.months).sum();
        let wanted = needed + needed.max(began);
        let missing = wanted.saturating_sub(tokens.left(now));
        if missing > 0 {
            let missing = u32::try_from(missing).unwrap_or(u32::MAX);
            return Err(SERVER_MONTH_EVERY.saturating_mul(missing).min(WINDOW));
        }
        let excess = months.len().saturating_sub(needed);
        if excess > 0 {
            let paid_at = self.excess_paid_at.map_or(now, |at| at.max(now));
            if paid_at > now {
                return Err(paid_at.duration_since(now));
            }
            self.excess_paid_at = Some(now + cost_of_excess(excess));
        }
        tokens.take(needed, now);
        self.paid.pay(&months, now);
        self.recent_charges.push_back(RecentCharge {
            owner,
            months: months.len(),
            at: now,
        });
        Ok(ServerCharge {
            owner,
            months,
            tokens: needed,
        })
    }

    /// Refunds a charge that was made at that time.
    pub(super) fn refund(&mut self, charged: ServerCharge, at: Instant) {
        let ServerCharge {
            owner,
            months,
            tokens: taken,
        } = charged;
        if months.is_empty() {
            return;
        }
        if let Some(tokens) = &mut self.tokens {
            tokens.give_back(taken, at);
        }
        let excess = cost_of_excess(months.len().saturating_sub(taken));
        self.excess_paid_at = self
            .excess_paid_at
            .and_then(|paid_at| paid_at.checked_sub(excess));
        self.paid.refund(&months, at);
        let is_it = |charge: &RecentCharge| {
            (charge.owner, charge.months, charge.at) == (owner, months.len(), at)
        };
        if let Some(place) = self.recent_charges.iter().position(is_it) {
            self.recent_charges.remove(place);
        }
    }
}

/// Time that months of an import beyond its tokens take.
fn cost_of_excess(months: usize) -> Duration {
    SERVER_MONTH_EVERY.saturating_mul(u32::try_from(months).unwrap_or(u32::MAX))
}
