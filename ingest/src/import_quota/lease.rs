//! Quota lease of one project on this node, and the reports on it.
//!
//! Each event that the node was leased is available, in a request under way, counted or given back;
//! so the node holds what it was leased less what is counted and what went back.

use super::project::Project;
use super::quotas::{LeaseDecision, LeaseReport};
use super::refusal::CatalogDecision;
use std::time::Duration;
use tokio::time::Instant;

/// Time after the catalog's last answer from which nothing is admitted; at the catalog the lease
/// expires after twice as long.
const UNHEARD_MAX: Duration = Duration::from_secs(10);
/// Ticks, a second each, without an admitted import after which a project's lease goes back:
/// nodes whose requests need what others hold would otherwise keep what these need.
const IDLE_TICKS: u32 = 3;
/// Leases that make up a minute of the project's rate.
const LEASES_PER_MINUTE: u64 = 8;

/// Reason to renew a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A request for so many events finds too few tokens.
    Request(u64),
    /// A lease is nearly used up.
    Refill,
    /// A second has passed.
    Tick,
    /// The process stops: everything goes back.
    Stop,
}

/// Quota lease of one project on this node.
#[derive(Debug)]
pub struct QuotaLease {
    /// Events leased and not given back, since the start.
    owned: i64,
    /// Events counted since the start that the catalog has been told of.
    reported: i64,
    /// Last answer of the catalog.
    decision: LeaseDecision,
    answered_at: Instant,
    idle_ticks: u32,
    /// True if tokens went back since the last report.
    has_returned: bool,
    /// True if the catalog did not answer the last report.
    is_unanswered: bool,
}

impl QuotaLease {
    /// Returns a lease of nothing.
    pub fn new() -> Self {
        Self {
            owned: 0,
            reported: 0,
            decision: LeaseDecision::default(),
            answered_at: Instant::now(),
            idle_ticks: 0,
            has_returned: false,
            is_unanswered: false,
        }
    }

    /// Notes whether the catalog answered a report; returns true if it did not answer the last one.
    pub fn note_answer(&mut self, is_answered: bool) -> bool {
        std::mem::replace(&mut self.is_unanswered, !is_answered)
    }

    /// Position among the leases that are renewed together: first those whose last reports were
    /// not answered, the longest without an answer before the others.
    pub fn turn(&self) -> (bool, Option<Instant>) {
        let unheard_since = self.is_unanswered.then_some(self.answered_at);
        (!self.is_unanswered, unheard_since)
    }

    /// Report for the catalog, if there is anything to report.
    pub fn report(&mut self, project: &Project, cause: Cause) -> Option<LeaseReport> {
        self.idle_ticks = match cause {
            Cause::Tick if project.was_used() => 0,
            Cause::Tick => self.idle_ticks.saturating_add(1),
            Cause::Request(_) | Cause::Refill | Cause::Stop => self.idle_ticks,
        };
        let is_unheard = self.answered_at.elapsed() > UNHEARD_MAX;
        let is_idle = cause == Cause::Tick && self.idle_ticks >= IDLE_TICKS;
        if is_unheard || is_idle || cause == Cause::Stop {
            self.withdraw(project, u64::MAX);
        }
        let counted = signed(project.tokens.counted());
        let unused_micros = project.unused_micros();
        let available = project.tokens.available();
        let needed = match cause {
            Cause::Request(events) => events.saturating_sub(available),
            Cause::Refill | Cause::Tick | Cause::Stop => 0,
        };
        let stock = match cause {
            Cause::Request(_) | Cause::Refill => self.refill(available),
            Cause::Tick if self.idle_ticks == 0 => self.refill(available),
            Cause::Tick | Cause::Stop => 0,
        };
        let held = (self.owned - counted).max(0);
        let has_changed = counted != self.reported || self.has_returned || held > 0;
        let is_due = match cause {
            Cause::Request(_) => needed > 0,
            Cause::Refill => stock > 0 && project.waits_for_refill(),
            Cause::Tick | Cause::Stop => stock > 0 || has_changed,
        };
        is_due.then_some(LeaseReport {
            counted,
            held,
            available: signed(available),
            unused_micros,
            needed: signed(needed),
            stock: signed(stock),
        })
    }

    /// Applies the catalog's answer to a [`report`](Self::report); `None`: there is no such project
    /// any more.
    pub fn apply(
        &mut self,
        project: &Project,
        lease_report: LeaseReport,
        decision: Option<LeaseDecision>,
    ) {
        self.answered_at = Instant::now();
        self.reported = lease_report.counted;
        self.has_returned = false;
        self.decision = decision.unwrap_or(LeaseDecision {
            give_back: i64::MAX,
            ..LeaseDecision::default()
        });
        let given = unsigned(self.decision.given);
        self.owned += signed(given);
        project.tokens.add(given);
        self.withdraw(project, unsigned(self.decision.give_back));
        project.note(CatalogDecision::new(decision));
        project.set_refill_level(self.lease_size() / 2);
    }

