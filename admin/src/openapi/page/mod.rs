//! `/api/docs/`: the OpenAPI document as an HTML page. It loads its style and its script, which
//! searches, from beside it; all else works without the script.
//!
//! | Module | Holds |
//! |---|---|
//! | `row` | one operation |
//! | `curl` | the command that makes a request |
//! | `fields` | fields of bodies, answers and types |
//! | `kinds` | types of fields in a few words |
//! | `types` | sections for types |
//! | `markdown` | descriptions as HTML |
//! | `lookup` | look-ups in the document |

mod curl;
mod fields;
mod kinds;
pub(super) mod lookup;
mod markdown;
mod row;
mod types;

use super::tags::shown_path;
use askama::Template;
use lookup::{entries, items, text};
use row::Row;
use serde_json::Value;
use std::collections::BTreeMap;
use types::Type;

/// Order of the methods of a path.
const METHODS: [&str; 5] = ["GET", "POST", "PATCH", "PUT", "DELETE"];

/// Addresses of the page's style and script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assets<'a> {
    pub(crate) style: &'a str,
    pub(crate) script: &'a str,
}

/// Renders the document as a page.
///
/// # Errors
///
/// The template cannot be rendered.
pub(crate) fn page(document: &Value, assets: Assets<'_>) -> Result<String, String> {
    let groups = groups(document);
    let rows = groups.iter().flat_map(|group| &group.operations);
    let fields = rows.flat_map(|row| row.body.iter().chain(&row.answer));
    let types = types::at(document, fields.filter_map(|field| field.more.clone()));
    let description = text(document, "/info/description");
    let (lead, sections) = introduction(&description);
    let page = Page {
        title: text(document, "/info/title"),
        version: text(document, "/info/version"),
        lead,
        sections,
        groups,
        types,
        assets,
    };
    page.render().map_err(|error| error.to_string())
}

#[derive(Template)]
#[template(path = "docs.html")]
struct Page<'a> {
    title: String,
    version: String,
    /// First paragraphs of the introduction, as HTML.
    lead: String,
    sections: Vec<Section>,
    groups: Vec<Group>,
    types: Vec<Type>,
    assets: Assets<'a>,
}

/// Part of the introduction below a heading.
struct Section {
    id: String,
    /// Heading as HTML.
    title: String,
    /// Text as HTML.
    text: String,
}

/// Operations of one resource.
struct Group {
    name: String,
    title: String,
    /// Description of the resource as HTML.
    about: String,
    operations: Vec<Row>,
}

/// Introduction as HTML: what is above its first heading, and a section for each heading.
fn introduction(description: &str) -> (String, Vec<Section>) {
    let mut parts = description.split("\n## ");
    let lead = markdown::blocks(parts.next().unwrap_or_default());
    let sections = parts.map(|part| {
        let (title, text) = part.split_once('\n').unwrap_or((part, ""));
        let letters = title.chars().filter(|letter| letter.is_alphanumeric());
        Section {
            id: format!("about-{}", letters.collect::<String>().to_lowercase()),
            title: markdown::inline(title),
            text: markdown::blocks(text),
        }
    });
    (lead, sections.collect())
}

/// Groups in the order of the document's tags. Operations that are the same at several paths are
/// one row.
fn groups(document: &Value) -> Vec<Group> {
    let tags = items(document, "/tags").map(|tag| Group {
        name: text(tag, "/name"),
        title: text(tag, "/x-displayName"),
        about: markdown::inline(&text(tag, "/description")),
        operations: Vec::new(),
    });
    let mut groups: Vec<Group> = tags.collect();
    let paths: BTreeMap<&String, &Value> = entries(document, "/paths").collect();
    let mut others: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for (path, methods) in &paths {
        let shown = shown_path(path);
        let is_elsewhere = shown != **path && paths.contains_key(&shown);
        for (method, operation) in methods.as_object().into_iter().flatten() {
            if is_elsewhere {
                let same = others.entry((method.clone(), shown.clone())).or_default();
                same.push((*path).clone());
                continue;
            }
            let tag = text(operation, "/tags/0");
            if let Some(group) = groups.iter_mut().find(|group| group.name == tag) {
                let row = Row::of(document, path, method, operation);
                group.operations.push(row);
            }
        }
    }
    for row in groups.iter_mut().flat_map(|group| &mut group.operations) {
        let name = (row.method.to_ascii_lowercase(), row.path.clone());
        row.others = others.remove(&name).unwrap_or_default();
    }
    for group in &mut groups {
        let order = |row: &Row| {
            let method = METHODS.iter().position(|method| *method == row.method);
            (row.path.clone(), method)
        };
        group.operations.sort_by_key(order);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_heading_of_the_introduction_is_a_section() {
        let (lead, sections) = introduction("Lead.\n\n## Ids and `@me`\n\nText.\n\n## Pages\n\nB.");
        assert_eq!(lead.trim(), "<p>Lead.</p>");
        let ids: Vec<&str> = sections.iter().map(|section| section.id.as_str()).collect();
        assert_eq!(ids, ["about-idsandme", "about-pages"]);
        assert_eq!(sections[0].title, "Ids and <code>@me</code>");
        assert_eq!(sections[1].text.trim(), "<p>B.</p>");
    }
}
