//! Conditional changes: `If-Match` holds until the change is committed.
//!
//! The tag is compared twice. Before the handler runs, under a lock of this process, so that most
//! stale requests are refused early; and in the handler's transaction, after locking the rows
//! that every change of the resource locks, also those of other processes, of exports' runs and
//! of the command line.

use super::etag;
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use crate::request::uuid_text;
use http::StatusCode;
use millrace_catalog::{ConditionLocks, ConditionOutcome, ProjectId};
use serde_json::Value;
use std::sync::Arc;

/// Current tag of the resource that an operation reads.
///
/// # Errors
///
/// Those of the read.
pub(super) async fn tag_of(read: &Operation, context: Context) -> Result<String, ApiError> {
    let response = (read.run)(context, Value::Null).await?;
    Ok(etag::without(read.live_fields, &response.body))
}

/// Makes the context's catalog refuse changes once the resource's version is none of those that
/// the request names.
pub(super) fn conditional(context: Context, read: Arc<Operation>) -> Context {
    let (locks, reading) = (locks(&context, &read), context.clone());
    let catalog = context
        .catalog()
        .clone()
        .on_condition(locks, move |catalog| {
            let (read, mut context) = (read.clone(), reading.clone().with_catalog(catalog));
            async move {
                let request = context.request.clone();
                // The project of the path was read at authorization, and may be stale.
                if let Some(project) = context.project.take() {
                    match context.projects().get(ProjectId(project.id)).await {
                        Ok(Some(now)) => context.project = Some(Arc::new(now)),
                        Ok(None) => return ConditionOutcome::Broken,
                        Err(_) => return ConditionOutcome::Unknown,
                    }
                }
                match tag_of(&read, context).await {
                    Ok(tag) if etag::may_change(&request.headers, &tag) => ConditionOutcome::Holds,
                    Ok(_) => ConditionOutcome::Broken,
                    // A deleted resource has changed, too.
                    Err(error) if error.status() == StatusCode::NOT_FOUND => {
                        ConditionOutcome::Broken
                    }
                    Err(_) => ConditionOutcome::Unknown,
                }
            }
        });
    context.with_catalog(catalog)
}

/// Rows that changes of the resource lock.
fn locks(context: &Context, read: &Operation) -> ConditionLocks {
    let organization_id = context.organization_id().ok();
    let caller = context.caller().ok();
    let is_below_export = read.path.contains("/batch_exports/{id}/");
    ConditionLocks {
        organization_id,
        user_id: caller
            .filter(|_| organization_id.is_none())
            .map(|caller| caller.user.id),
        batch_export_id: uuid_text::parse(context.text("id")).filter(|_| is_below_export),
    }
}
