//! Parsed table of `paths.toml`.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

const FILE: &str = include_str!("paths.toml");

/// Access that an operation requires, beside the scopes of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    Open,
    Key,
    Members,
    Pipelines,
    Operator,
}

/// One method of one path.
#[derive(Clone, Debug)]
pub struct Row {
    pub method: String,
    /// Path, with `:name` for ids.
    pub path: String,
    pub access: Access,
    /// Scopes of which the key needs one.
    pub scopes: Vec<String>,
    pub level: i16,
    pub status: u16,
    pub answer: String,
    pub plus: ResponseShape,
    pub empty: bool,
    pub body: Option<Value>,
    pub after: Vec<String>,
    pub query: Option<String>,
}

/// Fields of a response by name, with their kinds.
pub type ResponseShape = BTreeMap<String, String>;

/// All rows and shapes of the file.
pub struct Table {
    pub rows: Vec<Row>,
    pub shapes: BTreeMap<String, ResponseShape>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    families: Vec<String>,
    places: Vec<String>,
    resources: Vec<Resource>,
    shapes: BTreeMap<String, ResponseShape>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resource {
    #[serde(rename = "name")]
    _name: String,
    read: Vec<String>,
    write: Vec<String>,
    write_level: i16,
    write_access: Option<Access>,
    rows: Vec<Line>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    at: String,
    status: u16,
    answer: String,
    #[serde(default)]
    plus: ResponseShape,
    #[serde(default)]
    empty: bool,
    body: Option<Value>,
    #[serde(default)]
    after: Vec<String>,
    query: Option<String>,
    scopes: Option<Vec<String>>,
    level: Option<i16>,
    access: Option<Access>,
}

impl Table {
    pub fn read() -> Self {
        let file: File = toml::from_str(FILE).unwrap();
        let rows = file.resources.iter().flat_map(Resource::all);
        Self {
            rows: rows
                .flat_map(|row| of_each(row, "<family>", &file.families))
                .flat_map(|row| of_each(row, "<place>", &file.places))
                .collect(),
            shapes: file.shapes,
        }
    }
}

impl Resource {
    fn all(&self) -> Vec<Row> {
        let rows = self.rows.iter().flat_map(|line| {
            let (methods, path) = line.at.rsplit_once(' ').unwrap();
            let rows = methods
                .split(' ')
                .map(|method| self.row(line, method, path));
            rows.collect::<Vec<_>>()
        });
        rows.collect()
    }

    fn row(&self, line: &Line, method: &str, path: &str) -> Row {
        let line = line.clone();
        let (scopes, level, access) = if method == "GET" {
            (&self.read, 1, Access::Members)
        } else {
            let access = self.write_access.unwrap_or(Access::Members);
            (&self.write, self.write_level, access)
        };
        Row {
            method: method.to_owned(),
            path: path.to_owned(),
            access: line.access.unwrap_or(access),
            scopes: line.scopes.unwrap_or_else(|| scopes.clone()),
            level: line.level.unwrap_or(level),
            status: line.status,
            answer: line.answer,
            plus: line.plus,
            empty: line.empty,
            body: line.body,
            after: line.after,
            query: line.query,
        }
    }
}

/// Expands a row by the names that a placeholder in its path stands for.
fn of_each(row: Row, part: &str, names: &[String]) -> Vec<Row> {
    if !row.path.contains(part) {
        return vec![row];
    }
    let rows = names.iter().map(|name| Row {
        path: row.path.replace(part, name),
        after: row
            .after
            .iter()
            .map(|call| call.replace(part, name))
            .collect(),
        ..row.clone()
    });
    rows.collect()
}

impl Row {
    /// Adds the query of a successful request to a path.
    pub fn address(&self, path: &str) -> String {
        match &self.query {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        }
    }

    /// Method and path without the names of ids, which differ in the document.
    pub fn pair(&self) -> String {
        pair(&self.method, &self.path)
    }
}

/// Method and path without the names of ids, whether these are `:name` or `{name}`.
pub fn pair(method: &str, template: &str) -> String {
    let parts = template.split('/').map(|part| {
        if part.starts_with([':', '{']) {
            "{}"
        } else {
            part
        }
    });
    let path = parts.collect::<Vec<_>>().join("/");
    format!("{} {path}", method.to_uppercase())
}
