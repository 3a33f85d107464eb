//! What one core has of its own, and what all cores share.

use crate::allowances::Allowances;
use crate::budget::Budget;
use crate::config::ServerConfig;
use crate::connections::Connections;
use crate::health::Readiness;
use crate::http::Threads;
use crate::keys::Keys;
use crate::metrics::CoreMetrics;
use crate::months::Months;
use crate::orphans::Orphans;
use crate::resends::Resends;
use crate::turns::Turns;
use crate::watermark::{Arrival, Arrivals, CoreArrivals};
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

/// What the server works with.
#[derive(Clone)]
pub struct Deps {
    /// Project keys.
    pub keys: Keys,
    /// What projects may import.
    pub allowances: Allowances,
    /// The way to the disk.
    pub pipeline: Pipeline,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Whether the process is to be sent events.
    pub readiness: Readiness,
    /// The requests under way.
    pub arrivals: Arrivals,
}

/// What all cores share.
pub struct Shared {
    pub config: ServerConfig,
    pub deps: Deps,
    pub budget: Arc<Budget>,
    pub connections: Arc<Connections>,
    pub resends: Resends,
    /// Threads that long work may have beside the cores.
    pub threads_beside: Arc<Threads>,
    pub months: Months,
}

/// What one core has of its own; nothing in it is ever waited for.
pub struct Core {
    pub shared: Arc<Shared>,
    pub parser: RefCell<Parser>,
    pub decoder: RefCell<Decoder>,
    pub buffers: Buffers,
    pub orphans: Rc<Orphans>,
    pub turns: Rc<Turns>,
    pub metrics: CoreMetrics,
    pub arrivals: Rc<CoreArrivals>,
    random: RefCell<SmallRng>,
}

impl Core {
    /// A core's state.
    pub fn new(shared: Arc<Shared>) -> Rc<Self> {
        let turns = Turns::new(shared.config.limits.waiting_bytes_max);
        let arrivals = shared.deps.arrivals.of_core();
        Rc::new(Self {
            shared,
            arrivals,
            turns,
            parser: RefCell::default(),
            decoder: RefCell::default(),
            buffers: Buffers::default(),
            orphans: Rc::default(),
            metrics: CoreMetrics::of_recorder(),
            random: RefCell::new(rand::make_rng()),
        })
    }

    /// A request comes.
    pub fn arrive(&self) -> Arrival {
        self.arrivals.enter(&*self.shared.deps.clock)
    }

    /// A new version 7 uuid. Nothing about it need be secret, so a small generator does.
    pub fn request_id(&self, now: Micros) -> Uuid {
        let mut random = [0; 10];
        self.random.borrow_mut().fill_bytes(&mut random);
        let millis = u64::try_from(now.millis()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }

    /// 503: our trouble, never the client's.
    pub fn later(&self, code: &'static str, detail: impl Into<Cow<'static, str>>) -> ApiError {
        let mut error = ApiError::unavailable(code, detail);
        error.retry_after_seconds = Some(self.retry_after_seconds());
        error
    }

    /// Seconds for a `Retry-After`, scattered so that clients do not come back all at once.
    pub fn retry_after_seconds(&self) -> u32 {
        2 + self.random.borrow_mut().next_u32() % 5
    }
}
