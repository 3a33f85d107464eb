//! Cost bounds of operations: what one request may take, and what counts all of an organization's, a
//! user's, a key's or an address'.
//!
//! The stages hold an operation to its bounds (`stages`, `answer::budget`), the document publishes
//! them as `x-millrace-limits`, and `deploy/THREATS.md` has them in a table that a test compares.

use super::{Access, Operation};
use crate::answer::AnswerSchema;
use crate::connections::CONNECTIONS_PER_ADDRESS_MAX;
use crate::mail::{
    INVITATIONS_OF_USER_PER_HOUR_MAX, INVITATIONS_PER_HOUR_MAX, INVITATIONS_TO_ADDRESS_PER_HOUR_MAX,
};
use crate::page::PAGE_BYTES_MAX;
use crate::services::ApiConfig;
use millrace_catalog::{CatalogLimits, PLUGIN_SOURCE_BYTES_MAX, limits};
use std::time::Duration;

/// The longest body.
const BODY_BYTES_MAX: usize = 1 << 20;
/// The most of an answer without a body of its own.
const EMPTY_BYTES_MAX: usize = 16 << 10;
/// The most of an answer, but for pages, sources, roles and a plugin that is there twice: a batch
/// export has 64 KiB of fields, the query once more in parts, and ten runs.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// The most of a page, with room for its envelope and what it stands in.
const LARGE_ANSWER_BYTES_MAX: usize = 5 << 20;
/// The most of a plugin with its source.
const SOURCE_ANSWER_BYTES_MAX: usize = PLUGIN_SOURCE_BYTES_MAX + ANSWER_BYTES_MAX;
/// How long an answer may take; then the client gets 503.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What one request may cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The longest body, in bytes; 0: none is read.
    pub(crate) body_bytes_max: usize,
    /// What is reserved for an answer before it is made, in bytes.
    pub(crate) answer_bytes_max: usize,
    /// Where a page of a list ends, in bytes; `None`: the answer is no list.
    pub(crate) page_bytes_max: Option<u64>,
    /// How long it may take until there is an answer, its body included.
    pub(crate) timeout: Duration,
    /// What counts those of this operation beside requests.
    counted: Vec<Limit>,
}

/// Something that counts what all requests of somebody make or hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    RequestsPerMinute,
    RequestsPerHour,
    UserRequestsPerMinute,
    UserRequestsPerHour,
    Connections,
    WrongKeys,
    Organizations,
    Members,
    RoleMembers,
    Projects,
    Domains,
    Invites,
    InviteMails,
    InviteMailsOfUser,
    InviteMailsToAddress,
    Roles,
    HistoricalMigrations,
    ProxyRecords,
    PersonalKeys,
    BatchExports,
    OpenBackfills,
    OrganizationBackfills,
    ExportRuns,
    Plugins,
    PluginSources,
}

/// A limit in numbers, those of settings as they are by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    /// The setting's, where there is one.
    pub(crate) name: &'static str,
    /// Of what there may be so many.
    pub(crate) per: &'static str,
    pub(crate) max: u64,
}

impl Bounds {
    /// By what an operation takes and answers.
    pub(super) fn of(has_body: bool, answer: &AnswerSchema) -> Self {
        let answer_bytes_max = match answer {
            AnswerSchema::Empty => EMPTY_BYTES_MAX,
            AnswerSchema::Html | AnswerSchema::Json(_) => ANSWER_BYTES_MAX,
        };
        Self {
            body_bytes_max: if has_body { BODY_BYTES_MAX } else { 0 },
            answer_bytes_max,
            page_bytes_max: None,
            timeout: TIMEOUT,
            counted: Vec::new(),
        }
    }

    /// Of a request without an operation, as its method is not there.
    pub(crate) const fn timeout_of_none() -> Duration {
        TIMEOUT
    }
}

impl Operation {
    /// The answer is a page of a list.
    pub(super) fn answers_a_page(mut self) -> Self {
        self.bounds.page_bytes_max = Some(PAGE_BYTES_MAX);
        self.answers_much()
    }

    /// The answer may be as large as a page of a list.
    pub(crate) fn answers_much(mut self) -> Self {
        self.bounds.answer_bytes_max = LARGE_ANSWER_BYTES_MAX;
        self
    }

    /// The answer is a plugin with its source.
    pub(crate) fn answers_a_source(mut self) -> Self {
        self.bounds.answer_bytes_max = SOURCE_ANSWER_BYTES_MAX;
        self
    }

    /// Whether it reads so much of the catalog at once that users take turns. No turn is held while
    /// other services are waited for.
    pub(crate) fn takes_turns(&self) -> bool {
        self.bounds.answer_bytes_max >= LARGE_ANSWER_BYTES_MAX && !self.waits_outside
    }

    /// What counts all that it makes, or that it has others do.
    pub(crate) fn counted(mut self, limits: &[Limit]) -> Self {
        self.bounds.counted.extend_from_slice(limits);
        self
    }

