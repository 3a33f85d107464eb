//! Generation of the page of examples, `destinations.md`, from the fields that the catalog checks.

use millrace_catalog::DestinationType;
use millrace_exports::{DestinationSpec, FieldKind};
use serde_json::Value;
use std::fmt::Write as _;

pub const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/destinations.md");

/// Section of the page about one type.
fn section(kind: DestinationType) -> String {
    let (spec, name) = (DestinationSpec::of(kind), kind.name());
    let example = example(&name, spec);
    let mut text = format!(
        "\n## {name}\n\n{}\n\n```json\n{example}\n```\n\n",
        spec.about
    );
    text += "| Field | Value | Meaning |\n|---|---|---|\n";
    for field in spec.fields() {
        let mut value = kind_of(field.kind);
        for (is_so, word) in [(field.is_required, "required"), (field.is_secret, "secret")] {
            if is_so {
                value = format!("{value}, {word}");
            }
        }
        let default = field.default.map(Value::from);
        let default = default.filter(|default| *default != "");
        let default = default.map(|default| format!(" Default: `{default}`.").replace('"', ""));
        let (about, default) = (field.about, default.unwrap_or_default());
        writeln!(text, "| `{}` | {value} | {about}{default} |", field.name).unwrap();
    }
    text
}

/// Example of a request body, with the fields in the order of the catalog.
fn example(name: &str, spec: &DestinationSpec) -> String {
    let mut fields = Vec::new();
    for field in spec.fields().filter(|it| it.is_required || it.is_shown) {
        let value = Value::from(field.example);
        fields.push(format!("      \"{}\": {value}", field.name));
    }
    let config = match fields.is_empty() {
        true => "{}".to_owned(),
        false => format!("{{\n{}\n    }}", fields.join(",\n")),
    };
    format!(
        "{{\n  \"name\": \"To {name}\",\n  \"interval\": \"hour\",\n  \"destination\": {{\n    \
         \"type\": \"{name}\",\n    \"config\": {config}\n  }}\n}}"
    )
}

fn kind_of(kind: FieldKind) -> String {
    match kind {
        FieldKind::Integer { min, max } => format!("number from {min} to {max}"),
        FieldKind::Boolean => "true or false".to_owned(),
        FieldKind::TextList => "list of texts".to_owned(),
        FieldKind::Choice(choices) => format!("`{}`", choices.join("` or `")),
        FieldKind::Url => "URL".to_owned(),
        _ => "text".to_owned(),
    }
}

const INTRODUCTION: &str = "# Destinations of batch exports

Bodies for `POST /api/organizations/@current/batch_exports/`, one for each type of destination, and what the fields
of `destination.config` mean. The same is in the API's document (`/api/schema/`) and on its page (`/api/docs/`).

- Secret fields are stored encrypted and never answered. A change (`PATCH`) that does not name them keeps them, unless
  it leads to another host, URL or account: then they must be given again.
- Fields that belong together are refused if one is missing: 400 `required`, with the missing field in `attr`. Stored
  fields count.
- Other fields of an export, such as `model`, `hogql_query`, `start_at` and `paused`, are on the API's page.
- `POST …/batch_exports/test/` with the same `destination` tests it. For files the test writes, reads and deletes a
  small file. For tables it creates a table beside the named one, inserts and reads a row, and drops the table.

This page is generated from the fields that the server checks, by `UPDATE=1 cargo test -p millrace-admin
the_page_is_made`.
";

#[test]
fn the_page_is_made_of_the_fields() {
    let sections: String = DestinationType::all().map(section).collect();
    let made = format!("{INTRODUCTION}{sections}");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PAGE, &made).unwrap();
    }
    let page = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(page == made, "UPDATE=1 with this test makes {PAGE} anew");
}
