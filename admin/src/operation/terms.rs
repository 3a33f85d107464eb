//! What a row says beside path and handler.

use super::{Access, Failure, Operation, QueryParameter};
use http::StatusCode;
use millrace_catalog::{Feature, Level, Need};

impl Operation {
    /// A headline for the document.
    pub(crate) fn about(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    /// More than the headline says.
    pub(crate) fn note(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// Scopes of the key, any one of which will do.
    pub(crate) fn scopes(mut self, scopes: &'static [Need]) -> Self {
        self.scopes = scopes;
        self
    }

    /// From which level on, in the organization of the path; members otherwise.
    pub(crate) fn level(mut self, level: Level) -> Self {
        self.access = Access::Level(level);
        self
    }

    /// Administrators; members too, unless `members_can_write_pipelines` is off.
    pub(crate) fn pipelines_level(mut self) -> Self {
        self.access = Access::Pipelines;
        self
    }

    /// Open to all; a key is looked at if there is one.
    pub(crate) fn open(mut self) -> Self {
        self.access = Access::Open;
        self
    }

    /// Only keys with the scope `operator`.
    pub(crate) fn operator(mut self) -> Self {
        self.access = Access::Operator;
        self
    }

    /// 403 `payment_required` where an operator took this feature away.
    pub(crate) fn feature(mut self, feature: Feature) -> Self {
        self.feature = Some(feature);
        self
    }

    /// A parameter of the query; `kind` is a JSON type.
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

    /// An error that is this operation's own, for the document.
    pub(crate) fn fails(mut self, status: u16, code: &'static str, when: &'static str) -> Self {
        self.failures.push(Failure { status, code, when });
        self
    }

    /// Another status of success, that the handler gives by [`WithStatus`].
    ///
    /// [`WithStatus`]: crate::answer::WithStatus
    pub(crate) fn also_answers(mut self, status: StatusCode) -> Self {
        self.other_status = Some(status);
        self
    }

    /// The handler waits for other services: it holds no lock, and depends on no version.
    pub(crate) fn waits_outside(mut self) -> Self {
        self.waits_outside = true;
        self
    }

    /// Fields of the answer that change by themselves; its `ETag` is of the others.
    pub(crate) fn live_fields(mut self, fields: &'static [&'static str]) -> Self {
        self.live_fields = fields;
        self
    }

    /// Fields of the answer that hold secrets: null when the answer is replayed.
    pub(crate) fn shown_once(mut self, fields: &'static [&'static str]) -> Self {
        self.shown_once = fields;
        self
    }
}