    /// All that counts it.
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
        of_all.iter().chain(&self.bounds.counted).copied()
    }
}

impl Limit {
    pub(crate) fn count(self) -> Count {
        let settings = ApiConfig::default();
        let catalog = CatalogLimits::default();
        let count = |name, per, max| Count { name, per, max };
        let of_organization = |name, max| count(name, "organization", max);
        let of_mails = |per, max: u32| count("mails of invites", per, max.into());
        let of_user = |per, max: u32| {
            let max = max.saturating_mul(settings.requests_per_user_factor);
            count("admin_requests_per_user_factor", per, max.into())
        };
        match self {
            Self::RequestsPerMinute => count(
                "admin_requests_per_minute_max",
                "key and minute",
                settings.requests_per_minute_max.into(),
            ),
            Self::RequestsPerHour => count(
                "admin_requests_per_hour_max",
                "key and hour",
                settings.requests_per_hour_max.into(),
            ),
            Self::UserRequestsPerMinute => {
                of_user("user and minute", settings.requests_per_minute_max)
            }
            Self::UserRequestsPerHour => of_user("user and hour", settings.requests_per_hour_max),
            Self::Connections => {
                count("connections", "address", CONNECTIONS_PER_ADDRESS_MAX as u64)
            }
            Self::WrongKeys => count(
                "wrong keys and tokens",
                "address and minute",
                settings.wrong_keys_per_minute_max.into(),
            ),
            Self::Organizations => count("organizations", "owner", limits::OWNED_ORGANIZATIONS_MAX),
            Self::Members => of_organization("members", limits::MEMBERS_MAX),
            // Each member of an organization has it once.
            Self::RoleMembers => count("members", "role", limits::MEMBERS_MAX),
            Self::Projects => of_organization("projects", limits::PROJECTS_MAX),
            Self::Domains => of_organization("domains", limits::DOMAINS_MAX),
            Self::Invites => of_organization("invites", limits::INVITES_MAX),
            Self::InviteMails => of_mails("organization and hour", INVITATIONS_PER_HOUR_MAX),
            Self::InviteMailsOfUser => of_mails("user and hour", INVITATIONS_OF_USER_PER_HOUR_MAX),
            Self::InviteMailsToAddress => {
                of_mails("recipient and hour", INVITATIONS_TO_ADDRESS_PER_HOUR_MAX)
            }
            Self::Roles => of_organization("roles", limits::ROLES_MAX),
            Self::HistoricalMigrations => {
                of_organization("historical migrations", limits::HISTORICAL_MIGRATIONS_MAX)
            }
            Self::ProxyRecords => of_organization("proxy records", limits::PROXY_RECORDS_MAX),
            Self::PersonalKeys => count("keys in force", "user", limits::KEYS_PER_USER_MAX),
            Self::BatchExports => of_organization("batch_exports_max", catalog.batch_exports_max),
            Self::OpenBackfills => count(
                "backfills that have not ended",
                "batch export",
                limits::OPEN_BACKFILLS_MAX,
            ),
            Self::OrganizationBackfills => of_organization(
                "backfills that have not ended",
                limits::OPEN_BACKFILLS_OF_ORGANIZATION_MAX,
            ),
            // Half of `export_runs_max`, which is two.
            Self::ExportRuns => of_organization("runs at a time (half of export_runs_max)", 1),
            Self::Plugins => of_organization("plugins_max", catalog.plugins_max),
            Self::PluginSources => of_organization("sources read at a time", 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::Router;
    use http::{Method, StatusCode};
    use std::sync::Arc;

    #[test]
    fn every_operation_of_the_table_has_bounds() {
        let router = Router::new(crate::routes::operations(&Arc::default())).unwrap();
        let operations = router.items().iter().flat_map(|item| &item.operations);
        for operation in operations {
            let name = format!("{} {}", operation.method, operation.path);
            let bounds = &operation.bounds;
            assert_eq!(
                bounds.body_bytes_max > 0,
                operation.body.is_some(),
                "{name}"
            );
            assert!(bounds.body_bytes_max <= 1 << 20, "{name}");
            let is_source = operation.path.ends_with("source/");
            let answer_bytes_max = (5 << 20) + if is_source { 256 << 10 } else { 0 };
            let answer = bounds.answer_bytes_max;
            assert!((1..=answer_bytes_max).contains(&answer), "{name}");
            assert_eq!(bounds.page_bytes_max.is_some(), operation.is_list, "{name}");
            assert!(bounds.timeout <= Duration::from_secs(30), "{name}");
            assert!(operation.limits().count() >= 2, "{name}");
            assert!(operation.limits().all(|it| it.count().max > 0), "{name}");
            // What stays is counted.
            let makes = operation.status == StatusCode::CREATED;
            assert!(
                !makes || operation.method == Method::POST && !bounds.counted.is_empty(),
                "{name} makes something that nothing counts"
            );
        }
    }
}
