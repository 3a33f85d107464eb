//! Context of an authorized request, as handlers receive it.

use crate::error::ApiError;
use crate::page::{self, Envelope, LIMIT_MAX};
use crate::project_queries::{ProjectQueries, QueryFailure};
use crate::project_stats::ProjectStats;
use crate::query_slots::{NoSlot, ORGANIZATION_MAX, QueryPermit};
use crate::rejected_events::RejectedEvents;
use crate::request::uuid_text;
use crate::services::Services;
use http::HeaderMap;
use http::uri::Uri;
use millrace_catalog::{Actor, Catalog, Page, PageRequest, Project, UtcTime};
use millrace_exports::{Backfills, BatchExports, ExportLogs, ExportRuns};
use millrace_organizations::{
    Access, ActivityLog, Caller, ClickHouseUsers, Domains, HistoricalMigrations, Invites, Members,
    Organizations, PersonalKeys, Plugins, ProjectKeyChanges, Projects, PropertyColumns,
    ProxyRecords, Roles, Sessions,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use uuid::Uuid;

/// An authorized request with everything that its handler needs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Context {
    /// Catalog, outbox and other collaborators of handlers.
    pub(crate) services: Arc<Services>,
    /// Head of the request.
    pub(crate) request: Arc<Request>,
    /// Authenticated caller; always present unless the operation is open to all.
    pub(crate) caller: Option<Arc<Caller>>,
    /// Organization of the path and the caller's access to it; always present if the path has an
    /// `{organization_id}` or a `{project_id}`.
    pub(crate) organization: Option<Arc<Access>>,
    /// Project of the path; always present if the path has a `{project_id}`.
    pub(crate) project: Option<Arc<Project>>,
}

/// Head of a request, with the parameters that the router found.
pub(crate) struct Request {
    /// Path and query, as sent.
    pub(crate) uri: Uri,
    /// Headers, as sent.
    pub(crate) headers: HeaderMap,
    /// Parameters of the path by their names in its template, decoded.
    pub(crate) parameters: BTreeMap<&'static str, String>,
    /// Address of the API as the client reaches it, without a slash at the end.
    pub(crate) base_url: String,
    /// Address of the client.
    pub(crate) address: IpAddr,
}

