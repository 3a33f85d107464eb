//! Whether a request is let in: who asks, how often, of what, and how far they may go.

use crate::app::App;
use crate::context::{Context, Request};
use crate::error::ApiError;
use crate::operation::{Access, Operation};
use crate::request::auth;
use crate::request::scope;
use crate::request::throttle::Allowance;
use crate::router::PathItem;
use http::{Method, StatusCode};
use millrace_catalog::{Caller, Need};
use std::net::IpAddr;
use std::sync::Arc;

/// A request whose path exists.
pub(crate) struct Arrived {
    pub(crate) method: Method,
    /// The client's.
    pub(crate) address: IpAddr,
    pub(crate) item: Arc<PathItem>,
    pub(crate) request: Arc<Request>,
}

impl Arrived {
    /// What is asked for; `None` if the path does not have the method.
    pub(crate) fn operation(&self) -> Option<&Arc<Operation>> {
        self.item.operation(&self.method)
    }

    /// Authentication, throttle, scope, membership, level. Where the method is not there, what
    /// reading needs is asked for, so that 405 tells nothing to those who may not look.
    ///
    /// # Errors
    ///
    /// 401, 403, 404, 429.
    pub(crate) async fn admit(
        &self,
        app: &App,
        allowance: &mut Option<Allowance>,
    ) -> Result<Context, ApiError> {
        let caller = self.caller(app).await?;
        if let Some(caller) = &caller {
            let counted = app.throttle.request(caller.user.id, caller.key_id);
            *allowance = counted.map_err(|refused| {
                *allowance = Some(refused);
                ApiError::throttled(refused)
            })?;
        }
        self.authorize(app, caller).await
    }

    /// The same once more, for after a wait; the request is counted already.
    ///
    /// # Errors
    ///
    /// 401, 403, 404.
    pub(crate) async fn admit_again(&self, app: &App) -> Result<Context, ApiError> {
        let caller = self.caller(app).await?;
        self.authorize(app, caller).await
    }

    /// Who asks; `None` where nobody needs to say.
    async fn caller(&self, app: &App) -> Result<Option<Caller>, ApiError> {
        let headers = &self.request.headers;
        if self.is_open() && !auth::is_presented(headers) {
            return Ok(None);
        }
        let catalog = &app.services.catalog;
        let caller = auth::authenticate(catalog, headers, &app.throttle, self.address);
        caller.await.map(Some)
    }

    /// Counts what is not there as a wrong key of the address, where nobody needs to say who asks:
    /// it was a guess at a token.
    pub(crate) fn counted(&self, app: &App, context: &Context, error: ApiError) -> ApiError {
        if context.caller.is_some() || !self.is_open() || error.status() != StatusCode::NOT_FOUND {
            return error;
        }
        let counted = app.throttle.wrong_key(self.address);
        counted.err().map_or(error, ApiError::throttled)
    }

    fn is_open(&self) -> bool {
        let is_open = |operation: &Arc<Operation>| operation.access == Access::Open;
        match self.operation() {
            Some(operation) => is_open(operation),
            None => self.item.operations.iter().all(is_open),
        }
    }

    async fn authorize(&self, app: &App, caller: Option<Caller>) -> Result<Context, ApiError> {
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

/// The scopes for reading at a path.
fn reading(item: &PathItem) -> Vec<Need> {
    let get = item.operation(&Method::GET).or(item.operations.first());
    let scopes = get.map_or(&[][..], |operation| operation.scopes);
    scopes.iter().map(|need| Need::read(need.family)).collect()
}
