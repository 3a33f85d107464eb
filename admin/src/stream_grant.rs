//! Grant of a response that lasts. It is looked at again and again, so that the response ends soon
//! after its caller loses the access by which it began.

use crate::context::{Context, Request};
use crate::error::ApiError;
use crate::request::{auth, scope};
use crate::services::Services;
use millrace_catalog::{Level, RequiredScope};
use std::sync::Arc;
use std::time::Duration;

/// Interval in which a grant is looked at: a key that was revoked, or a session that was ended, is
/// refused within two seconds.
pub(crate) const CHECK_EVERY: Duration = Duration::from_millis(1_500);

/// Access by which a response began.
pub(crate) struct StreamGrant {
    services: Arc<Services>,
    request: Arc<Request>,
    scopes: &'static [RequiredScope],
    /// Level of the caller; less is not enough, as the response may have what less may not see.
    level: Option<Level>,
    /// Project of the path, which an alias may name.
    project_id: Option<i64>,
}

impl StreamGrant {
    /// Grant of an authorized request, for which one of these scopes was required.
    pub(crate) fn of(context: &Context, scopes: &'static [RequiredScope]) -> Self {
        Self {
            services: Arc::clone(&context.services),
            request: Arc::clone(&context.request),
            scopes,
            level: context.organization.as_ref().and_then(|it| it.level),
            project_id: context.project.as_ref().map(|project| project.id),
        }
    }

    /// Returns true if the caller still has the access. A catalog that does not answer is no
    /// reason to go on.
    pub(crate) async fn holds(&self) -> bool {
        let held = self.check().await;
        matches!(held, Ok(true))
    }

    async fn check(&self) -> Result<bool, ApiError> {
        let catalog = &self.services.catalog;
        let Some(caller) = auth::caller_of(catalog, &self.request).await? else {
            return Ok(false);
        };
        auth::check_scopes(&caller, self.scopes)?;
        let mut context = Context {
            services: Arc::clone(&self.services),
            request: Arc::clone(&self.request),
            caller: None,
            organization: None,
            project: None,
        };
        scope::resolve(catalog, &caller, None, &mut context).await?;
        let level = context.organization.as_ref().and_then(|it| it.level);
        let project_id = context.project.as_ref().map(|project| project.id);
        Ok(level >= self.level && project_id == self.project_id)
    }
}