    /// Events that may be used, or are being used.
    pub fn held(&self, project: &Project) -> i64 {
        (self.owned - signed(project.tokens.counted())).max(0)
    }

    /// Events that were counted and not reported.
    #[cfg(test)]
    pub fn unreported(&self, project: &Project) -> i64 {
        signed(project.tokens.counted()) - self.reported
    }

    /// Withdraws tokens, to be returned by the next report.
    fn withdraw(&mut self, project: &Project, events_max: u64) {
        let back = project.tokens.withdraw(events_max);
        self.owned -= signed(back);
        self.has_returned |= back > 0;
    }

    /// Events to ask for in advance.
    fn refill(&self, available: u64) -> u64 {
        let lease_size = self.lease_size();
        match self.decision.is_allowed && available < lease_size / 2 {
            true => lease_size - available,
            false => 0,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_rows::{ProjectId, SystemClock};
    use std::sync::Arc;

    const TICK: Duration = Duration::from_secs(1);

    /// Project with a lease of a hundred events.
    fn leased() -> (Project, QuotaLease) {
        let project = Project::new(ProjectId(7), Arc::new(SystemClock));
        let mut lease = QuotaLease::new();
        let decision = LeaseDecision {
            given: 100,
            per_minute: 800,
            is_allowed: true,
            ..LeaseDecision::default()
        };
        lease.apply(&project, LeaseReport::default(), Some(decision));
        (project, lease)
    }

    #[tokio::test(start_paused = true)]
    async fn tokens_are_used_for_ten_seconds_without_the_catalog() {
        for (passed, available) in [(UNHEARD_MAX, 70), (UNHEARD_MAX + TICK, 0)] {
            let (project, mut lease) = leased();
            let reservation = project.reserve(30).unwrap();
            tokio::time::advance(passed).await;
            let lease_report = lease.report(&project, Cause::Tick).unwrap();
            assert_eq!(lease_report.available, available, "after {passed:?}");
            assert_eq!(lease_report.held, available + 30, "after {passed:?}");
            drop(reservation);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_project_gives_its_lease_back_and_then_reports_nothing() {
        let (project, mut lease) = leased();
        let held = [100, 100, 0].map(Some);
        for held in held {
            let lease_report = lease.report(&project, Cause::Tick);
            assert_eq!(lease_report.map(|it| it.held), held);
        }
        let decision = Some(LeaseDecision::default());
        lease.apply(&project, LeaseReport::default(), decision);
        assert_eq!(lease.report(&project, Cause::Tick), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_without_an_answer_is_renewed_before_the_others() {
        let mut leases = Vec::new();
        for (name, is_answered) in [("a", true), ("b", false), ("c", true), ("d", false)] {
            let (_, mut lease) = leased();
            lease.note_answer(is_answered);
            leases.push((name, lease));
            tokio::time::advance(TICK).await;
        }
        leases.swap(1, 3);
        leases.sort_by_key(|(_, lease)| lease.turn());
        let names = leases.iter().map(|(name, _)| *name);
        assert_eq!(names.collect::<String>(), "bdac");
    }

    #[tokio::test(start_paused = true)]
    async fn each_of_ten_leases_is_answered_within_three_rounds_of_four_answers() {
        let mut leases: Vec<_> = (0..10).map(|_| leased()).collect();
        let mut rounds_unanswered = [0; 10];
        for round in 1..=30 {
            tokio::time::advance(TICK).await;
            let mut due: Vec<_> = leases.iter_mut().zip(&mut rounds_unanswered).collect();
            due.sort_by_key(|((_, lease), _)| lease.turn());
            for (position, ((project, lease), unanswered)) in due.into_iter().enumerate() {
                let is_answered = position < 4;
                lease.note_answer(is_answered);
                *unanswered += 1;
                assert!(*unanswered <= 3, "round {round}");
                if is_answered {
                    let decision = Some(LeaseDecision::default());
                    lease.apply(project, LeaseReport::default(), decision);
                    *unanswered = 0;
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_is_too_small_for_every_request_goes_back() {
        let (project, mut lease) = leased();
        for held in [100, 100, 0] {
            assert!(project.reserve(101).is_none());
            let asked = lease.report(&project, Cause::Request(101)).unwrap();
            assert_eq!((asked.needed, asked.held), (1, 100));
            let told = lease.report(&project, Cause::Tick);
            assert_eq!(told.map(|it| it.held), Some(held));
        }
        let asked = lease.report(&project, Cause::Request(101)).unwrap();
        assert_eq!((asked.needed, asked.held), (101, 0));
    }
}
