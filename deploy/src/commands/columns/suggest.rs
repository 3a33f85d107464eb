//! `millrace columns suggest`: properties that would pay as columns, by a sample of events and by
//! ClickHouse's log of statements, where it keeps one.

use super::{ListFormat, print_object, quoted, table};
use crate::config::Config;
use crate::connect;
use crate::numbers::{days, project};
use crate::output;
use anyhow::bail;
use clap::Args;
use millrace_catalog::Catalog;
use millrace_clickhouse::{QueriedProperty, SampledProperty};
use millrace_organizations::{Projects, PropertyColumns};
use millrace_rows::{ProjectId, PropertyType};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Most events that are looked at.
const EVENTS_MAX: u32 = 50_000;
/// Most suggestions.
const SUGGESTIONS_MAX: usize = 20;
/// Most different texts of a dictionary that pays.
const DICTIONARY_MAX: u64 = 1_000;
/// Step in which the length of texts is suggested, and the longest.
const BYTES_STEP: u64 = 32;
const BYTES_MAX: u64 = 2_048;

/// Events and statements to look at.
#[derive(Args, Clone, Debug)]
pub struct Suggest {
    /// Project whose events are looked at; all by default
    #[arg(long, value_name = "ID", value_parser = project::<i64>)]
    project: Option<i64>,
    /// Days whose events and statements are looked at
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = days::<u32>)]
    days: u32,
    /// Format of the list
    #[command(flatten)]
    format: ListFormat,
}

/// Property that would pay as a column.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Suggestion {
    key: String,
    events: u64,
    statements: u64,
    millis: u64,
    kind: PropertyType,
    /// Length of texts to keep, in bytes.
    bytes_max: Option<u64>,
}

/// Runs the command.
///
/// # Errors
/// When there is no such project, or ClickHouse does not answer.
pub(super) async fn run(
    config: &Config,
    catalog: &Catalog,
    arguments: &Suggest,
) -> anyhow::Result<()> {
    let project_id = arguments.project.map(ProjectId);
    if let Some(id) = project_id
        && Projects::new(catalog).get(id).await?.is_none()
    {
        bail!("there is no project {id}; `millrace keys list` shows all projects");
    }
    let columns = PropertyColumns::new(catalog).list_all().await?;
    let is_seen = |team_id: Option<i64>| team_id.is_none() || team_id == arguments.project;
    let known: Vec<String> = columns
        .into_iter()
        .filter(|column| is_seen(column.team_id))
        .filter_map(|column| match column.path.0.as_slice() {
            [key] => Some(key.clone()),
            _ => None,
        })
        .collect();
    let clickhouse = connect::clickhouse(config)?;
    let sampled = clickhouse.sample_properties(project_id, arguments.days, EVENTS_MAX);
    let sampled = sampled
        .await
        .map_err(|error| connect::explain(config, error))?;
    let queried = clickhouse.queried_properties(arguments.days).await;
    let queried = queried.map_err(|error| connect::explain(config, error))?;
    let has_log = queried.is_some();
    let found = suggestions(sampled, queried.unwrap_or_default(), &known);
    if arguments.format.is_json() {
        let found: Vec<Value> = found.iter().map(object).collect();
        print_object(&json!({ "suggestions": found, "has_statement_log": has_log }));
        return Ok(());
    }
    table::print(
        [
            "PROPERTY",
            "EVENTS",
            "STATEMENTS",
            "SECONDS",
            "TYPE",
            "BYTES",
        ],
        found.iter().map(row).collect(),
        "No property of these events would pay as a column.",
    );
    if found.is_empty() {
        return Ok(());
    }
    output::print(match has_log {
        true => "\nThose that statements spend most time on come first.",
        false => {
            "\nClickHouse keeps no log of statements (system.query_log), so the most frequent come \
             first; a column pays for those that queries ask for."
        }
    });
    output::print("`millrace columns add PROPERTY --type TYPE` makes one a column.");
    Ok(())
}

fn object(suggestion: &Suggestion) -> Value {
    json!({
        "property": suggestion.key,
        "events": suggestion.events,
        "statements": suggestion.statements,
        "statement_milliseconds": suggestion.millis,
        "type": suggestion.kind.name(),
        "bytes_max": suggestion.bytes_max,
    })
}

fn row(suggestion: &Suggestion) -> [String; 6] {
    let bytes_max = suggestion.bytes_max.map(|bytes| bytes.to_string());
    [
        quoted(&suggestion.key).into_owned(),
        suggestion.events.to_string(),
        suggestion.statements.to_string(),
        format!("{:.1}", suggestion.millis as f64 / 1_000.0),
        suggestion.kind.name().to_owned(),
        bytes_max.unwrap_or_default(),
    ]
}

