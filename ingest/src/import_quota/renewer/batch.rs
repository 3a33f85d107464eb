//! Renewal of all projects' leases, several in one transaction of the catalog.
//!
//! Locks are taken in this order: leases, a permit to ask the catalog, rows of the catalog. A batch
//! locks the leases of its projects and waits for none of them: a lease that a request has locked
//! is waited for by itself. So a batch and a request never wait for each other.
//!
//! A project that a batch leaves out, or that may be the one that made it fail, is renewed by
//! itself. All of it ends in the time that the catalog has for an answer. Projects whose reports
//! were not answered by then come first the next time, so that all take turns.

use super::{AskError, CATALOG_TIMEOUT, LeaseRenewer, LeasedProject};
use crate::import_quota::lease::{Cause, QuotaLease};
use crate::import_quota::quotas::{ImportQuotas, LeaseDecision, LeaseReport};
use millrace_rows::ProjectId;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Lease with something to report, locked until it is renewed.
struct DueLease {
    leased: Arc<LeasedProject>,
    lease: OwnedMutexGuard<QuotaLease>,
    lease_report: LeaseReport,
}

impl LeaseRenewer {
    /// Renews the leases of all projects; returns the events that this node holds.
    pub(super) async fn renew_all(self: &Arc<Self>, cause: Cause) -> i64 {
        let deadline = Instant::now() + CATALOG_TIMEOUT;
        let mut held = 0;
        let mut due = Vec::new();
        let mut renewals = JoinSet::new();
        for leased in self.projects() {
            let Ok(mut lease) = Arc::clone(&leased.lease).try_lock_owned() else {
                renewals.spawn(Arc::clone(self).renew_locked(leased, cause));
                continue;
            };
            match lease.report(&leased.project, cause) {
                Some(lease_report) => due.push(DueLease {
                    leased,
                    lease,
                    lease_report,
                }),
                None => held += lease.held(&leased.project),
            }
        }
        due.sort_by_key(|due| due.lease.turn());
        let mut due = due.into_iter().peekable();
        while due.peek().is_some() {
            let batch = due.by_ref().take(ImportQuotas::PROJECTS_MAX).collect();
            renewals.spawn(Arc::clone(self).renew_batch(batch, deadline));
        }
        held + renewals.join_all().await.into_iter().sum::<i64>()
    }

    /// Projects that imported something since the start.
    fn projects(&self) -> Vec<Arc<LeasedProject>> {
        let known = self.projects.read().unwrap_or_else(PoisonError::into_inner);
        known.values().cloned().collect()
    }

    /// Renews a lease once a request has unlocked it.
    async fn renew_locked(self: Arc<Self>, leased: Arc<LeasedProject>, cause: Cause) -> i64 {
        let mut lease = leased.lease.lock().await;
        self.renew(&leased.project, &mut lease, cause).await;
        lease.held(&leased.project)
    }

    async fn renew_alone(self: Arc<Self>, mut due: DueLease, deadline: Instant) -> i64 {
        let project = &due.leased.project;
        self.report(project, &mut due.lease, due.lease_report, deadline)
            .await;
        due.lease.held(project)
    }

    async fn renew_batch(self: Arc<Self>, mut batch: Vec<DueLease>, deadline: Instant) -> i64 {
        let mut answers = match self.ask_for_all(&batch, deadline).await {
            Ok(answers) => answers,
            // One of the projects may be the cause.
            Err(AskError::Failed(reason)) => {
                tracing::debug!(reason, "leases are renewed one by one");
                BTreeMap::new()
            }
            Err(AskError::Unavailable(reason)) => {
                let mut held = 0;
                for due in &mut batch {
                    let project = &due.leased.project;
                    self.unanswered(project, &mut due.lease, &reason);
                    held += due.lease.held(project);
                }
                return held;
            }
        };
        let mut held = 0;
        let mut alone = JoinSet::new();
        for mut due in batch {
            let Some(decision) = answers.remove(&due.leased.project.id) else {
                alone.spawn(Arc::clone(&self).renew_alone(due, deadline));
                continue;
            };
            let project = &due.leased.project;
            self.answered(project, &mut due.lease, due.lease_report, decision);
            held += due.lease.held(project);
        }
        held + alone.join_all().await.into_iter().sum::<i64>()
    }

    /// Asks the catalog for all leases of a batch. Those that have no answer are to be renewed one
    /// by one, as is a single one.
    async fn ask_for_all(
        &self,
        batch: &[DueLease],
        deadline: Instant,
    ) -> Result<BTreeMap<ProjectId, Option<LeaseDecision>>, AskError> {
        if batch.len() == 1 {
            return Ok(BTreeMap::new());
        }
        let reports = batch
            .iter()
            .map(|due| (due.leased.project.id, due.lease_report))
            .collect();
        let quotas = ImportQuotas::new(&self.catalog);
        self.ask(quotas.renew_leases(self.holder, &reports), deadline)
            .await
    }
}
