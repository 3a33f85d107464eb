//! What every handler is given.

use crate::error::ApiError;
use crate::page::{self, Envelope, LIMIT_MAX};
use crate::request::path_id;
use crate::services::Services;
use http::HeaderMap;
use http::uri::Uri;
use millrace_catalog::{Access, Actor, Caller, Catalog, Page, PageRequest, Project};
use serde::Serialize;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use uuid::Uuid;

/// A request that has passed every stage before its handler. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Context {
    /// What handlers work with.
    pub(crate) services: Arc<Services>,
    /// What the request said, its body aside.
    pub(crate) request: Arc<Request>,
    /// Who asks; always there unless the operation is open to all.
    pub(crate) caller: Option<Arc<Caller>>,
    /// The organization of the path and the caller's place in it; always there if the path has
    /// an `{organization_id}` or a `{project_id}`.
    pub(crate) organization: Option<Arc<Access>>,
    /// The project of the path; always there if it has a `{project_id}`.
    pub(crate) project: Option<Arc<Project>>,
}

/// The head of a request.
pub(crate) struct Request {
    /// Path and query, as sent.
    pub(crate) uri: Uri,
    /// As sent.
    pub(crate) headers: HeaderMap,
    /// The parameters of the path by their names in its template, decoded.
    pub(crate) parameters: BTreeMap<&'static str, String>,
    /// Where the API is for the client, without a slash at the end.
    pub(crate) base_url: String,
}

impl Context {
    /// Where everything is kept.
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.services.catalog
    }

    /// The same request, with everything kept elsewhere.
    pub(crate) fn with_catalog(mut self, catalog: Catalog) -> Self {
        Arc::make_mut(&mut self.services).catalog = catalog;
        self
    }

    /// Who asks.
    ///
    /// # Errors
    ///
    /// 401 if nobody says so, as may be where an operation is open to all.
    pub(crate) fn caller(&self) -> Result<&Caller, ApiError> {
        let caller = self.caller.as_deref();
        caller.ok_or_else(ApiError::not_authenticated)
    }

    /// Who the activity log names.
    ///
    /// # Errors
    ///
    /// 401, as [`Context::caller`].
    pub(crate) fn actor(&self) -> Result<Actor, ApiError> {
        let caller = self.caller()?;
        Ok(Actor::user(&caller.user, Some(caller.key_id)))
    }

    /// The organization of the path, with the caller's place in it.
    ///
    /// # Errors
    ///
    /// 404 if the path names none.
    pub(crate) fn organization(&self) -> Result<&Access, ApiError> {
        let organization = self.organization.as_deref();
        organization.ok_or_else(ApiError::not_found)
    }

    /// The same, its id only.
    ///
    /// # Errors
    ///
    /// 404 if the path names none.
    pub(crate) fn organization_id(&self) -> Result<Uuid, ApiError> {
        Ok(self.organization()?.organization.id)
    }

    /// The project of the path.
    ///
    /// # Errors
    ///
    /// 404 if the path names none.
    pub(crate) fn project(&self) -> Result<&Project, ApiError> {
        self.project.as_deref().ok_or_else(ApiError::not_found)
    }

    /// A parameter of the path as it was sent, decoded.
    pub(crate) fn text(&self, name: &str) -> &str {
        let value = self.request.parameters.get(name);
        value.map(String::as_str).unwrap_or_default()
    }

    /// A parameter of the path that is a UUID, hyphenated.
    ///
    /// # Errors
    ///
    /// 404 if it is none: malformed and unknown are the same.
    pub(crate) fn uuid(&self, name: &str) -> Result<Uuid, ApiError> {
        path_id::parse(self.text(name)).ok_or_else(ApiError::not_found)
    }

    /// A parameter of the path that is a number.
    ///
    /// # Errors
    ///
    /// 404 if it is none.
    pub(crate) fn integer(&self, name: &str) -> Result<i64, ApiError> {
        let value = self.text(name);
        // Signs and leading zeros would give one thing many addresses.
        let plain = value.bytes().all(|byte| byte.is_ascii_digit()) && !value.starts_with('0');
        let number = value.parse().ok().filter(|_| plain);
        number.ok_or_else(ApiError::not_found)
    }

    /// A parameter of the query, decoded; `None` if it is missing or empty. Null characters,
    /// which no text in the catalog has, are replaced.
    pub(crate) fn query(&self, name: &str) -> Option<String> {
        let query = self.request.uri.query().unwrap_or_default();
        let mut parameters = form_urlencoded::parse(query.as_bytes());
        let value = parameters.find_map(|(key, value)| (key == name).then_some(value))?;
        (!value.is_empty()).then(|| value.replace('\0', "\u{fffd}"))
    }

    /// Which part of a list is asked for.
    pub(crate) fn page(&self) -> PageRequest {
        self.page_up_to(LIMIT_MAX)
    }

    /// The same for a list whose pages are shorter.
    pub(crate) fn page_up_to(&self, limit_max: u64) -> PageRequest {
        page::requested(&self.request.uri, limit_max)
    }

    /// A page of a list in its envelope, read by `read` in pieces until it is whole, or as large as
    /// an answer may be.
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
