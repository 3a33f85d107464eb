//! `/api/docs/`: the OpenAPI document as an HTML page. It loads nothing and runs no script.

use super::fields::{Field, body, fields, items, paragraphs, resolved, text};
use super::variants::{self, Variants};
use askama::Template;
use serde_json::Value;

/// Renders the document as a page.
///
/// # Errors
///
/// The template cannot be rendered.
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

/// Operations of one resource.
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
    /// Scopes of which the key needs one.
    scopes: Vec<String>,
    parameters: Vec<Field>,
    body: Vec<Field>,
    answers: Vec<ResponseRow>,
}

struct ResponseRow {
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
    let answers = fields(operation, "/responses").map(|(status, response)| ResponseRow {
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
