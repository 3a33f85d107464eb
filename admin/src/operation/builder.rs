//! Builder methods of operations: all that a row of the table sets beside path and handler.

use super::{Access, Failure, Operation, QueryParameter};
use http::StatusCode;
use millrace_catalog::{Feature, Level, RequiredScope};

impl Operation {
    /// Sets the summary in the document.
    pub(crate) fn about(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    /// Sets the description in the document, below the summary.
    pub(crate) fn note(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// Requires one of these scopes of the key.
    pub(crate) fn scopes(mut self, scopes: &'static [RequiredScope]) -> Self {
        self.scopes = scopes;
        self
    }

    /// Requires a level in the organization of the path; without this, members are allowed.
    pub(crate) fn level(mut self, level: Level) -> Self {
        self.access = Access::Level(level);
        self
    }

    /// Allows administrators, and members unless `members_can_write_pipelines` is off.
    pub(crate) fn pipelines_level(mut self) -> Self {
        self.access = Access::Pipelines;
        self
    }

    /// Opens the operation to everyone; a key is checked if there is one.
    pub(crate) fn open(mut self) -> Self {
        self.access = Access::Open;
        self
    }

    /// Requires the scope `operator`.
    pub(crate) fn operator(mut self) -> Self {
        self.access = Access::Operator;
        self
    }

    /// Requires a feature: 403 `payment_required` where an operator took it away.
    pub(crate) fn feature(mut self, feature: Feature) -> Self {
        self.feature = Some(feature);
        self
    }

    /// Adds a parameter of the query; `kind` is a JSON type.
    pub(crate) fn query(
        mut self,
        name: &'static str,
        kind: &'static str,
        description: &'static str,
    ) -> Self {
        self.query.push(QueryParameter {
            name,
            kind,
            description,
        });
        self
    }

    /// Adds an error that only this operation has, for the document.
    pub(crate) fn fails(mut self, status: u16, code: &'static str, when: &'static str) -> Self {
        self.failures.push(Failure { status, code, when });
        self
    }

    /// Adds another status of success, which the handler sets by [`WithStatus`].
    ///
    /// [`WithStatus`]: crate::response::WithStatus
    pub(crate) fn also_responds_with(mut self, status: StatusCode) -> Self {
        self.other_status = Some(status);
        self
    }

    /// Marks an operation whose responses are not kept for replays: `Idempotency-Key` is ignored.
    pub(crate) fn never_replayed(mut self) -> Self {
        self.is_never_replayed = true;
        self
    }

    /// Marks a handler that waits for other services: it holds no lock, and depends on no version.
    pub(crate) fn waits_outside(mut self) -> Self {
        self.waits_outside = true;
        self
    }

    /// Sets the fields of the response that change by themselves; its `ETag` is of the others.
    pub(crate) fn live_fields(mut self, fields: &'static [&'static str]) -> Self {
        self.live_fields = fields;
        self
    }

    /// Sets the fields of the response that hold secrets; they are null when it is replayed.
    pub(crate) fn shown_once(mut self, fields: &'static [&'static str]) -> Self {
        self.shown_once = fields;
        self
    }
}
