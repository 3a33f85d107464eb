//! Authorization of a routed request: authentication, rate limit, scopes, membership, level.

use crate::app::App;
use crate::context::{Context, Request};
use crate::error::ApiError;
use crate::operation::{Access, Operation};
use crate::request::auth;
use crate::request::scope;
use crate::request::session_cookie;
use crate::request::throttle::RateLimitStatus;
use crate::router::PathItem;
use http::{Method, StatusCode};
use millrace_catalog::RequiredScope;
use millrace_organizations::{Caller, Credential};
use std::sync::Arc;

/// A request that the router has matched to a path; not yet authorized.
pub(crate) struct RoutedRequest {
    pub(crate) method: Method,
    pub(crate) item: Arc<PathItem>,
    pub(crate) request: Arc<Request>,
}

impl RoutedRequest {
    /// Operation that the request asks for; `None` if the path does not have the method.
    pub(crate) fn operation(&self) -> Option<&Arc<Operation>> {
        self.item.operation(&self.method)
    }

    /// Authorizes the request: authentication, rate limit, scope, membership, level, rate limit of
    /// the organization. If the path does not have the method, the scopes for reading are required,
    /// so that 405 tells nothing to callers who may not read.
    ///
    /// # Errors
    ///
    /// 401, 403, 404, 429.
    pub(crate) async fn authorize(
        &self,
        app: &App,
        rate_limit: &mut Option<RateLimitStatus>,
    ) -> Result<Context, ApiError> {
        let caller = self.caller(app).await?;
        if let Some(caller) = &caller {
            let counted = app.throttle.request(caller.user.id, caller.credential.id());
            *rate_limit = counted.map_err(|refused| {
                *rate_limit = Some(refused);
                ApiError::throttled(refused)
            })?;
        }
        let context = self.context_for(app, caller).await?;
        // Those of the operator, who is no member, do not count.
        let organization = context.organization.as_ref();
        if let Some(access) = organization.filter(|access| access.level.is_some()) {
            let counted = app.throttle.organization_request(access.organization.id);
            let of_organization = counted.map_err(|refused| {
                *rate_limit = Some(refused);
                ApiError::throttled(refused)
            })?;
            let nearest = (*rate_limit).into_iter().chain(of_organization);
            *rate_limit = nearest.min_by_key(|left| left.remaining);
        }
        Ok(context)
    }

    /// Authorizes the request again after a wait; does not count it against the rate limit again.
    ///
    /// # Errors
    ///
    /// 401, 403, 404.
    pub(crate) async fn reauthorize(&self, app: &App) -> Result<Context, ApiError> {
        let caller = self.caller(app).await?;
        self.context_for(app, caller).await
    }

    /// Authenticates the caller; `None` for an open operation without a key and a session. What
    /// a session asks for must come from our own page.
    async fn caller(&self, app: &App) -> Result<Option<Caller>, ApiError> {
        let (catalog, request) = (&app.services.catalog, &self.request);
        let caller = auth::authenticate(catalog, request, &app.throttle, self.is_open());
        let caller = caller.await?;
        let credential = caller.as_ref().map(|caller| caller.credential);
        if let Some(Credential::Session(_)) = credential {
            session_cookie::must_come_from_own_page(&self.method, request)?;
        }
        Ok(caller)
    }

    /// Counts a 404 of an anonymous request to an open operation as a wrong key of the address: it
    /// was a guess at a token. Returns the error to answer with.
    pub(crate) fn count_wrong_token(
        &self,
        app: &App,
        context: &Context,
        error: ApiError,
    ) -> ApiError {
        if context.caller.is_some() || !self.is_open() || error.status() != StatusCode::NOT_FOUND {
            return error;
        }
        let counted = app.throttle.wrong_key(self.request.address);
        counted.err().map_or(error, ApiError::throttled)
    }

    fn is_open(&self) -> bool {
        let is_open = |operation: &Arc<Operation>| operation.access == Access::Open;
        match self.operation() {
            Some(operation) => is_open(operation),
            None => self.item.operations.iter().all(is_open),
        }
    }

    async fn context_for(&self, app: &App, caller: Option<Caller>) -> Result<Context, ApiError> {
        let mut context = Context {
            services: app.services.clone(),
            request: self.request.clone(),
            caller: None,
            organization: None,
            project: None,
        };
        let Some(caller) = caller else {
            return Ok(context);
        };
        let operation = self.operation().map(Arc::as_ref);
        match operation {
            Some(operation) => auth::check_scopes(&caller, operation.scopes)?,
            None => auth::check_scopes(&caller, &reading(&self.item))?,
        }
        scope::resolve(&app.services.catalog, &caller, operation, &mut context).await?;
        context.caller = Some(Arc::new(caller));
        if let Some(operation) = operation {
            auth::check_access(operation, &context)?;
        }
        Ok(context)
    }
}

/// Scopes for reading at a path.
fn reading(item: &PathItem) -> Vec<RequiredScope> {
    let get = item.operation(&Method::GET).or(item.operations.first());
    let scopes = get.map_or(&[][..], |operation| operation.scopes);
    scopes
        .iter()
        .map(|need| RequiredScope::read(need.family))
        .collect()
}
