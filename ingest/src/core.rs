//! State of one core, and state that all cores share.

use crate::budget::Budget;
use crate::config::ServerConfig;
use crate::connection_limiter::ConnectionLimiter;
use crate::detached_tasks::DetachedTasks;
use crate::fair_queue::FairQueue;
use crate::health::Readiness;
use crate::http::OffloadPool;
use crate::import_quota::ImportQuota;
use crate::keys::Keys;
use crate::metrics::CoreMetrics;
use crate::month_limiter::MonthLimiter;
use crate::request_dedup::RequestDedupCache;
use crate::watermark::{CoreEpochs, EpochGuard, RequestEpochs};
use millrace_encoding::{Buffers, Decoder};
use millrace_parse::{ApiError, Parser};
use millrace_pipeline::Pipeline;
use millrace_rows::{Clock, Micros};
use rand::Rng;
use rand::rngs::SmallRng;
use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use uuid::Uuid;

/// Dependencies of the server.
#[derive(Clone)]
pub struct Deps {
    /// Project keys.
    pub keys: Keys,
    /// Import quotas of all projects.
    pub import_quota: ImportQuota,
    /// Pipeline that writes rows to the log.
    pub pipeline: Pipeline,
    /// Clock that tells the time of day.
    pub clock: Arc<dyn Clock>,
    /// Readiness of the process.
    pub readiness: Readiness,
    /// Requests under way, by epoch.
    pub request_epochs: RequestEpochs,
}

/// State that all cores share.
pub struct Shared {
    pub config: ServerConfig,
    pub deps: Deps,
    pub budget: Arc<Budget>,
    pub connection_limiter: Arc<ConnectionLimiter>,
    pub request_dedup: RequestDedupCache,
    /// Threads for work that would block a core.
    pub offload_pool: Arc<OffloadPool>,
    pub month_limiter: MonthLimiter,
}

/// State of one core; none of it is ever waited for.
pub struct Core {
    pub shared: Arc<Shared>,
    pub parser: RefCell<Parser>,
    pub decoder: RefCell<Decoder>,
    pub buffers: Buffers,
    pub detached: Rc<DetachedTasks>,
    pub fair_queue: Rc<FairQueue>,
    pub metrics: CoreMetrics,
    pub request_epochs: Rc<CoreEpochs>,
    random: RefCell<SmallRng>,
}

impl Core {
    /// Returns the state of a new core.
    pub fn new(shared: Arc<Shared>) -> Rc<Self> {
        let fair_queue = FairQueue::new(shared.config.limits.waiting_bytes_max);
        let request_epochs = shared.deps.request_epochs.for_core();
        Rc::new(Self {
            shared,
            request_epochs,
            fair_queue,
            parser: RefCell::default(),
            decoder: RefCell::default(),
            buffers: Buffers::default(),
            detached: Rc::default(),
            metrics: CoreMetrics::of_recorder(),
            random: RefCell::new(rand::make_rng()),
        })
    }

    /// Enters the present epoch with a request that has just come.
    pub fn enter_epoch(&self) -> EpochGuard {
        self.request_epochs.enter(&*self.shared.deps.clock)
    }

    /// Makes a version 7 uuid. It need not be secret, so a small generator does.
    pub fn request_id(&self, now: Micros) -> Uuid {
        let mut random = [0; 10];
        self.random.borrow_mut().fill_bytes(&mut random);
        let millis = u64::try_from(now.millis()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }

    /// Builds a 503 with `Retry-After`: a failure of the server's, never the client's.
    pub fn unavailable(
        &self,
        code: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> ApiError {
        let mut error = ApiError::unavailable(code, detail);
        error.retry_after_seconds = Some(self.retry_after_seconds());
        error
    }

    /// Seconds for a `Retry-After`, scattered so that clients do not retry all at once.
    pub fn retry_after_seconds(&self) -> u32 {
        2 + self.random.borrow_mut().next_u32() % 5
    }
}
