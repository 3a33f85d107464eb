//! `millrace import reconcile`: compares accepted events with stored ones.

use super::options::{Common, Sources, TargetArguments};
use super::rejects_file::resend_command;
use crate::commands::{Invocation, table};
use crate::config::Config;
use crate::numbers::{project, seconds};
use crate::{connect, output};
use anyhow::{Context, bail};
use clap::Args;
use millrace_catalog::ProjectKeys;
use millrace_clickhouse::Settings;
use millrace_import::check::Findings;
use millrace_import::clickhouse::ClickHouse;
use millrace_import::count::counted;
use millrace_import::event_counts::{EventCounts, day_text};
use millrace_import::journal::{Journal, Progress};
use millrace_import::reconcile::{Difference, Reconciliation, StoredEvents};
use millrace_import::send::server_url;
use millrace_import::staging::LoadFolder;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// Most differences that are listed.
const ROWS_MAX: usize = 50;

/// Arguments of `reconcile`.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    target: TargetArguments,
    /// Id of the project in ClickHouse; by default that of the key
    #[arg(long, alias = "team-id", value_name = "N", value_parser = project::<i64>)]
    project_id: Option<i64>,
    /// Seconds to wait until ClickHouse has all events
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = seconds::<u64>)]
    wait: u64,
    /// Allow the project to have more events than this import brought, as after another import
    #[arg(long)]
    allow_more: bool,
}

pub(super) fn run(
    config: &Config,
    arguments: &Arguments,
    invocation: &Invocation,
) -> anyhow::Result<()> {
    let staging = arguments.common.existing()?;
    let (_, project_key) = arguments.target.resolve(config)?;
    let journal = staging.load(&project_key).journal();
    let progress = Journal::read(&journal)?;
    let Some(header) = &progress.header else {
        bail!(
            "nothing was loaded into this project from {}; first run:\n  {}",
            staging.path().display(),
            invocation.command("import load", &["json"])
        );
    };
    if let Some(url) = &arguments.target.url
        && server_url(url)? != server_url(&header.url)?
    {
        bail!(
            "--url is {url}, and this import went to {}; omit --url, or name that",
            header.url
        );
    }
    let project_id = project_id(config, arguments, &project_key)?;
    let mut found = compare(config, progress, project_id, arguments.wait)?;
    if found.has_missing()
        && let Ok(files) = arguments.sources.files(&staging, invocation)
    {
        found.leave_out_duplicates(&files, &arguments.sources.plan()?)?;
    }
    if arguments.allow_more {
        found.leave_out_surplus();
    }
    let checked = checked(&staging.file("check.json"));
    if arguments.common.json {
        print_json_summary(&found, checked.as_ref());
    } else {
        print_summary(&found, checked.as_ref());
    }
    exit_result(&found, invocation, || {
        resume_command(&staging.load(&project_key), invocation)
    })
}

/// Compares the import with what is stored, for so many seconds until nothing is missing.
fn compare(
    config: &Config,
    progress: Progress,
    project_id: i64,
    wait_seconds: u64,
) -> anyhow::Result<Reconciliation> {
    let settings = connect::clickhouse_settings(config)?;
    let clickhouse = import_client(&settings)?;
    connect::block_on(async {
        // First by the client whose errors come with advice.
        let answers = connect::clickhouse(config)?.ping().await;
        answers.map_err(|error| connect::explain(config, error))?;
        let events = StoredEvents {
            clickhouse: &clickhouse,
            database: &settings.database,
            project_id,
        };
        Reconciliation::compare(progress, events, Duration::from_secs(wait_seconds)).await
    })
}

/// Client of ClickHouse for an import's queries.
fn import_client(settings: &Settings) -> anyhow::Result<ClickHouse> {
    let Settings {
        url,
        user,
        password,
        ..
    } = settings;
    match &settings.tls {
        Some(tls) => ClickHouse::with_tls(url, user, password, tls.config()),
        None => ClickHouse::new(url, user, password),
    }
}

/// Command that resumes an import that did not end.
fn resume_command(folder: &LoadFolder, invocation: &Invocation) -> String {
    let resending = folder.resending();
    if resending.exists() {
        let rejects = folder.rejects();
        return resend_command(invocation, &rejects);
    }
    invocation.command("import load", &["json"])
}

