//! Examples of requests and answers. The tests `paths` record them from their own traffic, with
//! ids, times and secrets made alike: `UPDATE=1 cargo test -p millrace-admin --test it paths`.

use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;

/// Recorded examples: a line for each that is different, with the operations that have it.
const FILE: &str = include_str!("examples.json");

/// Examples by the ids of operations.
pub(super) struct Examples(HashMap<String, Example>);

/// Request and answer of one operation.
#[derive(Clone, Debug, Deserialize)]
struct Example {
    /// Body of the request.
    request: Option<Value>,
    /// Query of the request.
    query: Option<String>,
    /// Status of the answer.
    status: u16,
    /// Media type of the answer, without parameters.
    media_type: Option<String>,
    /// Body of the answer.
    response: Option<Value>,
}

#[derive(Deserialize)]
struct Line {
    operations: Vec<String>,
    #[serde(flatten)]
    example: Example,
}

impl Examples {
    /// Reads the recorded examples; none if the file is not as it must be, which a test finds.
    pub(super) fn read() -> Self {
        Self(parsed(FILE).unwrap_or_default())
    }

    /// Adds its example to the description of an operation, as far as the operation has such
    /// content.
    pub(super) fn add_to(&self, operation: &mut Value) {
        let id = operation.get("operationId").and_then(Value::as_str);
        let Some(example) = id.and_then(|id| self.0.get(id)) else {
            return;
        };
        let sent = operation.pointer_mut("/requestBody/content/application~1json");
        set_example(sent, example.request.as_ref());
        if let Some(media_type) = &example.media_type {
            let media_type = media_type.replace('/', "~1");
            let place = format!("/responses/{}/content/{media_type}", example.status);
            set_example(operation.pointer_mut(&place), example.response.as_ref());
        }
        let query = example.query.as_deref().unwrap_or_default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let parameters = operation.pointer_mut("/parameters");
            let parameters = parameters.and_then(Value::as_array_mut);
            let parameter = parameters.into_iter().flatten().find(|parameter| {
                let is_named = |field: &str, text: &str| {
                    let value = parameter.get(field).and_then(Value::as_str);
                    value == Some(text)
                };
                is_named("name", &name) && is_named("in", "query")
            });
            set_example(parameter, Some(&Value::from(&*value)));
        }
    }
}

fn parsed(file: &str) -> Result<HashMap<String, Example>, serde_json::Error> {
    let lines: Vec<Line> = serde_json::from_str(file)?;
    let examples = lines.into_iter().flat_map(|line| {
        let example = line.example;
        let operations = line.operations.into_iter();
        operations.map(move |name| (name, example.clone()))
    });
    Ok(examples.collect())
}

/// Sets the example of a content or a parameter, if both are there.
fn set_example(place: Option<&mut Value>, example: Option<&Value>) {
    if let Some(Value::Object(fields)) = place
        && let Some(example) = example
    {
        fields.insert("example".to_owned(), example.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::Router;
    use serde_json::json;
    use std::sync::Arc;

    fn document() -> Value {
        let router = Router::new(crate::routes::operations(&Arc::default())).unwrap();
        crate::openapi::document(router.items())
    }

    /// Operations of the document.
    fn operations(document: &Value) -> Vec<&Value> {
        let items = document["paths"].as_object().unwrap().values();
        let operations = items.flat_map(|item| item.as_object().unwrap().values());
        operations.collect()
    }

    #[test]
    fn an_example_is_added_to_body_query_and_answer() {
        let file = json!([{
            "operations": ["a_create"], "request": { "a": 1 }, "query": "b=2", "status": 201,
            "media_type": "application/json", "response": { "c": 3 },
        }]);
        let examples = Examples(parsed(&file.to_string()).unwrap());
        let content = || json!({ "content": { "application/json": {} } });
        let mut operation = json!({
            "operationId": "a_create",
            "parameters": [{ "name": "b", "in": "path" }, { "name": "b", "in": "query" }],
            "requestBody": content(),
            "responses": { "201": content() },
        });
        examples.add_to(&mut operation);
        let at = |place: &str| operation.pointer(place).cloned();
        let table = [
            (
                "/requestBody/content/application~1json/example",
                Some(json!({ "a": 1 })),
            ),
            (
                "/responses/201/content/application~1json/example",
                Some(json!({ "c": 3 })),
            ),
            ("/parameters/0/example", None),
            ("/parameters/1/example", Some(json!("2"))),
        ];
        for (place, expected) in table {
            assert_eq!(at(place), expected, "{place}");
        }
    }

    #[test]
    fn the_file_names_only_operations_of_the_document() {
        let document = document();
        let ids = operations(&document).into_iter();
        let ids: Vec<&Value> = ids.map(|operation| &operation["operationId"]).collect();
        let examples = parsed(FILE).unwrap();
        let unknown = examples
            .keys()
            .filter(|id| !ids.iter().any(|it| *it == id.as_str()));
        let unknown: Vec<&String> = unknown.collect();
        assert!(unknown.is_empty(), "UPDATE=1 removes {unknown:?}");
    }

    #[test]
    fn examples_match_the_schemas_of_their_operations() {
        let document = document();
        for operation in operations(&document) {
            let id = &operation["operationId"];
            let body = operation.pointer("/requestBody/content/application~1json");
            let answers = operation["responses"].as_object().unwrap().values();
            let answers = answers.filter_map(|it| it.pointer("/content/application~1json"));
            for content in body.into_iter().chain(answers) {
                let (schema, example) = (&content["schema"], &content["example"]);
                if example.is_null() {
                    continue;
                }
                let mut schema = schema.clone();
                schema["components"] = document["components"].clone();
                let validator = jsonschema::options().build(&schema).unwrap();
                let errors = validator.iter_errors(example).map(|it| it.to_string());
                let errors: Vec<String> = errors.collect();
                assert!(errors.is_empty(), "UPDATE=1 replaces {id}: {errors:?}");
            }
        }
    }
}
