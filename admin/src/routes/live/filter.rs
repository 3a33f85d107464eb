//! Filter of a live stream by the parameters of the query.

use crate::context::Context;
use crate::error::ApiError;
use millrace_live::{Fate, LiveFilter};

/// Most properties of a filter.
const PROPERTIES_MAX: usize = 5;

/// Filter that a request asks for.
///
/// # Errors
///
/// 400: a parameter cannot have its value.
pub(super) fn of(context: &Context) -> Result<LiveFilter, ApiError> {
    let fate = context.query("fate").map(|name| {
        let fate = Fate::named(&name);
        fate.ok_or_else(|| invalid("fate", "The fate is `logged`, `stored` or `rejected`."))
    });
    Ok(LiveFilter {
        event: context.query("event"),
        distinct_id: context.query("distinct_id"),
        fate: fate.transpose()?,
        code: context.query("code"),
        lib: context.query("$lib"),
        properties: properties(context.request.uri.query().unwrap_or_default())?,
    })
}

/// Names and values of the properties that a query asks for.
fn properties(query: &str) -> Result<Vec<(String, String)>, ApiError> {
    let mut properties = Vec::new();
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        if key != "property" || value.is_empty() {
            continue;
        }
        let pair = value.split_once('=');
        let Some((name, value)) = pair else {
            let detail = "Write a property as `name=value`.";
            return Err(invalid("property", detail));
        };
        if properties.len() >= PROPERTIES_MAX {
            let detail = format!("A filter may have {PROPERTIES_MAX} properties.");
            return Err(ApiError::invalid("invalid_input", Some("property"), detail));
        }
        properties.push((name.to_owned(), value.to_owned()));
    }
    Ok(properties)
}

fn invalid(parameter: &str, detail: &'static str) -> ApiError {
    ApiError::invalid("invalid_input", Some(parameter), detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_names_and_values_in_any_number_up_to_five() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let table = [
            ("", Some(vec![])),
            ("property=&event=a", Some(vec![])),
            ("property=plan%3Dpro", Some(vec![pair("plan", "pro")])),
            ("property=a=b=c", Some(vec![pair("a", "b=c")])),
            (
                "property=%24os%3D&property=n%3D7",
                Some(vec![pair("$os", ""), pair("n", "7")]),
            ),
            ("property=plan", None),
        ];
        for (query, expected) in table {
            assert_eq!(properties(query).ok(), expected, "{query}");
        }
        let many = |count| ["property=a=b"].repeat(count).join("&");
        assert_eq!(properties(&many(5)).unwrap().len(), 5);
        assert!(properties(&many(6)).is_err());
    }
}