fn exit_result(
    found: &Reconciliation,
    invocation: &Invocation,
    resume_command: impl Fn() -> String,
) -> anyhow::Result<()> {
    let unfinished = found.unfinished_files();
    if unfinished > 0 {
        bail!(
            "{} not loaded to the end; go on with:\n  {}",
            counted(unfinished as u64, "file"),
            resume_command()
        );
    }
    if found.differences.is_empty() {
        return Ok(());
    }
    let mut told = differing_counts(found.differences.len());
    if found.has_missing() {
        told += "; those stored less are missing";
    }
    if found.has_surplus() {
        told += &format!(
            "; those stored more came from elsewhere. If the project has other events as well, ignore them with:\n  {} --allow-more",
            invocation.command("import reconcile", &["json"])
        );
    }
    bail!(told)
}

/// Message on the number of counts that differ.
pub(super) fn differing_counts(count: usize) -> String {
    match count {
        1 => "1 count of a day and an event differs".to_owned(),
        _ => format!(
            "{} of a day and an event differ",
            counted(count as u64, "count")
        ),
    }
}

/// Counts of the last dry run in the staging folder.
fn checked(path: &Path) -> Option<EventCounts> {
    let text = std::fs::read_to_string(path).ok()?;
    let findings: Findings = serde_json::from_str(&text).ok()?;
    Some(findings.events)
}

/// Id of the project in ClickHouse, by default that of the key.
fn project_id(config: &Config, arguments: &Arguments, project_key: &str) -> anyhow::Result<i64> {
    if let Some(project_id) = arguments.project_id {
        return Ok(project_id);
    }
    let found = connect::with_catalog(config, async |catalog| {
        Ok(ProjectKeys::new(catalog).find(project_key).await?)
    });
    let found = found.context("pass the project's id by --project-id")?;
    found.map(|project| project.project_id.0).with_context(|| {
        format!("no project has the key {project_key}; pass its id by --project-id")
    })
}

fn print_json_summary(found: &Reconciliation, checked: Option<&EventCounts>) {
    let sum = &found.progress.sum;
    let result = json!({
        "source": sum.made.total(), "checked": checked.map(EventCounts::total), "accepted": sum.accepted.total(),
        "generated": sum.generated.total(), "stored": found.stored.merged.total(),
        "rows": found.stored.rows, "doubles_of_the_source": found.duplicates,
        "unfinished_files": found.unfinished_files(), "differences": found.differences,
    });
    output::print_json(&json!({ "stage": "reconcile", "result": result }).to_string());
}

fn print_summary(found: &Reconciliation, checked: Option<&EventCounts>) {
    print_totals(found, checked);
    let stored = found.stored.merged.total();
    if found.stored.rows > stored {
        output::print(&format!(
            "ClickHouse has {} beyond these, of events that were sent again; it merges them gradually, and queries with \
             FINAL omit them already.",
            counted(found.stored.rows - stored, "row")
        ));
    }
    if found.duplicates > 0 {
        output::print(&format!(
            "In the source twice or more under the same id, and stored once: {}.",
            counted(found.duplicates, "event")
        ));
    }
    print_differences(&found.differences);
}

fn print_totals(found: &Reconciliation, checked: Option<&EventCounts>) {
    let sum = &found.progress.sum;
    let rejected: u64 = sum.rejected.values().sum();
    output::print(&format!(
        "Source            {}{}\nAccepted          {}{}\nRejected          {}\nStored            {}",
        counted(sum.made.total(), "event"),
        match checked.map(EventCounts::total) {
            Some(count) if count != sum.made.total() => format!(
                ", where the last `import check` here counted {count}: other files, a part of them, another mapping, or before corrections"
            ),
            _ => String::new(),
        },
        sum.accepted.total(),
        match sum.generated.total() {
            0 => String::new(),
            count => format!(", and up to {count} that the mapping created from them"),
        },
        counted(rejected, "record"),
        found.stored.merged.total(),
    ));
}

fn print_differences(differences: &[Difference]) {
    let rows = differences.iter().take(ROWS_MAX).map(|it| {
        [
            day_text(it.day),
            it.event.clone(),
            it.source.to_string(),
            it.accepted.to_string(),
            it.stored.to_string(),
        ]
    });
    output::print("");
    table::print(
        ["DAY", "EVENT", "SOURCE", "ACCEPTED", "STORED"],
        rows.collect(),
        "Every day and event is stored as it was accepted.",
    );
    if differences.len() > ROWS_MAX {
        let more = (differences.len() - ROWS_MAX) as u64;
        output::print(&format!("and {more} more"));
    }
}
