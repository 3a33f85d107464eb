//! From a path to the operations on it.

use crate::operation::Operation;
use http::Method;
use percent_encoding::percent_decode_str;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Everything that can be done at one path.
pub(crate) struct PathItem {
    /// The template, as in the document.
    pub(crate) template: &'static str,
    /// By method, in the order of the table; never empty.
    pub(crate) operations: Vec<Arc<Operation>>,
}

impl PathItem {
    /// What a method does here.
    pub(crate) fn operation(&self, method: &Method) -> Option<&Arc<Operation>> {
        let mut operations = self.operations.iter();
        operations.find(|operation| operation.method == method)
    }

    /// The methods, for `Allow`.
    pub(crate) fn allow(&self) -> String {
        let mut methods = Vec::new();
        for operation in &self.operations {
            methods.push(operation.method.as_str());
            if operation.method == Method::GET {
                methods.push("HEAD");
            }
        }
        methods.join(", ")
    }
}

/// A path that exists.
pub(crate) struct Found {
    pub(crate) item: Arc<PathItem>,
    /// By their names in the template, decoded.
    pub(crate) parameters: BTreeMap<&'static str, String>,
}

/// All paths.
pub(crate) struct Router {
    paths: matchit::Router<Arc<PathItem>>,
    items: Vec<Arc<PathItem>>,
}

impl Router {
    /// Over a table of operations; `PUT` is put beside `PATCH`.
    ///
    /// # Errors
    ///
    /// A template that cannot be told from another, or one method twice.
    pub(crate) fn new(operations: Vec<Operation>) -> Result<Self, String> {
        let mut items: Vec<PathItem> = Vec::new();
        for operation in operations {
            let put = operation.put();
            for operation in [Some(operation), put].into_iter().flatten() {
                add(&mut items, operation)?;
            }
        }
        set_versions(&mut items);
        let items: Vec<Arc<PathItem>> = items.into_iter().map(Arc::new).collect();
        let mut paths = matchit::Router::new();
        for item in &items {
            let template = item.template.trim_end_matches('/');
            let inserted = paths.insert(template, item.clone());
            inserted.map_err(|error| format!("{template}: {error}"))?;
        }
        Ok(Self { paths, items })
    }

    /// All paths, in the order of the table.
    pub(crate) fn items(&self) -> &[Arc<PathItem>] {
        &self.items
    }

    /// Looks a path up; one slash at its end is ignored.
    pub(crate) fn find(&self, path: &str) -> Option<Found> {
        let path = path.strip_suffix('/').unwrap_or(path);
        if path.ends_with('/') {
            return None;
        }
        let matched = self.paths.at(path).ok()?;
        let names = parameter_names(matched.value.template);
        let values = matched.params.iter().map(|(_, value)| decoded(value));
        Some(Found {
            item: matched.value.clone(),
            parameters: names.zip(values).collect(),
        })
    }
}

/// Tells each change how its thing is read: by the `GET` of its path, or of the path that an
/// action hangs on.
fn set_versions(items: &mut [PathItem]) {
    let reads = items.iter().filter_map(|item| {
        let read = item.operation(&Method::GET)?;
        (!read.is_list).then(|| (item.template, read.clone()))
    });
    let reads: HashMap<&str, Arc<Operation>> = reads.collect();
    for operation in items.iter_mut().flat_map(|item| &mut item.operations) {
        if operation.changes_one_thing() {
            let version = reads.get(thing_of(operation.path)).cloned();
            Arc::make_mut(operation).version = version;
        }
    }
}

/// The template up to its last parameter.
fn thing_of(template: &str) -> &str {
    match template.rsplit_once("}/") {
        Some((thing, _)) => template.get(..thing.len() + 2).unwrap_or(template),
        None => template,
    }
}

fn add(items: &mut Vec<PathItem>, operation: Operation) -> Result<(), String> {
    let item = items
        .iter_mut()
        .find(|item| item.template == operation.path);
    match item {
        Some(item) if item.operation(&operation.method).is_some() => {
            return Err(format!("{} {} twice", operation.method, operation.path));
        }
        Some(item) => item.operations.push(Arc::new(operation)),
        None => items.push(PathItem {
            template: operation.path,
            operations: vec![Arc::new(operation)],
        }),
    }
    Ok(())
}

/// The names of a template's parameters, in order.
pub(crate) fn parameter_names(template: &'static str) -> impl Iterator<Item = &'static str> {
    template
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// What is no UTF-8 stays encoded, and so matches nothing.
fn decoded(value: &str) -> String {
    match percent_decode_str(value).decode_utf8() {
        Ok(text) => text.into_owned(),
        Err(_) => value.to_owned(),
    }
}
