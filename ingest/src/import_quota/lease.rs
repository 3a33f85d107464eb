//! Quota lease of one project on this node, and the reports on it.
//!
//! Each event that the node was leased is available, in a request under way, counted or given back;
//! so the node holds what it was leased less what is counted and what went back.

use super::project_tokens::{Demand, ProjectTokens};
use super::refusal::{CatalogDecision, ImportRefusal};
use millrace_catalog::{LeaseDecision, LeaseReport};
use std::sync::Arc;

/// Ticks, a second each, without an import after which a project's lease goes back.
const IDLE_TICKS: u32 = 3;
/// Leases that make up a minute of the project's rate.
const LEASES_PER_MINUTE: u64 = 8;

/// Quota lease of one project on this node.
#[derive(Debug)]
pub struct QuotaLease {
    project: Arc<ProjectTokens>,
    /// Events that were counted before the start.
    counted_before: i64,
    /// Events leased and not given back, since the start.
    owned: i64,
    /// Events counted since the start that the catalog has been told of.
    reported: i64,
    /// Last answer of the catalog.
    decision: LeaseDecision,
    idle_ticks: u32,
    /// True if tokens went back since the last report.
    has_returned: bool,
    /// Requests that waited at the last report.
    asked: usize,
}

impl QuotaLease {
    /// Lease of nothing, of a project of which `counted_before` events were counted before.
    pub fn new(project: Arc<ProjectTokens>, counted_before: i64) -> Self {
        Self {
            project,
            counted_before,
            owned: 0,
            reported: 0,
            decision: LeaseDecision::default(),
            idle_ticks: 0,
            has_returned: false,
            asked: 0,
        }
    }

    /// Report for the catalog, if there is anything to report. `counted` is since the start;
    /// `is_timer_tick` says that a second has passed.
    pub fn report(&mut self, counted: i64, is_timer_tick: bool) -> Option<LeaseReport> {
        let demand = self.project.serve_waiters();
        if is_timer_tick {
            self.idle_ticks = match self.project.was_used() {
                true => 0,
                false => self.idle_ticks.saturating_add(1),
            };
        }
        self.return_tokens(demand);
        self.asked = demand.requests;
        let held = self.held(counted);
        let available = self.project.available();
        let lease_report = LeaseReport {
            counted: self.counted_before + counted,
            held,
            unused_micros: self.project.unused_micros(),
            needed: signed(demand.sum.saturating_sub(available)),
            needed_least: signed(demand.least.saturating_sub(available)),
            stock: self.refill(available),
        };
        let has_news = counted != self.reported || self.has_returned || self.asked > 0;
        (has_news || lease_report.stock > 0 || (is_timer_tick && held > 0)).then_some(lease_report)
    }

    /// Applies the catalog's answer to the last [`report`](Self::report). Returns true if there is
    /// more to report at once.
    pub fn apply(&mut self, counted: i64, decision: Option<LeaseDecision>) -> bool {
        self.reported = counted;
        self.has_returned = false;
        let latest = CatalogDecision::new(decision);
        self.decision = decision.unwrap_or_else(|| LeaseDecision {
            // There is no such project any more.
            give_back: i64::MAX,
            ..LeaseDecision::default()
        });
        let given = unsigned(self.decision.given);
        self.owned += signed(given);
        self.project.add(given);
        // Before a request is admitted by tokens that must not be used any more.
        self.return_requested();
        let asks_again = self.project.answer_waiters(latest, self.asked);
        self.project.set_refill_level(self.lease_size() / 2);
        // Other nodes wait for the tokens that go back.
        asks_again || self.has_returned || self.decision.is_wanted
    }

    /// Refuses the requests that wait, as the catalog may not have received the report.
    pub fn exchange_failed(&mut self) {
        self.project.reject_waiters(ImportRefusal::Unavailable);
    }

    /// Gives all tokens up, as the catalog was silent for so long that it may lease them to others.
    /// It is told so before another request is admitted.
    pub fn expire(&mut self) {
        self.withdraw(u64::MAX);
    }

    /// Last report, with which everything goes back.
    pub fn close(&mut self, counted: i64) -> Option<LeaseReport> {
        let back = self.project.withdraw(u64::MAX);
        let held_before = self.held(counted);
        // Nothing is under way any more.
        self.owned = counted;
        (counted != self.reported || held_before > 0 || back > 0).then_some(LeaseReport {
            counted: self.counted_before + counted,
            ..LeaseReport::default()
        })
    }

    /// Events that may be used, or are being used.
    pub fn held(&self, counted: i64) -> i64 {
        (self.owned - counted).max(0)
    }

    fn return_tokens(&mut self, demand: Demand) {
        self.return_requested();
        let is_idle = self.idle_ticks >= IDLE_TICKS;
        if demand.sum == 0 && (is_idle || self.decision.is_wanted) {
            self.withdraw(u64::MAX);
        }
    }

    /// Gives back what the catalog asked for, as far as it is not used yet.
    fn return_requested(&mut self) {
        let requested = unsigned(self.decision.give_back);
        let back = self.withdraw(requested);
        self.decision.give_back = signed(requested - back);
    }

    fn withdraw(&mut self, events_max: u64) -> u64 {
        let back = self.project.withdraw(events_max);
        self.owned -= signed(back);
        self.has_returned |= back > 0;
        back
    }

    /// Events to ask for in advance.
    fn refill(&self, available: u64) -> i64 {
        let lease_size = self.lease_size();
        let is_in_use = self.idle_ticks == 0 && self.decision.is_allowed;
        let asks = is_in_use && !self.decision.is_wanted && available < lease_size / 2;
        signed(if asks { lease_size - available } else { 0 })
    }

    fn lease_size(&self) -> u64 {
        unsigned(self.decision.per_minute) / LEASES_PER_MINUTE
    }
}

fn signed(events: u64) -> i64 {
    i64::try_from(events).unwrap_or(i64::MAX)
}

fn unsigned(events: i64) -> u64 {
    u64::try_from(events).unwrap_or(0)
}
