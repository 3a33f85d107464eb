//! Recording of the document's examples: what the walk sends and is answered, with ids, times and
//! secrets made alike. Examples that are still right stay as they are.

use super::alike::Alike;
use super::table::Row;
use crate::fixture::TestResponse;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Mutex;
use uuid::Uuid;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/openapi/examples.json");
/// Operations without an example: their answers are the document itself.
const WITHOUT: [&str; 2] = ["/api/schema/", "/api/docs/"];

/// Request and answer of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Example {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response: Option<Value>,
}

/// Line of the file: an example, and the operations that have it.
#[derive(Serialize, Deserialize)]
struct Line {
    operations: Vec<String>,
    #[serde(flatten)]
    example: Example,
}

/// Examples of a walk by the ids of their operations.
#[derive(Default)]
pub struct Recorder(Mutex<BTreeMap<String, Example>>);

impl Recorder {
    /// Records an answered request; `request` is its body.
    pub fn record(&self, id: &str, row: &Row, request: Option<&Value>, answer: &TestResponse) {
        if WITHOUT.contains(&row.path.as_str()) {
            return;
        }
        let mut alike = Alike::default();
        let content_type = answer.header("content-type").split(';').next();
        let media_type = content_type.filter(|media_type| !media_type.is_empty());
        let example = Example {
            request: request.map(|request| alike.whole(request)),
            query: row.query.clone(),
            status: answer.status,
            media_type: media_type.map(str::to_owned),
            response: (!answer.body.is_null()).then(|| alike.shortened(&answer.body)),
        };
        self.0.lock().unwrap().insert(id.to_owned(), example);
    }

    /// Compares the examples with those of the file; with `UPDATE=1` it is written.
    pub fn finish(&self) {
        let kept = read();
        let mut examples = self.0.lock().unwrap().clone();
        let ids: Vec<String> = examples.keys().cloned().collect();
        let unknown = kept.keys().filter(|id| !examples.contains_key(*id));
        let mut stale: Vec<&String> = unknown.collect();
        for id in &ids {
            match kept.get(id) {
                Some(known) if is_current(known, &examples[id]) => {
                    examples.insert(id.clone(), known.clone());
                }
                _ => stale.push(id),
            }
        }
        if std::env::var_os("UPDATE").is_some() {
            write(examples);
            return;
        }
        assert!(
            stale.is_empty(),
            "UPDATE=1 with this test makes the examples of {FILE} anew: {stale:?}"
        );
    }
}

fn read() -> BTreeMap<String, Example> {
    let text = std::fs::read_to_string(FILE).unwrap();
    let lines: Vec<Line> = serde_json::from_str(&text).unwrap();
    let examples = lines.into_iter().flat_map(|line| {
        let example = line.example;
        let operations = line.operations.into_iter();
        operations.map(move |id| (id, example.clone()))
    });
    examples.collect()
}

/// Writes a line for each different example. Both databases' tests may write at a time, so the file
/// is replaced as a whole.
fn write(examples: BTreeMap<String, Example>) {
    let mut lines: Vec<Line> = Vec::new();
    for (id, example) in examples {
        match lines.iter_mut().find(|line| line.example == example) {
            Some(line) => line.operations.push(id),
            None => lines.push(Line {
                operations: vec![id],
                example,
            }),
        }
    }
    let lines = lines
        .iter()
        .map(|line| serde_json::to_string(line).unwrap());
    let text = format!("[\n{}\n]\n", lines.collect::<Vec<_>>().join(",\n"));
    let draft = format!("{FILE}.{}", Uuid::now_v7());
    std::fs::write(&draft, text).unwrap();
    std::fs::rename(&draft, FILE).unwrap();
}

/// Returns true if a kept example is still what happens. Values that differ from run to run, such
/// as the newest entry of a log, do not count.
fn is_current(kept: &Example, new: &Example) -> bool {
    let head = |example: &Example| {
        let (request, query) = (example.request.clone(), example.query.clone());
        (request, query, example.status, example.media_type.clone())
    };
    head(kept) == head(new) && has_same_fields(kept.response.as_ref(), new.response.as_ref())
}

fn has_same_fields(kept: Option<&Value>, new: Option<&Value>) -> bool {
    match (kept, new) {
        (Some(kept), Some(new)) => is_alike(kept, new),
        (kept, new) => kept.is_none() == new.is_none(),
    }
}

fn is_alike(kept: &Value, new: &Value) -> bool {
    match (kept, new) {
        (Value::Object(kept), Value::Object(new)) => {
            kept.keys().eq(new.keys())
                && kept.iter().all(|(name, value)| is_alike(value, &new[name]))
        }
        (Value::Array(kept), Value::Array(new)) => {
            kept.iter().zip(new).all(|(kept, new)| is_alike(kept, new))
        }
        _ => true,
    }
}
