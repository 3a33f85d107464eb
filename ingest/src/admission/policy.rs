//! Policy: the questions that a request is asked on its way in, in the order of the way.
//!
//! Whoever asks gets the response to send: every method returns what the request may use, or the
//! error that [`Rejection`] builds.

use super::budget::Share;
use super::fair_queue::{Cost, FairQueue, Permit, REQUEST_BYTES};
use super::month_limiter::{MonthCharge, MonthOwner};
use super::project_hint::{is_known, key_at_start};
use super::rejection::Rejection;
use super::response_budget::ResponseShare;
use crate::config::HttpLimits;
use crate::metrics;
use crate::process::ProcessState;
use crate::scheduling::flow::Flow;
use millrace_parse::{ApiError, Parsed};
use millrace_pipeline::{ImportReservation, Slot};
use millrace_rows::{Lane, Micros, ProjectId};
use rand::Rng;
use rand::rngs::SmallRng;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

/// Admission to one core, and to what it shares with others.
pub struct Admission {
    process: Arc<ProcessState>,
    /// Requests that wait for the core.
    pub fair_queue: Rc<FairQueue>,
    random: RefCell<SmallRng>,
}

// === impl Admission ===

impl Admission {
    /// Returns the admission to a new core.
    pub fn new(process: Arc<ProcessState>) -> Self {
        Self {
            fair_queue: FairQueue::new(process.config.limits.waiting_bytes_max),
            process,
            random: RefCell::new(rand::make_rng()),
        }
    }

    /// Limits of requests and connections.
    pub fn limits(&self) -> &HttpLimits {
        &self.process.config.limits
    }

    /// Builds the response to a rejection. `Retry-After` is scattered, so that clients do not retry
    /// all at once.
    pub fn error(&self, rejection: Rejection) -> ApiError {
        let retry_after_seconds = 2 + self.random.borrow_mut().next_u32() % 5;
        rejection.into_error(retry_after_seconds)
    }

    /// Builds the response to a request for which there is no memory, turn or thread in time.
    pub fn overloaded(&self) -> ApiError {
        self.error(Rejection::Overloaded)
    }

    /// Share of the budget for a new request's body; it has no bytes yet.
    pub fn share(&self) -> Share {
        self.process.budget.share()
    }

    /// Checks a request by its head: one that would be rejected after its body was read costs the
    /// reading, too. A dry run needs no capacity in the log. `flow` is `None` if the head names no
    /// project.
    pub fn check_before_body(
        &self,
        lane: Lane,
        flow: Option<Flow>,
        declared_bytes: usize,
        dry_run: bool,
    ) -> Result<(), ApiError> {
        if !dry_run {
            let admitted = self.process.deps.pipeline.admits(lane);
            admitted.map_err(|refusal| self.error(Rejection::Pipeline(refusal)))?;
        }
        let cost = declared_bytes + REQUEST_BYTES;
        let shed = self.fair_queue.admit(lane, flow, cost);
        if shed.is_err() || !self.process.budget.has_capacity(declared_bytes) {
            return Err(self.overloaded());
        }
        Ok(())
    }

    /// Checks that the fair queue has capacity for a body of so many bytes, which begins like this;
    /// returns its flow. That is the head's if it names a project, else the one of the key that the
    /// body begins with, else the one of the connection's last request.
    pub fn check_queue(
        &self,
        lane: Lane,
        flow: Option<Flow>,
        last_flow: Flow,
        beginning: &[u8],
        bytes: usize,
    ) -> Result<Flow, ApiError> {
        let flow = flow.or_else(|| self.known_flow(key_at_start(beginning)?));
        let flow = flow.unwrap_or(last_flow);
        let cost = bytes + REQUEST_BYTES;
        let admitted = self.fair_queue.admit(lane, Some(flow), cost);
        admitted.map_err(|_| self.overloaded())?;
        Ok(flow)
    }

    /// Waits until it is the request's turn.
    pub async fn take_turn(&self, lane: Lane, flow: Flow, cost: Cost) -> Result<Permit, ApiError> {
        let keeps_up = self.process.deps.pipeline.keeps_up(lane);
        let permit = self.fair_queue.acquire(lane, flow, cost, keeps_up).await;
        permit.ok_or_else(|| self.overloaded())
    }

    /// Reserves a slot in the log's queue. Before the parser works: a request that will not be
    /// stored should cost little. Only the parser knows the lane for sure; the pipeline exchanges
    /// the slot if need be.
    pub fn reserve_slot(&self, lane: Lane, bytes: usize) -> Result<Slot, ApiError> {
        let slot = self.process.deps.pipeline.reserve(lane, bytes);
        slot.map_err(|refusal| self.error(Rejection::Pipeline(refusal)))
    }

    /// Reserves the events that an import wants stored: all or none.
    pub async fn reserve_import(
        &self,
        parsed: &Parsed,
    ) -> Result<Option<ImportReservation>, ApiError> {
        let import_quota = &self.process.deps.import_quota;
        let admitted = match u64::from(parsed.accepted) {
            0 => Ok(None),
            events => import_quota
                .admit(parsed.project_id, events)
                .await
                .map(Some),
        };
        admitted.map_err(|refusal| {
            let error = self.error(Rejection::Import(refusal));
            metrics::historical_refused(error.code, parsed.accepted);
            error
        })
    }

    /// Charges for the older months of the events that are to be stored.
    pub fn charge_months(
        &self,
        parsed: &Parsed,
        received_at: Micros,
    ) -> Result<MonthCharge, ApiError> {
        let months = &self.process.month_limiter;
        let owner = || self.owner(parsed.project_id);
        let charged = months.charge(owner, &parsed.batch, received_at, Instant::now());
        charged.map_err(|refusal| self.error(Rejection::Months(refusal)))
    }

    /// Share of the budget for a project's response of so many bytes, to be held until it was sent.
    pub fn response_share(
        &self,
        project_id: ProjectId,
        bytes: usize,
    ) -> Result<ResponseShare, ApiError> {
        let responses = &self.process.response_budget;
        let share = responses.share(bytes, || self.owner(project_id));
        share.ok_or_else(|| self.overloaded())
    }

    fn owner(&self, project_id: ProjectId) -> MonthOwner {
        match self.process.deps.keys.organization_of(project_id) {
            Some(organization) => MonthOwner::Organization(organization),
            None => MonthOwner::Project(project_id),
        }
    }

    /// Flow of a project by its key. While projects compete only known keys count, so that no
    /// project gets more turns by more keys.
    pub fn known_flow(&self, key: &[u8]) -> Option<Flow> {
        let is_believed = !self.fair_queue.is_contended() || is_known(&self.process.deps.keys, key);
        is_believed.then(|| Flow::of_key(key))
    }
}
