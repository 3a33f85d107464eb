//! `millrace query`: runs SQL over the rows of one project, with the rights of its user.

mod progress;
mod table;

use crate::config::Config;
use crate::connect;
use crate::numbers::project;
use crate::output;
use crate::project_access::{ProjectAccess, check_supported};
use crate::project_queries::{DURATION_MAX, HELD_BYTES};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use millrace_clickhouse::{ProjectAnswer, ProjectStatement, QueryError};
use millrace_organizations::Projects;
use millrace_rows::shown_lines;
use progress::Progress;
use std::io::IsTerminal;
use table::RowTable;
use uuid::Uuid;

/// Arguments of `millrace query`.
#[derive(Args, Clone, Debug)]
pub struct Query {
    /// One SELECT in ClickHouse's SQL, without FORMAT
    ///
    /// The tables are events, persons, person_distinct_ids, groups, rejected_events, and the views
    /// persons_current and events_with_persons.
    #[arg(value_name = "SQL")]
    sql: String,
    /// Project whose rows are read; may be omitted if there is only one
    #[arg(long, value_name = "ID", value_parser = project::<i64>)]
    project: Option<i64>,
    /// Format of the answer
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// Format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Columns side by side, a line for each row, for people and pagers
    Table,
    /// One JSON object
    Json,
    /// A line of JSON for each row
    Ndjson,
    /// CSV with the names of the columns
    Csv,
    /// Parquet
    Parquet,
    /// Stream of Arrow
    Arrow,
}

impl Format {
    const fn clickhouse_name(self) -> &'static str {
        match self {
            Self::Table => "JSONCompactStringsEachRowWithNames",
            Self::Json => "JSON",
            Self::Ndjson => "JSONEachRow",
            Self::Csv => "CSVWithNames",
            Self::Parquet => "Parquet",
            Self::Arrow => "ArrowStream",
        }
    }

    const fn is_binary(self) -> bool {
        matches!(self, Self::Parquet | Self::Arrow)
    }
}

/// Runs the command.
///
/// # Errors
/// When there is no such project, or ClickHouse refuses the query.
pub fn run(config: &Config, query: &Query) -> anyhow::Result<()> {
    let is_terminal = std::io::stdout().is_terminal();
    if is_terminal && query.format.is_binary() {
        bail!("Parquet and Arrow are not for terminals; redirect the output to a file");
    }
    check_supported(config)?;
    connect::block_on(async {
        let project_id = project_of(config, query.project).await?;
        let settings = connect::clickhouse_settings(config)?;
        let access = ProjectAccess::connect(config, settings).await;
        let access = access.map_err(|error| connect::explain(config, error))?;
        let query_id = format!("project_{project_id}_{}", Uuid::new_v4());
        let statement = ProjectStatement {
            sql: &query.sql,
            format: query.format.clickhouse_name(),
            query_id: &query_id,
            held_bytes: HELD_BYTES,
            duration_max: DURATION_MAX,
        };
        let progress = Progress::begin();
        let begun = access.run(project_id, &statement);
        let rows = progress.beside(access.clickhouse(), &query_id, begun).await;
        let rows = rows.map_err(|error| refused(config, error))?;
        if rows.format() != statement.format {
            bail!("omit FORMAT in the query; --format names the format");
        }
        let summary = rows.summary().map(str::to_owned);
        write(config, rows, query.format, is_terminal).await?;
        progress.end(summary.as_deref());
        Ok(())
    })
}

/// The project that was named, or the only one.
async fn project_of(config: &Config, named: Option<i64>) -> anyhow::Result<i64> {
    let catalog = connect::catalog(config).await?;
    let projects = Projects::new(&catalog).list_all(None).await;
    catalog.close().await?;
    let ids: Vec<i64> = projects?.iter().map(|project| project.id).collect();
    match (named, ids.as_slice()) {
        (Some(id), ids) if ids.contains(&id) => Ok(id),
        (Some(id), _) => bail!("there is no project {id}; `millrace keys list` shows all projects"),
        (None, [only]) => Ok(*only),
        (None, _) => bail!("name the project with --project; `millrace keys list` shows all"),
    }
}

fn refused(config: &Config, error: QueryError) -> anyhow::Error {
    let Some(code) = error.code else {
        return connect::explain(config, error);
    };
    let name = error.name().unwrap_or("error");
    anyhow::anyhow!("ClickHouse {code} ({name}): {}", error.reason())
}

/// Writes the answer to standard output, as it comes.
async fn write(
    config: &Config,
    mut rows: ProjectAnswer,
    format: Format,
    is_terminal: bool,
) -> anyhow::Result<()> {
    let mut table = RowTable::default();
    let mut lines = Vec::new();
    while let Some(piece) = rows.next().await.map_err(|error| refused(config, error))? {
        if format != Format::Table && !is_terminal {
            if !output::write(&piece) {
                // A pager that was left, or the end tells the reason.
                return Ok(());
            }
            continue;
        }
        lines.extend_from_slice(&piece);
        let end = lines.iter().rposition(|byte| *byte == b'\n');
        let rest = lines.split_off(end.map_or(0, |end| end + 1));
        take(&mut table, format, &std::mem::replace(&mut lines, rest))?;
    }
    take(&mut table, format, &lines)?;
    if format == Format::Table {
        table.print();
    }
    Ok(())
}

/// Takes whole lines: into the table, or to the terminal without control characters.
fn take(table: &mut RowTable, format: Format, lines: &[u8]) -> anyhow::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    if format == Format::Table {
        return table
            .take(lines)
            .context("ClickHouse's rows cannot be read");
    }
    let text = String::from_utf8_lossy(lines);
    output::print(shown_lines(&text).trim_end_matches('\n'));
    Ok(())
}
