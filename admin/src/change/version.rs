//! Changes of a version: `If-Match` holds until the change is committed.
//!
//! The tag is compared twice. Before the handler runs, under a lock of this process, so that most of those who
//! are late are told at once; and in the handler's transaction, behind the rows that every change of the thing
//! locks: those of other processes, of exports' runs and of the command line as well.

use super::etag;
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use crate::request::path_id;
use http::StatusCode;
use millrace_catalog::{ConditionLocks, Standing, TeamId};
use serde_json::Value;
use std::sync::Arc;

/// The tag that a read of the thing answers with now.
///
/// # Errors
///
/// Those of the read.
pub(super) async fn tag_of(read: &Operation, context: Context) -> Result<String, ApiError> {
    let answer = (read.run)(context, Value::Null).await?;
    Ok(etag::without(read.live_fields, &answer.body))
}

/// A context whose catalog changes nothing once the thing's version is none of those that the request names.
pub(super) fn depending(context: Context, read: Arc<Operation>) -> Context {
    let (locks, reading) = (locks(&context, &read), context.clone());
    let catalog = context
        .catalog()
        .clone()
        .on_condition(locks, move |catalog| {
            let (read, mut context) = (read.clone(), reading.clone().with_catalog(catalog));
            async move {
                let request = context.request.clone();
                // What the path names was read when the request was let in.
                if let Some(project) = context.project.take() {
                    match context.catalog().project(TeamId(project.id)).await {
                        Ok(Some(now)) => context.project = Some(Arc::new(now)),
                        Ok(None) => return Standing::Broken,
                        Err(_) => return Standing::Unknown,
                    }
                }
                match tag_of(&read, context).await {
                    Ok(tag) if etag::may_change(&request.headers, &tag) => Standing::Holds,
                    Ok(_) => Standing::Broken,
                    // It is gone, which is a change as well.
                    Err(error) if error.status() == StatusCode::NOT_FOUND => Standing::Broken,
                    Err(_) => Standing::Unknown,
                }
            }
        });
    context.with_catalog(catalog)
}

/// Rows that changes of the thing lock.
fn locks(context: &Context, read: &Operation) -> ConditionLocks {
    let organization_id = context.organization_id().ok();
    let caller = context.caller().ok();
    let is_below_export = read.path.contains("/batch_exports/{id}/");
    ConditionLocks {
        organization_id,
        user_id: caller
            .filter(|_| organization_id.is_none())
            .map(|caller| caller.user.id),
        batch_export_id: path_id::parse(context.text("id")).filter(|_| is_below_export),
    }
}
