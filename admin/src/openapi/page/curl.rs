//! Command that makes the request of an operation, for a POSIX shell.

use super::lookup::{items, resolved, text};
use serde_json::{Value, json};

/// Address in commands; the page's script puts its own in its place.
const HOST: &str = "https://millrace.example";

/// Command of an operation, with the example's body and query. Ids are names in capitals.
pub(super) fn command(document: &Value, path: &str, method: &str, operation: &Value) -> String {
    let mut lines = Vec::new();
    let sent = operation.pointer("/requestBody/content/application~1json");
    let method = method.to_ascii_uppercase();
    let default = if sent.is_some() { "POST" } else { "GET" };
    let verb = match method == default {
        true => String::new(),
        false => format!("-X {method} "),
    };
    let address = format!("{HOST}{}{}", filled(path), query(document, operation));
    lines.push(format!("curl {verb}'{address}'"));
    let is_open = operation.pointer("/security/0") == Some(&json!({}));
    if !is_open {
        lines.push(r#"-H "Authorization: Bearer $MILLRACE_KEY""#.to_owned());
    }
    if let Some(sent) = sent {
        lines.push("-H 'Content-Type: application/json'".to_owned());
        let body = sent
            .get("example")
            .map_or_else(|| "{}".to_owned(), Value::to_string);
        lines.push(format!("-d '{}'", body.replace('\'', r"'\''")));
    }
    lines.join(" \\\n  ")
}

/// Path with `@current` and `@me` where they stand for something, else with names in capitals.
fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| {
        let name = part
            .strip_prefix('{')
            .and_then(|part| part.strip_suffix('}'));
        match name {
            None => part.to_owned(),
            Some("organization_id" | "project_id") => "@current".to_owned(),
            Some("user_uuid") => "@me".to_owned(),
            Some(name) => name.to_ascii_uppercase(),
        }
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Query of the example; empty if it has none.
fn query(document: &Value, operation: &Value) -> String {
    let parameters = items(operation, "/parameters").map(|one| resolved(document, one));
    let pairs = parameters.filter_map(|parameter| {
        let is_asked = text(parameter, "/in") == "query";
        let value = parameter.get("example").filter(|_| is_asked)?;
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        Some((text(parameter, "/name"), value))
    });
    let mut pairs = pairs.peekable();
    if pairs.peek().is_none() {
        return String::new();
    }
    let mut written = form_urlencoded::Serializer::for_suffix("?".to_owned(), 1);
    for (name, value) in pairs {
        written.append_pair(&name, &value);
    }
    written.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_what_its_request_needs() {
        let body =
            |example: Value| json!({ "content": { "application/json": { "example": example } } });
        let query = json!([{ "name": "month", "in": "query", "example": "2026-11" }]);
        let table = [
            (
                "get",
                "/api/organizations/{organization_id}/usage/",
                json!({ "security": [{ "personalKey": [] }], "parameters": query }),
                "curl 'https://millrace.example/api/organizations/@current/usage/?month=2026-11' \\\n  \
                 -H \"Authorization: Bearer $MILLRACE_KEY\"",
            ),
            (
                "post",
                "/api/signup/{token}/",
                json!({ "security": [{}], "requestBody": body(json!({ "a": "it's" })) }),
                "curl 'https://millrace.example/api/signup/TOKEN/' \\\n  \
                 -H 'Content-Type: application/json' \\\n  -d '{\"a\":\"it'\\''s\"}'",
            ),
            (
                "delete",
                "/api/a/{id}/",
                json!({ "security": [{}] }),
                "curl -X DELETE 'https://millrace.example/api/a/ID/'",
            ),
        ];
        for (method, path, operation, expected) in table {
            assert_eq!(command(&json!({}), path, method, &operation), expected);
        }
    }
}