/// Suggests columns for properties that have none, what statements ask for most first.
fn suggestions(
    sampled: Vec<SampledProperty>,
    queried: Vec<QueriedProperty>,
    known: &[String],
) -> Vec<Suggestion> {
    let queried = queried.into_iter().map(|used| (used.key.clone(), used));
    let queried: BTreeMap<String, QueriedProperty> = queried.collect();
    let new = sampled.into_iter().filter(|it| !known.contains(&it.key));
    let mut found: Vec<Suggestion> = new
        .filter_map(|property| {
            let (kind, bytes_max) = kind_of(&property)?;
            let used = queried.get(&property.key);
            Some(Suggestion {
                events: property.events,
                statements: used.map_or(0, |used| used.statements),
                millis: used.map_or(0, |used| used.millis),
                key: property.key,
                kind,
                bytes_max,
            })
        })
        .collect();
    // Stable: of what nobody asks for, the most frequent stay first.
    found.sort_by_key(|it| std::cmp::Reverse((it.millis, it.statements)));
    found.truncate(SUGGESTIONS_MAX);
    found
}

/// Type that nine of ten values have, with the length of texts; `None` if there is none.
fn kind_of(property: &SampledProperty) -> Option<(PropertyType, Option<u64>)> {
    let is_most = |count: u64, all: u64| all > 0 && count * 10 >= all * 9;
    let of = |count: u64| is_most(count, property.events);
    if of(property.flags) {
        return Some((PropertyType::Bool, None));
    }
    if of(property.wholes) {
        return Some((PropertyType::Int64, None));
    }
    if of(property.numbers) {
        return Some((PropertyType::Float64, None));
    }
    if !of(property.texts) {
        return None;
    }
    if is_most(property.times, property.texts) {
        return Some((PropertyType::DateTime64, None));
    }
    let bytes = property.bytes.saturating_sub(2).max(1);
    let bytes_max = bytes.next_multiple_of(BYTES_STEP).min(BYTES_MAX);
    let is_few = property.variants <= DICTIONARY_MAX && property.variants * 10 <= property.events;
    let kind = match is_few {
        true => PropertyType::LowCardinality,
        false => PropertyType::String,
    };
    Some((kind, Some(bytes_max)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn property(key: &str, counts: [u64; 8]) -> SampledProperty {
        SampledProperty {
            key: key.to_owned(),
            events: counts[0],
            texts: counts[1],
            times: counts[2],
            numbers: counts[3],
            wholes: counts[4],
            flags: counts[5],
            variants: counts[6],
            bytes: counts[7],
        }
    }

    #[test]
    fn a_type_is_that_of_nine_values_in_ten() {
        use PropertyType::{Bool, DateTime64, Float64, Int64, LowCardinality, String as Text};
        let table = [
            ([100, 0, 0, 100, 100, 0, 9, 3], Some((Int64, None))),
            ([100, 5, 0, 95, 50, 0, 9, 3], Some((Float64, None))),
            ([100, 0, 0, 0, 0, 90, 2, 5], Some((Bool, None))),
            ([100, 0, 0, 0, 0, 89, 2, 5], None),
            ([100, 100, 95, 0, 0, 0, 99, 26], Some((DateTime64, None))),
            (
                [100, 100, 0, 0, 0, 0, 10, 9],
                Some((LowCardinality, Some(32))),
            ),
            ([100, 100, 0, 0, 0, 0, 11, 36], Some((Text, Some(64)))),
            (
                [100_000, 100_000, 0, 0, 0, 0, 1_001, 9_999],
                Some((Text, Some(2_048))),
            ),
            ([100, 0, 0, 0, 0, 0, 100, 900], None),
        ];
        for (counts, expected) in table {
            assert_eq!(kind_of(&property("a", counts)), expected, "{counts:?}");
        }
    }

    #[test]
    fn what_statements_spend_most_time_on_comes_first_and_columns_are_left_out() {
        let whole = |key: &str, events| property(key, [events, 0, 0, events, events, 0, 9, 3]);
        let sampled = vec![
            whole("a", 90),
            whole("b", 80),
            whole("c", 70),
            whole("d", 60),
        ];
        let used = |key: &str, millis| QueriedProperty {
            key: key.to_owned(),
            statements: 2,
            millis,
        };
        let queried = vec![used("d", 900), used("c", 1_500), used("gone", 9_000)];
        let found = suggestions(sampled.clone(), queried, &["b".to_owned()]);
        let keys: Vec<&str> = found.iter().map(|it| it.key.as_str()).collect();
        assert_eq!(keys, ["c", "d", "a"]);
        assert_eq!((found[0].statements, found[2].statements), (2, 0));
        let without = suggestions(sampled, Vec::new(), &[]);
        let keys: Vec<&str> = without.iter().map(|it| it.key.as_str()).collect();
        assert_eq!(keys, ["a", "b", "c", "d"]);
    }
}
