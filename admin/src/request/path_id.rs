//! Ids in paths. A thing has one id in one spelling, so that locks, idempotency keys and logs know it for
//! itself whichever of its addresses was taken: `@current`, `@me`, or its id in upper case.

use crate::context::Context;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

/// Reads a UUID in its hyphenated form, in either case. The other forms that programs know, without
/// hyphens, in braces, as a URN, are no ids here.
pub(crate) fn parse(text: &str) -> Option<Uuid> {
    text.parse::<Hyphenated>().ok().map(Uuid::from)
}

/// Path of a request with whatever stands for an id resolved, and UUIDs in lower case: one for each place,
/// by its template. The request was let in.
pub(crate) fn resolved_path(context: &Context, template: &str) -> String {
    let parts = template.trim_end_matches('/').split('/').map(|part| {
        let name = part
            .strip_prefix('{')
            .and_then(|part| part.strip_suffix('}'));
        // A slash in a value is no end of a part.
        name.map_or_else(
            || part.to_owned(),
            |name| resolved(context, name).replace('/', "%2F"),
        )
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Value of a parameter of a request's path in that form.
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
            caller.map(|caller| caller.key_id.to_string())
        }
        _ => parse(text).map(|id| id.to_string()),
    };
    known.unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hyphenated_form_is_an_id() {
        let id = Uuid::from_u128(0x0190_f5fe_4e1a_7c3f_8a1b_2c3d_4e5f_60ab);
        let plain = id.to_string();
        let table = [
            (plain.clone(), true),
            (plain.to_uppercase(), true),
            (id.simple().to_string(), false),
            (id.braced().to_string(), false),
            (id.urn().to_string(), false),
            (format!(" {plain}"), false),
            (format!("{plain}0"), false),
            ("@current".to_owned(), false),
            (String::new(), false),
        ];
        for (text, is_id) in table {
            assert_eq!(parse(&text), is_id.then_some(id), "{text:?}");
        }
    }
}
