//! Cost bounds of operations: the most that one request may take, and the limits on all requests
//! of an organization, a user, a key or an address.
//!
//! `middleware` and `response::budget` enforce the bounds, the document publishes them as
//! `x-millrace-limits`, and `deploy/THREATS.md` has them in a table that a test compares.

use crate::connections::CONNECTIONS_PER_ADDRESS_MAX;
use crate::live_slots;
use crate::mail::{
    INVITATIONS_OF_USER_PER_HOUR_MAX, INVITATIONS_PER_HOUR_MAX, INVITATIONS_TO_ADDRESS_PER_HOUR_MAX,
};
use crate::project_queries::{ANSWER_BYTES_MAX as QUERY_ANSWER_BYTES_MAX, ANSWER_ROWS_MAX};
use crate::query_slots;
use crate::rejected_events::RESEND_EVENTS_MAX;
use crate::response::ResponseSchema;
use crate::response::stream::STREAM_BYTES;
use crate::services::ApiConfig;
use crate::sign_in_mails;
use millrace_catalog::{CatalogLimits, limits};
use millrace_live::SHOWN_PER_SECOND_MAX;
use millrace_organizations::PLUGIN_SOURCE_BYTES_MAX;
use std::time::Duration;

/// Size limit of a body.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Size limit of a response without a body of its own.
const EMPTY_BYTES_MAX: usize = 16 << 10;
/// Size limit of a response, except pages, sources, roles, and the check for updates, which has
/// the plugin twice. The largest is a batch export: 64 KiB of fields, the query once more in
/// parts, and ten runs.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Size limit of a page with its envelope, and with the resource around it if there is one.
pub(super) const LARGE_ANSWER_BYTES_MAX: usize = 5 << 20;
/// Size limit of a plugin with its source.
pub(super) const SOURCE_ANSWER_BYTES_MAX: usize = PLUGIN_SOURCE_BYTES_MAX + ANSWER_BYTES_MAX;
/// Timeout of a request; after it the client gets 503.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout until a streamed response begins.
const STREAM_TIMEOUT: Duration = Duration::from_secs(60);

/// Cost bounds of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Size limit of the body, in bytes; 0: none is read.
    pub(crate) body_bytes_max: usize,
    /// Memory that is reserved for a response before it is made, in bytes.
    pub(crate) answer_bytes_max: usize,
    /// Size limit of a page of a list, in bytes; `None`: the response is no list.
    pub(crate) page_bytes_max: Option<u64>,
    /// Timeout until there is a response, the arrival of the body included.
    pub(crate) timeout: Duration,
    /// Limits of this operation beside those on requests.
    pub(super) limits: Vec<Limit>,
}

/// Limit on what all requests of an organization, user, key or address create or hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    RequestsPerMinute,
    RequestsPerHour,
    UserRequestsPerMinute,
    UserRequestsPerHour,
    OrganizationRequestsPerMinute,
    OrganizationRequestsPerHour,
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
    Sessions,
    SignInLinks,
    SignInMails,
    SignInMailsToAddress,
    BatchExports,
    OpenBackfills,
    OrganizationBackfills,
    ExportRuns,
    Plugins,
    PluginSources,
    Queries,
    AllQueries,
    QueryRows,
    QueryBytes,
    PropertyColumns,
    OrganizationPropertyColumns,
    AllPropertyColumns,
    PropertyColumnBytes,
    UserLiveStreams,
    ProjectLiveStreams,
    LiveStreams,
    LiveEvents,
    ResentEvents,
}

/// A limit in numbers; settings have their default values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    /// Name of the setting, or of what is limited if there is no setting.
    pub(crate) name: &'static str,
    /// Owner and period of the limit, such as `key and minute`.
    pub(crate) per: &'static str,
    pub(crate) max: u64,
}

impl Bounds {
    /// Bounds of an operation by its body and response.
    pub(super) fn of(has_body: bool, response: &ResponseSchema) -> Self {
        let answer_bytes_max = match response {
            ResponseSchema::Empty => EMPTY_BYTES_MAX,
            ResponseSchema::Html | ResponseSchema::Csv | ResponseSchema::Json(_) => {
                ANSWER_BYTES_MAX
            }
            ResponseSchema::Stream(_) => STREAM_BYTES,
        };
        let timeout = match response {
            ResponseSchema::Stream(_) => STREAM_TIMEOUT,
            _ => TIMEOUT,
        };
        Self {
            body_bytes_max: if has_body { BODY_BYTES_MAX } else { 0 },
            answer_bytes_max,
            page_bytes_max: None,
            timeout,
            limits: Vec::new(),
        }
    }

    /// Timeout of a request whose path does not have its method.
    pub(crate) const fn timeout_of_none() -> Duration {
        TIMEOUT
    }
}

