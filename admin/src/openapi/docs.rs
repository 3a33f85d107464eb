//! `/api/docs/`: the OpenAPI document as a page. Loads nothing from elsewhere, runs no script.

use super::variants::{self, Variants};
use askama::Template;
use serde_json::Value;

/// The document as a page.
///
/// # Errors
///
/// The template cannot be written.
pub(crate) fn page(document: &Value) -> Result<String, String> {
    let groups = groups(document);
    let rows = groups.iter().flat_map(|group| &group.operations);
    let fields = rows.flat_map(|row| &row.body);
    let variants = variants::of(document, fields.filter_map(|field| field.more.clone()));
    let page = Page {
        title: text(document, "/info/title"),
        version: text(document, "/info/version"),
        introduction: paragraphs(&text(document, "/info/description")),
        groups,
        variants,
    };
    page.render().map_err(|error| error.to_string())
}

#[derive(Template)]
#[template(path = "docs.html")]
struct Page {
    title: String,
    version: String,
    introduction: Vec<String>,
    groups: Vec<Group>,
    variants: Vec<Variants>,
}

/// The operations on one resource.
struct Group {
    name: String,
    operations: Vec<Row>,
}

struct Row {
    id: String,
    method: String,
    path: String,
    summary: String,
    description: Vec<String>,
    /// Any one of them will do.
    scopes: Vec<String>,
    parameters: Vec<Field>,
    body: Vec<Field>,
    answers: Vec<Answer>,
}

pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) is_required: bool,
    pub(super) description: String,
    /// Where on the page there is more of it.
    pub(super) more: Option<String>,
}

struct Answer {
    status: String,
    description: String,
}

fn groups(document: &Value) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (path, methods) in fields(document, "/paths") {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            let name = text(operation, "/tags/0");
            let row = row(document, path, method, operation);
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.operations.push(row),
                None => groups.push(Group {
                    name,
                    operations: vec![row],
                }),
            }
        }
    }
    groups.sort_by(|one, other| one.name.cmp(&other.name));
    for group in &mut groups {
        let order = |row: &Row| {
            let methods = ["GET", "POST", "PATCH", "PUT", "DELETE"];
            (
                row.path.clone(),
                methods.iter().position(|method| *method == row.method),
            )
        };
        group.operations.sort_by_key(order);
    }
    groups
}

fn row(document: &Value, path: &str, method: &str, operation: &Value) -> Row {
    let schema = operation.pointer("/requestBody/content/application~1json/schema");
    let answers = fields(operation, "/responses").map(|(status, response)| Answer {
        status: status.clone(),
        description: text(resolved(document, response), "/description"),
    });
    Row {
        id: text(operation, "/operationId"),
        method: method.to_ascii_uppercase(),
        path: path.to_owned(),
        summary: text(operation, "/summary"),
        description: paragraphs(&text(operation, "/description")),
        scopes: scopes(operation),
        parameters: parameters(document, operation),
        body: schema
            .map(|schema| body(document, resolved(document, schema)))
            .unwrap_or_default(),
        answers: answers.collect(),
    }
}

fn scopes(operation: &Value) -> Vec<String> {
    let alternatives = items(operation, "/security");
    let scopes =
        alternatives.flat_map(|one| items(one, "/personalKey").map(|scope| text(scope, "")));
    scopes.collect()
}

fn parameters(document: &Value, operation: &Value) -> Vec<Field> {
    let parameters = items(operation, "/parameters").map(|parameter| {
        let parameter = resolved(document, parameter);
        Field {
            name: text(parameter, "/name"),
            kind: text(parameter, "/in"),
            is_required: parameter.pointer("/required") == Some(&Value::Bool(true)),
            description: text(parameter, "/description").replace('`', ""),
            more: None,
        }
    });
    parameters.collect()
}

pub(super) fn body(document: &Value, schema: &Value) -> Vec<Field> {
    let is_required = |name: &str| items(schema, "/required").any(|required| required == name);
    let fields = fields(schema, "/properties").map(|(name, property)| Field {
        name: name.clone(),
        kind: kind(document, property),
        is_required: is_required(name),
        description: about(document, property),
        more: variants::anchor(document, property),
    });
    fields.collect()
}

/// What is said of a field, or else of its type.
fn about(document: &Value, property: &Value) -> String {
    let own = text(property, "/description");
    let mut said = match own.is_empty() {
        true => text(resolved(document, property), "/description"),
        false => own,
    };
    if property.get("writeOnly") == Some(&Value::Bool(true)) {
        said += " Never answered.";
    }
    said.replace('`', "")
}

/// What a field may be, in a few words.
pub(super) fn kind(document: &Value, schema: &Value) -> String {
    let schema = resolved(document, schema);
    if let Some(words) = variants::words(document, schema) {
        return words;
    }
    let alternatives: Vec<String> = ["/anyOf", "/oneOf"]
        .iter()
        .flat_map(|place| items(schema, place).map(|one| kind(document, one)))
        .collect();
    if !alternatives.is_empty() {
        return alternatives.join(" or ");
    }
    let choices: Vec<String> = items(schema, "/enum")
        .chain(schema.get("const"))
        .map(Value::to_string)
        .collect();
    if !choices.is_empty() {
        return choices.join(", ");
    }
    let types = match schema.get("type") {
        Some(Value::Array(types)) => {
            let types = types.iter().filter_map(Value::as_str);
            types.collect::<Vec<_>>().join(" or ")
        }
        Some(one) => text(one, ""),
        None => "anything".to_owned(),
    };
    let limits = [
        ("format", ""),
        ("maxLength", "at most "),
        ("minimum", "from "),
        ("maximum", "to "),
    ];
    let limits = limits.iter().filter_map(|(name, word)| {
        let limit = schema.get(name)?;
        let is_machine = matches!(limit.as_str(), Some("int16" | "int32" | "int64" | "uint32"));
        let is_range = limit
            .as_i64()
            .is_some_and(|limit| limit.unsigned_abs() > u64::from(u32::MAX));
        let limit = limit
            .as_str()
            .map_or_else(|| limit.to_string(), str::to_owned);
        (!is_machine && !is_range).then(|| format!(", {word}{limit}"))
    });
    types + &limits.collect::<String>()
}

pub(super) fn resolved<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let target = value.get("$ref").and_then(Value::as_str);
    let target = target.and_then(|target| document.pointer(target.strip_prefix('#')?));
    target.unwrap_or(value)
}

pub(super) fn text(value: &Value, pointer: &str) -> String {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default().to_owned()
}

fn fields<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    value
        .pointer(pointer)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

pub(super) fn items<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

pub(super) fn paragraphs(text: &str) -> Vec<String> {
    let lines = text.split('\n').map(|line| line.replace('`', ""));
    lines.filter(|line| !line.is_empty()).collect()
}
