//! `/api/docs/`: the OpenAPI document as a page. Loads nothing from elsewhere, runs no script.

use askama::Template;
use serde_json::Value;

/// The document as a page.
///
/// # Errors
///
/// The template cannot be written.
pub(crate) fn page(document: &Value) -> Result<String, String> {
    let page = Page {
        title: text(document, "/info/title"),
        version: text(document, "/info/version"),
        introduction: paragraphs(&text(document, "/info/description")),
        groups: groups(document),
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

struct Field {
    name: String,
    kind: String,
    is_required: bool,
    description: String,
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
            .map(|schema| body(resolved(document, schema)))
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
            description: text(parameter, "/description"),
        }
    });
    parameters.collect()
}

fn body(schema: &Value) -> Vec<Field> {
    let is_required = |name: &str| items(schema, "/required").any(|required| required == name);
    let fields = fields(schema, "/properties").map(|(name, property)| Field {
        name: name.clone(),
        kind: kind(property),
        is_required: is_required(name),
        description: text(property, "/description"),
    });
    fields.collect()
}

/// What a field may be, in a few words.
fn kind(schema: &Value) -> String {
    let alternatives: Vec<String> = ["/anyOf", "/oneOf"]
        .iter()
        .flat_map(|place| items(schema, place).map(kind))
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

fn resolved<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let target = value.get("$ref").and_then(Value::as_str);
    let target = target.and_then(|target| document.pointer(target.strip_prefix('#')?));
    target.unwrap_or(value)
}

fn text(value: &Value, pointer: &str) -> String {
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

fn items<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn paragraphs(text: &str) -> Vec<String> {
    let lines = text.split('\n').map(|line| line.replace('`', ""));
    lines.filter(|line| !line.is_empty()).collect()
}
