//! Columns of a row, by form.

use super::RowForm;
use crate::error::ExportError;

/// Columns that all forms are built from.
pub(super) const STORED: &str =
    "uuid, event, distinct_id, properties, timestamp, created_at, team_id, historical_migration";

/// The stored columns as customers' queries see them. Names of events are cast to texts, as a
/// function of a `LowCardinality` column is executed on the names of all projects' events, and its
/// errors tell them.
pub(super) fn visible() -> String {
    STORED.replace(" event,", " CAST(event, 'String') AS event,")
}

/// Columns of events in a form, and ClickHouse's name of the format.
pub(super) fn of_events(form: RowForm) -> (String, &'static str) {
    match form {
        RowForm::JsonLines => (object(&event_fields()), "TSVRaw"),
        RowForm::TableJsonLines => (object(&table_fields()), "TSVRaw"),
        RowForm::Csv => (STORED.to_owned(), "CSVWithNames"),
        RowForm::Parquet(_) => (plain_types(), "Parquet"),
        RowForm::Arrow(_) => (plain_types(), "ArrowStream"),
    }
}

/// Columns of persons in a form, and ClickHouse's name of the format.
pub(super) fn of_persons(form: RowForm) -> Result<(String, &'static str), ExportError> {
    let stored = "team_id, distinct_id, toString(person_id) AS person_id, properties, \
                  is_identified, created_at, person_distinct_id_version, person_version";
    let number = |name| (name, format!("toString({name})"));
    let is_identified = "if(is_identified, 'true', 'false')".to_owned();
    let fields = [
        number("team_id"),
        ("distinct_id", text("distinct_id")),
        ("person_id", text("person_id")),
        ("properties", properties()),
        ("is_identified", is_identified),
        ("created_at", time("created_at")),
        number("person_distinct_id_version"),
        number("person_version"),
    ];
    if form == RowForm::TableJsonLines {
        let [
            project,
            id,
            person,
            properties,
            _,
            made,
            id_version,
            version,
        ] = fields;
        let fields = [project, id, person, properties, id_version, version, made];
        return Ok((object(&fields), "TSVRaw"));
    }
    of_others(form, stored, &fields)
}

/// Columns of groups in a form, and ClickHouse's name of the format.
pub(super) fn of_groups(form: RowForm) -> Result<(String, &'static str), ExportError> {
    let stored = "team_id, group_type, group_key, properties, created_at, version";
    let fields = [
        ("team_id", "toString(team_id)".to_owned()),
        ("group_type", text("group_type")),
        ("group_key", text("group_key")),
        ("properties", properties()),
        ("created_at", time("created_at")),
        ("version", "toString(version)".to_owned()),
    ];
    of_others(form, stored, &fields)
}

fn of_others(
    form: RowForm,
    stored: &str,
    fields: &[(&str, String)],
) -> Result<(String, &'static str), ExportError> {
    Ok(match form {
        RowForm::JsonLines => (object(fields), "TSVRaw"),
        RowForm::TableJsonLines => {
            return Err(ExportError::permanent(
                "Tables accept events and persons only: export groups to files.",
            ));
        }
        RowForm::Csv => (stored.to_owned(), "CSVWithNames"),
        RowForm::Parquet(_) => (stored.to_owned(), "Parquet"),
        RowForm::Arrow(_) => (stored.to_owned(), "ArrowStream"),
    })
}

/// ClickHouse's name of the format for a query's columns.
pub(super) const fn format_of_query(form: RowForm) -> &'static str {
    match form {
        RowForm::JsonLines | RowForm::TableJsonLines => "JSONEachRow",
        RowForm::Csv => "CSVWithNames",
        RowForm::Parquet(_) => "Parquet",
        RowForm::Arrow(_) => "ArrowStream",
    }
}

/// Columns with ids and names as texts: readers of files know few types.
fn plain_types() -> String {
    STORED.replace(
        "uuid, event,",
        "toString(uuid) AS uuid, CAST(event, 'String') AS event,",
    )
}

fn event_fields() -> [(&'static str, String); 8] {
    [
        ("uuid", text("uuid")),
        ("event", text("event")),
        ("distinct_id", text("distinct_id")),
        ("properties", properties()),
        ("timestamp", time("timestamp")),
        ("created_at", time("created_at")),
        ("team_id", "toString(team_id)".to_owned()),
        (
            "historical_migration",
            "if(historical_migration, 'true', 'false')".to_owned(),
        ),
    ]
}

fn table_fields() -> [(&'static str, String); 11] {
    [
        ("uuid", text("uuid")),
        ("event", text("event")),
        ("properties", properties()),
        ("elements", part("$elements")),
        ("set", part("$set")),
        ("set_once", part("$set_once")),
        ("distinct_id", text("distinct_id")),
        ("team_id", "toString(team_id)".to_owned()),
        ("ip", ip()),
        ("site_url", "'null'".to_owned()),
        ("timestamp", time("timestamp")),
    ]
}

/// JSON object of fields whose values are JSON texts.
///
/// ClickHouse would rewrite the JSON of properties, with other numbers and escapes; concatenated
/// and written raw, it is passed on as it was sent.
fn object(fields: &[(&str, String)]) -> String {
    let mut arguments = Vec::with_capacity(fields.len() * 2 + 1);
    for (index, (key, value)) in fields.iter().enumerate() {
        let before = if index == 0 { '{' } else { ',' };
        arguments.push(format!("'{before}\"{key}\":'"));
        arguments.push(value.clone());
    }
    arguments.push("'}'".to_owned());
    format!("concat({})", arguments.join(", "))
}

fn text(column: &str) -> String {
    format!("toJSONString(toString({column}))")
}

fn time(column: &str) -> String {
    format!("formatDateTime({column}, '\"%Y-%m-%dT%H:%i:%S.%fZ\"', 'UTC')")
}

/// Replaces line ends in JSON by spaces. Within JSON strings line ends are escaped, so the others
/// stand between tokens.
fn on_one_line(json: &str) -> String {
    format!("replaceAll(replaceAll({json}, '\\n', ' '), '\\r', ' ')")
}

fn properties() -> String {
    format!(
        "if(empty(properties), '{{}}', {})",
        on_one_line("properties")
    )
}

/// One value of the properties, as it was sent, or `null`.
///
/// ClickHouse does not parse JSON with half of a surrogate pair; then the first text that looks
/// like the key is taken. Nothing is parsed where there is no such text at all.
fn part(key: &str) -> String {
    let strict = format!("JSONExtractRaw(properties, '{key}')");
    let lenient =
        format!("if(isValidJSON(properties), '', simpleJSONExtractRaw(properties, '{key}'))");
    let either = format!("if(notEmpty({strict}), {strict}, {lenient})");
    let found = format!("if(position(properties, '\"{key}\"') = 0, '', {either})");
    format!(
        "if(empty({found} AS part_of_{name}), 'null', {line})",
        name = key.trim_start_matches('$'),
        line = on_one_line(&format!("part_of_{}", key.trim_start_matches('$')))
    )
}

fn ip() -> String {
    let found = "if(position(properties, '\"$ip\"') = 0, '', JSONExtractString(properties, '$ip'))";
    format!("if(empty({found} AS ip_found), 'null', toJSONString(ip_found))")
}
