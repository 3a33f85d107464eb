//! Router: finds the operations at a path.

use crate::operation::Operation;
use http::Method;
use percent_encoding::percent_decode_str;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Operations at one path.
pub(crate) struct PathItem {
    /// Template of the path, as in the document.
    pub(crate) template: &'static str,
    /// Operations by method, in the order of the table; never empty.
    pub(crate) operations: Vec<Arc<Operation>>,
}

impl PathItem {
    /// Operation of a method at this path.
    pub(crate) fn operation(&self, method: &Method) -> Option<&Arc<Operation>> {
        let mut operations = self.operations.iter();
        operations.find(|operation| operation.method == method)
    }

    /// Methods of this path, as the `Allow` header lists them.
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

/// A path that matched, with its parameters.
pub(crate) struct RouteMatch {
    pub(crate) item: Arc<PathItem>,
    /// Parameters by their names in the template, decoded.
    pub(crate) parameters: BTreeMap<&'static str, String>,
}

/// Router over the table of operations.
pub(crate) struct Router {
    paths: matchit::Router<Arc<PathItem>>,
    items: Vec<Arc<PathItem>>,
}

impl Router {
    /// Builds the router of a table of operations; adds `PUT` beside each `PATCH` that has one.
    ///
    /// # Errors
    ///
    /// Two templates conflict, or a path has a method twice.
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

    /// Looks up a path; one slash at its end is ignored.
    pub(crate) fn find(&self, path: &str) -> Option<RouteMatch> {
        let path = path.strip_suffix('/').unwrap_or(path);
        if path.ends_with('/') {
            return None;
        }
        let matched = self.paths.at(path).ok()?;
        let names = parameter_names(matched.value.template);
        let values = matched.params.iter().map(|(_, value)| decoded(value));
        Some(RouteMatch {
            item: matched.value.clone(),
            parameters: names.zip(values).collect(),
        })
    }
}

/// Sets the operation that reads the resource of each change: the `GET` of its path, or, of an
/// action, of the resource's path that its path continues.
fn set_versions(items: &mut [PathItem]) {
    let reads = items.iter().filter_map(|item| {
        let read = item.operation(&Method::GET)?;
        (!read.is_list).then(|| (item.template, read.clone()))
    });
    let reads: HashMap<&str, Arc<Operation>> = reads.collect();
    for operation in items.iter_mut().flat_map(|item| &mut item.operations) {
        if operation.changes_one_resource() {
            let template = match operation.is_action {
                true => resource_template(operation.path),
                false => operation.path,
            };
            let version = reads.get(template).cloned();
            Arc::make_mut(operation).version = version;
        }
    }
}

/// Part of a template up to its last parameter.
fn resource_template(template: &str) -> &str {
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

/// Names of a template's parameters, in order.
pub(crate) fn parameter_names(template: &'static str) -> impl Iterator<Item = &'static str> {
    template
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

/// Percent-decodes a parameter. Invalid UTF-8 stays encoded, and so matches nothing.
fn decoded(value: &str) -> String {
    match percent_decode_str(value).decode_utf8() {
        Ok(text) => text.into_owned(),
        Err(_) => value.to_owned(),
    }
}
