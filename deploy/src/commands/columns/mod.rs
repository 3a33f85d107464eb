//! `millrace columns`: lists the properties that are columns of `events`, adds some, removes some,
//! and suggests some.

mod suggest;

use super::list_format::{ListFormat, print_object};
use super::{quoted, table};
use crate::config::Config;
use crate::connect;
use crate::numbers::{count, project};
use crate::output;
use anyhow::{Context, bail};
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use millrace_catalog::{Actor, Catalog, PropertyColumnRecord, PropertyColumnType, UtcTime};
use millrace_organizations::{NewPropertyColumn, Projects, PropertyColumns};
use millrace_rows::{ProjectId, PropertyColumn, PropertyType, shown};
use serde_json::{Value, json};

/// Subcommand of `millrace columns`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// List the properties that are columns of `events`
    List(ListFormat),
    /// Make a property a column of `events`, for one project or for all
    ///
    /// A running server makes the column within seconds, and fills it for past events one month
    /// after the other.
    Add(Add),
    /// Remove a column from `events`; the property stays in `properties`
    Remove {
        /// Name of the column, as `millrace columns list` shows it
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Suggest properties that would pay as columns, by recent events and statements
    Suggest(suggest::Suggest),
}

/// Column to add.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("owner").required(true).args(["project", "all_projects"])))]
pub struct Add {
    /// Keys that lead to the property: `plan`, or `cart total` for total in cart
    #[arg(required = true, value_name = "KEY")]
    path: Vec<String>,
    /// Type of the column
    #[arg(
        long = "type",
        value_name = "TYPE",
        value_enum,
        ignore_case = true,
        default_value_t = Type::String
    )]
    kind: Type,
    /// Longest text that is kept, in bytes, of String and LowCardinality; 256 by default
    #[arg(long, value_name = "N", value_parser = count::<i32>)]
    bytes_max: Option<i32>,
    /// Project whose events have values
    #[arg(long, value_name = "ID", value_parser = project::<i64>)]
    project: Option<i64>,
    /// Give events of all projects values
    #[arg(long)]
    all_projects: bool,
}

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Type {
    /// Texts
    #[value(name = "String")]
    String,
    /// Texts that are few
    #[value(name = "LowCardinality")]
    LowCardinality,
    /// Whole numbers
    #[value(name = "Int64")]
    Int64,
    /// Numbers
    #[value(name = "Float64")]
    Float64,
    /// true and false
    #[value(name = "Bool")]
    Bool,
    /// Times as texts, as in 2027-01-31T00:00:00Z
    #[value(name = "DateTime64")]
    DateTime64,
}

impl From<Type> for PropertyColumnType {
    fn from(kind: Type) -> Self {
        match kind {
            Type::String => Self::String,
            Type::LowCardinality => Self::LowCardinality,
            Type::Int64 => Self::Int64,
            Type::Float64 => Self::Float64,
            Type::Bool => Self::Bool,
            Type::DateTime64 => Self::DateTime64,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// When the catalog cannot be opened or refuses.
pub fn run(config: &Config, command: &Command) -> anyhow::Result<()> {
    connect::with_catalog(config, async |catalog| match command {
        Command::List(format) => list(catalog, *format).await,
        Command::Add(arguments) => add(catalog, arguments).await,
        Command::Remove { name } => remove(catalog, name).await,
        Command::Suggest(arguments) => suggest::run(config, catalog, arguments).await,
    })
}

async fn list(catalog: &Catalog, format: ListFormat) -> anyhow::Result<()> {
    let columns = PropertyColumns::new(catalog).list_all().await?;
    if format.is_json() {
        let columns: Vec<Value> = columns.iter().map(object).collect();
        print_object(&json!({ "columns": columns }));
        return Ok(());
    }
    table::print(
        ["NAME", "PROJECT", "PROPERTY", "TYPE", "BYTES", "SINCE"],
        columns.iter().map(row).collect(),
        "No property is a column of events.",
    );
    Ok(())
}

fn object(column: &PropertyColumnRecord) -> Value {
    json!({
        "name": PropertyColumn::from(column).name(),
        "project_id": column.team_id,
        "path": column.path.0,
        "type": PropertyType::from(column.kind).name(),
        "bytes_max": column.bytes_max,
        "added_at": column.added_at.map(|at| at.to_string()),
    })
}

fn row(column: &PropertyColumnRecord) -> [String; 6] {
    let bytes = column.bytes_max.map(|bytes| bytes.to_string());
    [
        PropertyColumn::from(column).name(),
        column.team_id.map_or("all".to_owned(), |id| id.to_string()),
        path_of(column),
        PropertyType::from(column.kind).name().to_owned(),
        bytes.unwrap_or_default(),
        column
            .added_at
            .map_or_else(|| "(pending)".to_owned(), UtcTime::day),
    ]
}

/// Path of a property, as `add` takes it.
fn path_of(column: &PropertyColumnRecord) -> String {
    let keys = column.path.0.iter().map(|key| quoted(key).into_owned());
    keys.collect::<Vec<_>>().join(" ")
}

async fn add(catalog: &Catalog, arguments: &Add) -> anyhow::Result<()> {
    let project_id = arguments.project.map(ProjectId);
    if let Some(id) = project_id
        && Projects::new(catalog).get(id).await?.is_none()
    {
        bail!("there is no project {id}; `millrace keys list` shows all projects");
    }
    let new = NewPropertyColumn {
        path: arguments.path.clone(),
        kind: arguments.kind.into(),
        bytes_max: arguments.bytes_max,
    };
    let added = PropertyColumns::new(catalog)
        .add_as_operator(&Actor::command_line(), project_id, new)
        .await?;
    output::print(&format!(
        "{} is to hold {} of the events of {}; a running server makes it.",
        PropertyColumn::from(&added).name(),
        shown(&path_of(&added)),
        project_id.map_or("all projects".to_owned(), |id| format!("project {id}")),
    ));
    Ok(())
}

async fn remove(catalog: &Catalog, name: &str) -> anyhow::Result<()> {
    let number = PropertyColumn::number_of(name).with_context(|| {
        format!("{name:?} is no property column; `millrace columns list` shows their names")
    })?;
    let removed = PropertyColumns::new(catalog)
        .remove_as_operator(&Actor::command_line(), number)
        .await?;
    output::print(&format!(
        "{name}, which held {}, is removed; a running server takes it out of events.",
        shown(&path_of(&removed)),
    ));
    Ok(())
}
