//! Normalization of ids in paths. A resource has one id in one spelling, so that locks and
//! idempotency keys recognize it under each of its addresses: `@current`, `@me`, or its id in
//! upper case.

use crate::context::Context;
use crate::request::uuid_text::parse;

/// Path of an authorized request by its template, with aliases such as `@current` resolved and
/// UUIDs in lower case: one path for each resource.
pub(crate) fn resolved_path(context: &Context, template: &str) -> String {
    let parts = template.trim_end_matches('/').split('/').map(|part| {
        let name = part
            .strip_prefix('{')
            .and_then(|part| part.strip_suffix('}'));
        // A slash in a value does not separate parts of the path.
        name.map_or_else(
            || part.to_owned(),
            |name| resolved(context, name).replace('/', "%2F"),
        )
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Value of a parameter of a request's path, with aliases resolved and UUIDs in lower case.
pub(crate) fn resolved(context: &Context, name: &str) -> String {
    let text = context.text(name);
    let known = match (name, text) {
        ("organization_id", _) => {
            let access = context.organization.as_deref();
            access.map(|access| access.organization.id.to_string())
        }
        ("project_id", _) => {
            let project = context.project.as_deref();
            project.map(|project| project.id.to_string())
        }
        (_, "@me") => {
            let caller = context.caller.as_deref();
            caller.map(|caller| caller.user.uuid.to_string())
        }
        (_, "@current") => {
            let caller = context.caller.as_deref();
            caller.map(|caller| caller.credential.id().to_string())
        }
        _ => parse(text).map(|id| id.to_string()),
    };
    known.unwrap_or_else(|| text.to_owned())
}
