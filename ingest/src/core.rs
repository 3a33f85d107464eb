//! State of one core.

use crate::admission::policy::Admission;
use crate::detached_tasks::DetachedTasks;
use crate::metrics::CoreMetrics;
use crate::process::ProcessState;
use crate::watermark::{CoreEpochs, EpochGuard};
use millrace_encoding::{Buffers, Decoder};
use millrace_parse::Parser;
use millrace_rows::Micros;
use rand::Rng;
use rand::rngs::SmallRng;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use uuid::Uuid;

/// State of one core; none of it is ever waited for.
pub struct Core {
    pub process: Arc<ProcessState>,
    pub admission: Admission,
    pub parser: RefCell<Parser>,
    pub decoder: RefCell<Decoder>,
    pub buffers: Buffers,
    pub detached: Rc<DetachedTasks>,
    pub metrics: CoreMetrics,
    pub request_epochs: Rc<CoreEpochs>,
    /// Time at which this core learned that the process stops.
    stopping_since: Cell<Option<Instant>>,
    random: RefCell<SmallRng>,
}

impl Core {
    /// Returns the state of a new core.
    pub fn new(process: Arc<ProcessState>) -> Rc<Self> {
        let request_epochs = process.deps.request_epochs.for_core();
        Rc::new(Self {
            admission: Admission::new(Arc::clone(&process)),
            process,
            request_epochs,
            parser: RefCell::default(),
            decoder: RefCell::default(),
            buffers: Buffers::default(),
            detached: Rc::default(),
            metrics: CoreMetrics::of_recorder(),
            stopping_since: Cell::new(None),
            random: RefCell::new(rand::make_rng()),
        })
    }

    /// Replaces what a panic may have left half done: the next request would begin with it.
    pub fn renew_after_panic(&self) {
        // Neither is borrowed where a panic is caught: what had borrowed it was dropped.
        if let Ok(mut parser) = self.parser.try_borrow_mut() {
            *parser = Parser::default();
        }
        if let Ok(mut decoder) = self.decoder.try_borrow_mut() {
            *decoder = Decoder::default();
        }
    }

    /// Notes that the process stops: clients that stall are no longer waited for.
    pub fn note_stop(&self) {
        if self.stopping_since.get().is_none() {
            self.stopping_since.set(Some(Instant::now()));
        }
    }

    /// Time at which the stop of the process began; `None` before.
    pub fn stopping_since(&self) -> Option<Instant> {
        self.stopping_since.get()
    }

    /// Enters the present epoch with a request that has just come.
    pub fn enter_epoch(&self) -> EpochGuard {
        self.request_epochs.enter(&*self.process.deps.clock)
    }

    /// Makes a random number, by which requests are sampled.
    pub fn random_number(&self) -> u32 {
        self.random.borrow_mut().next_u32()
    }

    /// Makes a version 7 uuid. It need not be secret, so a small generator does.
    pub fn request_id(&self, now: Micros) -> Uuid {
        let mut random = [0; 10];
        self.random.borrow_mut().fill_bytes(&mut random);
        let millis = u64::try_from(now.millis()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }
}
