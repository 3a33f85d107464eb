//! Context of one request, which all its handlers share.

use crate::connection::state::ConnectionState;
use crate::core::Core;
use crate::metrics::Stage;
use crate::offload::{OffloadFailed, OffloadSlot, OffloadWork};
use crate::request::head::RequestHead;
use crate::request::route::Route;
use crate::trace::{LoggedRows, OpenTrace};
use crate::watermark::EpochGuard;
use http::HeaderValue;
use http::request::Parts;
use millrace_parse::ApiError;
use millrace_rows::Micros;
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use uuid::Uuid;

/// Context of one request, for its handlers.
pub struct RequestContext<'a> {
    pub core: &'a Rc<Core>,
    pub conn: &'a ConnectionState,
    pub parts: &'a Parts,
    pub head: RequestHead<&'a HeaderValue>,
    pub route: Route,
    pub received_at: Micros,
    pub request_id: Uuid,
    pub timed: bool,
    /// Trace of a request that was sampled.
    pub trace: Option<Box<OpenTrace>>,
    /// True if anybody watches the live stream of any project.
    pub is_watched: bool,
    /// Guard that holds the watermark back, as long as there may be rows of this request.
    pub epoch_guard: Cell<Option<EpochGuard>>,
    /// True once the body was read to its end; hyper cannot tell when it was chunked.
    pub body_ended: Cell<bool>,
}

impl RequestContext<'_> {
    /// Start of a stage, when this request's stages are timed or traced.
    pub fn now(&self) -> Option<Instant> {
        (self.timed || self.trace.is_some()).then(Instant::now)
    }

    /// Records the end of a stage.
    pub fn took(&self, stage: Stage, started: Option<Instant>) {
        let Some(started) = started else { return };
        let took = started.elapsed();
        if self.timed {
            self.core.metrics.took(stage, took);
        }
        if let Some(trace) = &self.trace {
            trace.add(stage, started, took);
        }
    }

    /// Notes in the trace where the rows are.
    pub fn trace_logged(&self, rows: LoggedRows) {
        if let Some(trace) = &self.trace {
            trace.logged(rows);
        }
    }

    /// Epoch guard for this request's rows: a new one if the watermark did not wait for it.
    pub fn epoch_guard(&self) -> EpochGuard {
        let epoch_guard = self.epoch_guard.take();
        epoch_guard.unwrap_or_else(|| self.core.enter_epoch())
    }

    /// Lets the watermark pass: there will be no rows of this epoch.
    pub fn release_epoch(&self) {
        drop(self.epoch_guard.take());
    }

    /// Address of the client, as trusted proxies name it.
    pub fn client_ip(&self) -> IpAddr {
        let trusted = &self.core.process.config.trusted_proxies;
        self.head.client_ip(self.parts, self.conn.peer, trusted)
    }

    /// Waits for a thread of the offload pool. Meanwhile the watermark passes: there are no rows
    /// yet.
    pub async fn acquire_offload(&self, work: OffloadWork) -> Result<OffloadSlot, ApiError> {
        self.release_epoch();
        let pool = Arc::clone(&self.core.process.offload_pool);
        let offload = OffloadSlot::acquire(pool, work).await;
        offload.map_err(|OffloadFailed| self.core.admission.overloaded())
    }
}
