//! Bounds and limits of an operation: how they are set, and what follows from them.

use super::bounds::{LARGE_ANSWER_BYTES_MAX, Limit, SOURCE_ANSWER_BYTES_MAX};
use super::{Access, Operation};
use crate::page::PAGE_BYTES_MAX;

impl Operation {
    /// Bounds the response as a page of a list.
    pub(super) fn page_response(mut self) -> Self {
        self.bounds.page_bytes_max = Some(PAGE_BYTES_MAX);
        self.large_response()
    }

    /// Allows a response as large as a page of a list.
    pub(crate) fn large_response(mut self) -> Self {
        self.bounds.answer_bytes_max = LARGE_ANSWER_BYTES_MAX;
        self
    }

    /// Allows a response as large as a plugin with its source.
    pub(crate) fn source_response(mut self) -> Self {
        self.bounds.answer_bytes_max = SOURCE_ANSWER_BYTES_MAX;
        self
    }

    /// Returns true if the operation reads so much of the catalog at once that it takes a read
    /// slot. No slot is held while the handler waits for other services.
    pub(crate) fn takes_read_slot(&self) -> bool {
        self.bounds.answer_bytes_max >= LARGE_ANSWER_BYTES_MAX && !self.waits_outside
    }

    /// Sets the limits on what the operation creates or starts.
    pub(crate) fn limited_by(mut self, limits: &[Limit]) -> Self {
        self.bounds.limits.extend_from_slice(limits);
        self
    }

    /// All limits of the operation, those on requests included.
    pub(crate) fn limits(&self) -> impl Iterator<Item = Limit> {
        let of_all = if self.access == Access::Open {
            &[Limit::Connections, Limit::WrongKeys][..]
        } else {
            &[
                Limit::RequestsPerMinute,
                Limit::RequestsPerHour,
                Limit::UserRequestsPerMinute,
                Limit::UserRequestsPerHour,
            ]
        };
        let concerns_one = ["{organization_id}", "{project_id}"]
            .iter()
            .any(|parameter| self.path.contains(parameter));
        let of_organization = if concerns_one && self.access != Access::Open {
            &[
                Limit::OrganizationRequestsPerMinute,
                Limit::OrganizationRequestsPerHour,
            ][..]
        } else {
            &[]
        };
        let of_requests = of_all.iter().chain(of_organization);
        of_requests.chain(&self.bounds.limits).copied()
    }
}