impl Limit {
    pub(crate) fn count(self) -> Count {
        let settings = ApiConfig::default();
        let catalog = CatalogLimits::default();
        let minute = settings.requests_per_minute_max;
        let hour = settings.requests_per_hour_max;
        let count = |name, per, max| Count { name, per, max };
        let of_organization = |name, max| count(name, "organization", max);
        let of_user = |per, max: u32| {
            let max = max.saturating_mul(settings.requests_per_user_factor);
            count("admin_requests_per_user_factor", per, max.into())
        };
        let of_members = |per, max: u32| {
            let max = max.saturating_mul(settings.requests_per_organization_factor);
            count("admin_requests_per_organization_factor", per, max.into())
        };
        match self {
            Self::RequestsPerMinute => count(
                "admin_requests_per_minute_max",
                "key and minute",
                minute.into(),
            ),
            Self::RequestsPerHour => {
                count("admin_requests_per_hour_max", "key and hour", hour.into())
            }
            Self::UserRequestsPerMinute => of_user("user and minute", minute),
            Self::UserRequestsPerHour => of_user("user and hour", hour),
            Self::OrganizationRequestsPerMinute => of_members("organization and minute", minute),
            Self::OrganizationRequestsPerHour => of_members("organization and hour", hour),
            Self::Connections | Self::WrongKeys => self.of_address(&settings),
            Self::Organizations => count("organizations", "owner", limits::OWNED_ORGANIZATIONS_MAX),
            Self::Members => of_organization("members", limits::MEMBERS_MAX),
            // Each member of an organization has a role once.
            Self::RoleMembers => count("members", "role", limits::MEMBERS_MAX),
            Self::Projects => of_organization("projects", limits::PROJECTS_MAX),
            Self::Domains => of_organization("domains", limits::DOMAINS_MAX),
            Self::Invites => of_organization("invites", limits::INVITES_MAX),
            Self::InviteMails
            | Self::InviteMailsOfUser
            | Self::InviteMailsToAddress
            | Self::SignInMails
            | Self::SignInMailsToAddress => self.of_mails(),
            Self::Roles => of_organization("roles", limits::ROLES_MAX),
            Self::HistoricalMigrations => {
                of_organization("historical migrations", limits::HISTORICAL_MIGRATIONS_MAX)
            }
            Self::ProxyRecords => of_organization("proxy records", limits::PROXY_RECORDS_MAX),
            Self::PersonalKeys => count("keys in force", "user", limits::KEYS_PER_USER_MAX),
            Self::Sessions => count("sessions", "user", limits::SESSIONS_PER_USER_MAX),
            Self::SignInLinks => count("sign-in links", "user", limits::SIGN_IN_LINKS_PER_USER_MAX),
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
            // The others limit queries, columns and live streams.
            _ => self.of_clickhouse(),
        }
    }

    /// Limits of an address, for whoever has no key.
    fn of_address(self, settings: &ApiConfig) -> Count {
        let (name, per, max) = match self {
            Self::WrongKeys => {
                let max = settings.wrong_keys_per_minute_max.into();
                ("wrong keys and tokens", "address and minute", max)
            }
            _ => ("connections", "address", CONNECTIONS_PER_ADDRESS_MAX as u64),
        };
        Count { name, per, max }
    }

    /// Limits of the mails of invites, and of mails with sign-in links.
    fn of_mails(self) -> Count {
        let (invites, sign_in) = ("mails of invites", "mails with sign-in links");
        let (name, per, max) = match self {
            Self::InviteMailsOfUser => (invites, "user and hour", INVITATIONS_OF_USER_PER_HOUR_MAX),
            Self::InviteMailsToAddress => {
                let max = INVITATIONS_TO_ADDRESS_PER_HOUR_MAX;
                (invites, "recipient and hour", max)
            }
            Self::SignInMails => {
                let max = sign_in_mails::OF_NETWORK_PER_HOUR_MAX;
                (sign_in, "address and hour", max)
            }
            Self::SignInMailsToAddress => {
                let max = sign_in_mails::TO_ADDRESS_PER_HOUR_MAX;
                (sign_in, "recipient and hour", max)
            }
            _ => (invites, "organization and hour", INVITATIONS_PER_HOUR_MAX),
        };
        Count {
            name,
            per,
            max: max.into(),
        }
    }

    /// Limits of queries in ClickHouse, of property columns and of live streams.
    fn of_clickhouse(self) -> Count {
        let columns = "property columns";
        let (queries, live_streams) = ("queries at a time", "live streams at a time");
        let (name, per, max) = match self {
            Self::AllQueries => (queries, "process", query_slots::ALL_MAX as u64),
            Self::QueryRows => ("rows of an answer", "query", ANSWER_ROWS_MAX),
            Self::QueryBytes => ("bytes of an answer", "query", QUERY_ANSWER_BYTES_MAX),
            Self::PropertyColumns => (columns, "project", limits::PROPERTY_COLUMNS_MAX),
            Self::OrganizationPropertyColumns => {
                let max = limits::PROPERTY_COLUMNS_OF_ORGANIZATION_MAX;
                (columns, "organization", max)
            }
            Self::AllPropertyColumns => {
                (columns, "installation", limits::PROPERTY_COLUMNS_OF_ALL_MAX)
            }
            Self::PropertyColumnBytes => {
                let name = "bytes of an event in property columns";
                (name, "project", limits::PROPERTY_COLUMN_BYTES_MAX)
            }
            Self::UserLiveStreams => (live_streams, "user", live_slots::USER_MAX as u64),
            Self::ProjectLiveStreams => (live_streams, "project", live_slots::PROJECT_MAX as u64),
            Self::LiveStreams => (live_streams, "process", live_slots::ALL_MAX as u64),
            Self::LiveEvents => {
                let per = "live stream and second";
                ("events shown", per, SHOWN_PER_SECOND_MAX)
            }
            Self::ResentEvents => ("events sent again", "request", RESEND_EVENTS_MAX.into()),
            _ => {
                let max = query_slots::ORGANIZATION_MAX as u64;
                (queries, "organization", max)
            }
        };
        Count { name, per, max }
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
            let seconds_max = if operation.is_stream { 60 } else { 30 };
            assert!(bounds.timeout <= Duration::from_secs(seconds_max), "{name}");
            assert!(operation.limits().count() >= 2, "{name}");
            assert!(operation.limits().all(|it| it.count().max > 0), "{name}");
            // An operation that creates something has a limit.
            let makes = operation.status == StatusCode::CREATED;
            assert!(
                !makes || operation.method == Method::POST && !bounds.limits.is_empty(),
                "{name} makes something that nothing counts"
            );
        }
    }
}