impl Context {
    /// Catalog of the request; within a conditional change that of its transaction.
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.services.catalog
    }

    /// Roles in the catalog of the request.
    pub(crate) fn roles(&self) -> Roles<'_> {
        Roles::new(self.catalog())
    }

    /// Domains in the catalog of the request.
    pub(crate) fn domains(&self) -> Domains<'_> {
        Domains::new(self.catalog())
    }

    /// Proxy records in the catalog of the request.
    pub(crate) fn proxy_records(&self) -> ProxyRecords<'_> {
        ProxyRecords::new(self.catalog())
    }

    /// Members in the catalog of the request.
    pub(crate) fn members(&self) -> Members<'_> {
        Members::new(self.catalog())
    }

    /// Activity log in the catalog of the request.
    pub(crate) fn activity_log(&self) -> ActivityLog<'_> {
        ActivityLog::new(self.catalog())
    }

    /// Invites in the catalog of the request.
    pub(crate) fn invites(&self) -> Invites<'_> {
        Invites::new(self.catalog())
    }

    /// Personal keys in the catalog of the request.
    pub(crate) fn personal_keys(&self) -> PersonalKeys<'_> {
        PersonalKeys::new(self.catalog())
    }

    /// Sessions in the catalog of the request.
    pub(crate) fn sessions(&self) -> Sessions<'_> {
        Sessions::new(self.catalog())
    }

    /// Projects in the catalog of the request.
    pub(crate) fn projects(&self) -> Projects<'_> {
        Projects::new(self.catalog())
    }

    /// Changes of project keys in the catalog of the request.
    pub(crate) fn project_key_changes(&self) -> ProjectKeyChanges<'_> {
        ProjectKeyChanges::new(self.catalog())
    }

    /// Users of projects in ClickHouse, in the catalog of the request.
    pub(crate) fn clickhouse_users(&self) -> ClickHouseUsers<'_> {
        ClickHouseUsers::new(self.catalog())
    }

    /// Properties that are columns, in the catalog of the request.
    pub(crate) fn property_columns(&self) -> PropertyColumns<'_> {
        PropertyColumns::new(self.catalog())
    }

    /// Runner of the queries of projects.
    ///
    /// # Errors
    ///
    /// 503 if there is none.
    pub(crate) fn project_queries(&self) -> Result<&dyn ProjectQueries, ApiError> {
        let queries = self.services.project_queries.as_deref();
        queries.ok_or_else(ApiError::unavailable)
    }

    /// Reader of rejected events, who sends them again.
    ///
    /// # Errors
    ///
    /// 503 if there is none.
    pub(crate) fn rejected_events(&self) -> Result<&dyn RejectedEvents, ApiError> {
        let rejected_events = self.services.rejected_events.as_deref();
        rejected_events.ok_or_else(ApiError::unavailable)
    }

    /// Reader of numbers of events.
    ///
    /// # Errors
    ///
    /// 503 if there is none.
    pub(crate) fn project_stats(&self) -> Result<&dyn ProjectStats, ApiError> {
        let project_stats = self.services.project_stats.as_deref();
        project_stats.ok_or_else(ApiError::unavailable)
    }

    /// Waits a while for a slot in which the path's organization may ask ClickHouse.
    ///
    /// # Errors
    ///
    /// 429 if all slots stay taken, or the organization has used its hour up.
    pub(crate) async fn query_permit(&self) -> Result<QueryPermit, ApiError> {
        let organization_id = self.organization_id()?;
        let permit = self.services.query_slots.acquire(organization_id).await;
        permit.map_err(|refused| match refused {
            NoSlot::Full => ApiError::too_many_queries(ORGANIZATION_MAX),
            NoSlot::HourUsedUp => QueryFailure::QuotaExceeded.into(),
        })
    }

    /// Organizations in the catalog of the request.
    pub(crate) fn organizations(&self) -> Organizations<'_> {
        Organizations::new(self.catalog())
    }

    /// Historical migrations in the catalog of the request.
    pub(crate) fn historical_migrations(&self) -> HistoricalMigrations<'_> {
        HistoricalMigrations::new(self.catalog())
    }

    /// Plugins in the catalog of the request.
    pub(crate) fn plugins(&self) -> Plugins<'_> {
        let parser = self.services.source_parser.as_deref();
        Plugins::new(self.catalog()).with_parser(parser)
    }

    /// Batch exports in the catalog of the request.
    pub(crate) fn batch_exports(&self) -> BatchExports<'_> {
        BatchExports::new(self.catalog())
    }

    /// Runs of exports in the catalog of the request.
    pub(crate) fn export_runs(&self) -> ExportRuns<'_> {
        ExportRuns::new(self.catalog())
    }

    /// Backfills in the catalog of the request.
    pub(crate) fn backfills(&self) -> Backfills<'_> {
        Backfills::new(self.catalog())
    }

    /// Log lines of exports in the catalog of the request.
    pub(crate) fn export_logs(&self) -> ExportLogs<'_> {
        ExportLogs::new(self.catalog())
    }

    /// Replaces the catalog that the request reads and writes.
    pub(crate) fn with_catalog(mut self, catalog: Catalog) -> Self {
        Arc::make_mut(&mut self.services).catalog = catalog;
        self
    }

    /// Authenticated caller.
    ///
    /// # Errors
    ///
    /// 401 for an anonymous request, which operations open to all allow.
    pub(crate) fn caller(&self) -> Result<&Caller, ApiError> {
        let caller = self.caller.as_deref();
        caller.ok_or_else(ApiError::not_authenticated)
    }

    /// Actor of the request for the activity log.
    ///
    /// # Errors
    ///
    /// 401, as [`Context::caller`].
    pub(crate) fn actor(&self) -> Result<Actor, ApiError> {
        Ok(self.caller()?.actor())
    }

    /// Organization of the path, with the caller's access to it.
    ///
    /// # Errors
    ///
    /// 404 if the path names none.
    pub(crate) fn organization(&self) -> Result<&Access, ApiError> {
        let organization = self.organization.as_deref();
        organization.ok_or_else(ApiError::not_found)
    }

    /// Id of the organization of the path.
    ///
    /// # Errors
    ///
    /// 404 if the path names none.
    pub(crate) fn organization_id(&self) -> Result<Uuid, ApiError> {
        Ok(self.organization()?.organization.id)
    }

    /// Project of the path.
    ///
    /// # Errors
    ///
    /// 404 if the path names none.
    pub(crate) fn project(&self) -> Result<&Project, ApiError> {
        self.project.as_deref().ok_or_else(ApiError::not_found)
    }

    /// Parameter of the path as it was sent, decoded.
    pub(crate) fn text(&self, name: &str) -> &str {
        let value = self.request.parameters.get(name);
        value.map(String::as_str).unwrap_or_default()
    }

    /// Parameter of the path that is a hyphenated UUID.
    ///
    /// # Errors
    ///
    /// 404 if it is no UUID: malformed and unknown ids are answered alike.
    pub(crate) fn uuid(&self, name: &str) -> Result<Uuid, ApiError> {
        uuid_text::parse(self.text(name)).ok_or_else(ApiError::not_found)
    }

    /// Parameter of the path that is a number.
    ///
    /// # Errors
    ///
    /// 404 if it is no number.
    pub(crate) fn integer(&self, name: &str) -> Result<i64, ApiError> {
        let value = self.text(name);
        // Signs and leading zeros would give one resource many addresses.
        let plain = value.bytes().all(|byte| byte.is_ascii_digit()) && !value.starts_with('0');
        let number = value.parse().ok().filter(|_| plain);
        number.ok_or_else(ApiError::not_found)
    }

    /// Parameter of the query, decoded; `None` if it is missing or empty. Null characters, which
    /// no text in the catalog has, are replaced.
    pub(crate) fn query(&self, name: &str) -> Option<String> {
        let query = self.request.uri.query().unwrap_or_default();
        let mut parameters = form_urlencoded::parse(query.as_bytes());
        let value = parameters.find_map(|(key, value)| (key == name).then_some(value))?;
        (!value.is_empty()).then(|| value.replace('\0', "\u{fffd}"))
    }

    /// Time of the query. An invalid one is an error, as the list would be another without it.
    ///
    /// # Errors
    ///
    /// 400 if it is no time with a zone.
    pub(crate) fn query_time(&self, name: &str) -> Result<Option<UtcTime>, ApiError> {
        let Some(text) = self.query(name) else {
            return Ok(None);
        };
        // A plus sign that was not percent-encoded arrives as a space.
        let parsed = UtcTime::parse(&text).or_else(|| UtcTime::parse(&text.replace(' ', "+")));
        let detail = "Give a time with a zone in ISO 8601, such as 2025-03-01T10:00:00Z.";
        let refused = || ApiError::invalid("invalid_input", Some(name), detail);
        parsed.map(Some).ok_or_else(refused)
    }

    /// Page of a list that the query asks for.
    pub(crate) fn page(&self) -> PageRequest {
        self.page_up_to(LIMIT_MAX)
    }

    /// Page that the query asks for, of a list whose pages have at most `limit_max` rows.
    pub(crate) fn page_up_to(&self, limit_max: u64) -> PageRequest {
        page::requested(&self.request.uri, limit_max)
    }

    /// Reads a page of a list into its envelope: by `read`, in pieces, until the page is complete
    /// or as large as a response may be.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    pub(crate) async fn list<R, T, E, F>(
        &self,
        mut page: PageRequest,
        read: impl Fn(PageRequest) -> F,
    ) -> Result<Envelope<T>, ApiError>
    where
        T: From<R> + Serialize,
        F: Future<Output = Result<Page<R>, E>>,
        ApiError: From<E>,
    {
        let request = &self.request;
        let mut wanted = page;
        if let Some(end) = page::end_offset(&request.uri) {
            wanted = page::page_before::<R, T, E, F>(end, page.limit, &read).await?;
            page.offset = wanted.offset;
        }
        let part = page::read(wanted, read).await?;
        Ok(Envelope::new(&request.base_url, &request.uri, page, part))
    }
}
