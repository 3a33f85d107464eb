//! Operations that list and run the steps of a destination's test.

mod names;
mod run;
#[cfg(test)]
mod tests;
mod wire;

use super::bodies::TypeName;
use super::paths::{FEATURE, Paths, READ, WRITE, place, writer};
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use millrace_catalog::ExportModel;
use millrace_exports::destination::{DestinationConfig, Destinations};
use millrace_exports::{CheckedDestination, DestinationChange};
use names::steps_of;
use run::run_steps;
use serde_json::Value;
use wire::{StepBody, StepsBody, TestBody};

pub(super) fn rows(paths: &Paths) -> Vec<Operation> {
    vec![
        Operation::get(paths.test, steps)
            .about("List the steps of a test of a destination")
            .query("destination", "string", "Type of the destination.")
            .scopes(&READ)
            .fails(400, "required", "The type is missing.")
            .fails(400, "invalid_choice", "The type is unknown."),
        Operation::action(paths.test, test)
            .about("Test a destination")
            .note(
                "The steps run in order until one fails; those after it have no result, but what \
                             was written is deleted in any case. Nothing is stored.",
            )
            .scopes(&WRITE)
            .feature(FEATURE)
            .pipelines_level()
            .fails(
                400,
                "invalid_input",
                "A field of the destination is invalid.",
            ),
    ]
}

async fn steps(context: Context) -> Result<StepsBody, ApiError> {
    let refused = |code, detail| ApiError::invalid(code, Some("destination"), detail);
    let name = context
        .query("destination")
        .ok_or_else(|| refused("required", "Give the type of the destination."))?;
    let kind: TypeName = serde_json::from_value(Value::String(name))
        .map_err(|_| refused("invalid_choice", "There is no such type of destination."))?;
    let steps = steps_of(kind).iter().map(|step| StepBody::of(*step, kind));
    Ok(StepsBody {
        steps: steps.collect(),
    })
}

async fn test(context: Context, body: TestBody) -> Result<StepsBody, ApiError> {
    let actor = context.actor()?;
    let writer = writer(&context, &actor)?;
    let before = match body.batch_export.sent() {
        Some(id) => {
            let view = context.batch_exports().get(place(&context)?, id).await?;
            Some(view.ok_or_else(ApiError::not_found)?.export)
        }
        None => None,
    };
    let change = body.destination.sent().map(DestinationChange::from);
    let change = change.unwrap_or_default();
    let checked = CheckedDestination::of(before.as_ref(), &change, writer.key, &writer.limits)?;
    let CheckedDestination {
        kind,
        config,
        secrets,
        files_at_root,
    } = checked;
    let services = &context.services;
    let destinations = Destinations::new(
        services.secret_key.clone(),
        services.config.allow_private_destinations,
        services.config.export_root.clone(),
    );
    let destinations = destinations.map_err(|error| {
        tracing::error!(%error, "destinations cannot be tested");
        ApiError::internal()
    })?;
    let organization_id = context.organization_id()?;
    let model = before.as_ref().map(|export| export.model);
    let opened = destinations.open_config(DestinationConfig {
        kind,
        model: model.unwrap_or(ExportModel::Events),
        config: &config,
        secrets: &secrets,
        files_of: (!files_at_root).then_some(organization_id),
    });
    let destination = opened.map_err(|error| {
        ApiError::invalid("invalid_input", Some("destination"), error.to_string())
    })?;
    let steps = run_steps(destination.as_ref(), kind.into()).await;
    Ok(StepsBody { steps })
}
