//! Decision of the early reject, by the same policy and with the same responses as the handlers.

use super::cached_error::{CachedErrorResponse, error_bytes};
use super::early_reject::{AdmissionControl, RejectedRequest};
use super::plain_head::PlainHead;
use crate::core::Core;
use crate::scheduling::flow::Flow;
use http::HeaderValue;
use millrace_rows::Lane;
use std::cell::RefCell;

thread_local! {
    static CACHED_ERROR: RefCell<CachedErrorResponse> = RefCell::default();
}

impl AdmissionControl for Core {
    fn is_overloaded(&self) -> bool {
        let is_overloaded = self.admission.fair_queue.is_overloaded();
        is_overloaded && !self.process.deps.readiness.is_shutting_down()
    }

    fn reject(&self, last_flow: Flow, beginning: &[u8]) -> Option<RejectedRequest> {
        let limits = self.admission.limits();
        let head = PlainHead::read(beginning, limits.header_bytes_max)?;
        if head.body_bytes > limits.body_bytes_max {
            return None;
        }
        let body = beginning.get(head.head_bytes..)?;
        let bytes = head.body_bytes;
        let admitted = self
            .admission
            .check_queue(Lane::Live, None, last_flow, body, bytes);
        let error = admitted.err()?;
        self.metrics.answered(head.route, error.status);
        let now = self.process.deps.clock.now();
        let request_id = self.request_id(now);
        let response = match head.origin {
            None => CACHED_ERROR
                .with_borrow_mut(|cached_error| cached_error.render(&error, request_id, now)),
            Some(origin) => {
                let origin = HeaderValue::from_bytes(origin).ok();
                error_bytes(&error, origin.as_ref(), request_id, now)
            }
        };
        Some(RejectedRequest {
            response,
            request_bytes: head.head_bytes + head.body_bytes,
        })
    }
}
