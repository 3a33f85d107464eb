//! `millrace import reconcile`: compares accepted events with stored ones. `millrace import
//! report`: compares imports with each other.

use super::rejects::resend_command;
use super::{Common, Sources, TargetArguments};
use crate::commands::{Invocation, table};
use crate::config::Config;
use crate::connect;
use anyhow::{Context, bail};
use clap::Args;
use millrace_clickhouse::Settings;
use millrace_import::check::Findings;
use millrace_import::clickhouse::{ClickHouse, Stored};
use millrace_import::count::counted;
use millrace_import::event_counts::{EventCounts, day_text};
use millrace_import::journal::{Journal, Progress};
use millrace_import::reconcile::{Difference, differences, without_duplicates};
use millrace_import::send::server_url;
use millrace_import::staging::LoadFolder;
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

/// Most differences that are listed.
const ROWS_MAX: usize = 50;
const ASK_EVERY: Duration = Duration::from_secs(1);

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
    #[arg(long, value_name = "N")]
    team_id: Option<i64>,
    /// Seconds to wait until ClickHouse has all events
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
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
            "--url is {url}, and this import went to {}; leave --url out, or name that",
            header.url
        );
    }
    let team_id = team_id(config, arguments, &project_key)?;
    let settings = connect::clickhouse_settings(config)?;
    let clickhouse = import_client(&settings)?;
    let (stored, mut found) = connect::block_on(async {
        // First by the client whose errors come with advice.
        let answers = connect::clickhouse(config)?.ping().await;
        answers.map_err(|error| connect::explain(config, error))?;
        let deadline = Instant::now() + Duration::from_secs(arguments.wait);
        loop {
            let stored = clickhouse.stored(&settings.database, team_id).await?;
            let found = differences(&progress.sum, &stored.merged);
            if !found.iter().any(Difference::is_missing) || Instant::now() >= deadline {
                return Ok((stored, found));
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    })?;
    let mut duplicates = 0;
    if found.iter().any(Difference::is_missing)
        && let Ok(files) = arguments.sources.files(&staging, invocation)
    {
        duplicates = without_duplicates(&mut found, &files, &arguments.sources.plan()?)?;
    }
    if arguments.allow_more {
        found.retain(Difference::is_missing);
    }
    let checked = checked(&staging.file("check.json"));
    let unfinished = progress.files.values().filter(|file| !file.is_end).count();
    if arguments.common.json {
        let result = json!({
            "source": progress.sum.made.total(), "checked": checked.as_ref().map(EventCounts::total), "accepted": progress.sum.accepted.total(),
            "generated": progress.sum.generated.total(), "stored": stored.merged.total(),
            "rows": stored.rows, "doubles_of_the_source": duplicates, "unfinished_files": unfinished,
            "differences": found,
        });
        crate::print_json(&json!({ "stage": "reconcile", "result": result }).to_string());
    } else {
        print_summary(&progress, checked.as_ref(), &stored, duplicates, &found);
    }
    exit_result(unfinished, &found, invocation, || {
        resume_command(&staging.load(&project_key), invocation)
    })
}

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
    unfinished: usize,
    found: &[Difference],
    invocation: &Invocation,
    resume_command: impl Fn() -> String,
) -> anyhow::Result<()> {
    if unfinished > 0 {
        bail!(
            "{} not loaded to the end; go on with:\n  {}",
            counted(unfinished as u64, "file"),
            resume_command()
        );
    }
    if !found.is_empty() {
        let mut told = differing_counts(found.len());
        if found.iter().any(Difference::is_missing) {
            told += "; those stored less are missing";
        }
        if !found.iter().all(Difference::is_missing) {
            told += &format!(
                "; those stored more came from elsewhere. If the project is to have others, too, leave them out with:\n  {} \
                 --allow-more",
                invocation.command("import reconcile", &["json"])
            );
        }
        bail!(told);
    }
    Ok(())
}

/// Message on the number of counts that differ.
fn differing_counts(count: usize) -> String {
    match count {
        1 => "1 count of a day and an event differs".to_owned(),
        _ => format!(
            "{} of a day and an event differ",
            counted(count as u64, "count")
        ),
    }
}

fn checked(path: &Path) -> Option<EventCounts> {
    let text = std::fs::read_to_string(path).ok()?;
    let findings: Findings = serde_json::from_str(&text).ok()?;
    Some(findings.events)
}

fn team_id(config: &Config, arguments: &Arguments, project_key: &str) -> anyhow::Result<i64> {
    if let Some(team_id) = arguments.team_id {
        return Ok(team_id);
    }
    let found = connect::with_catalog(config, async |catalog| {
        Ok(catalog.project_by_key(project_key).await?)
    });
    let found = found.context("say the project's number with --team-id")?;
    found.map(|project| project.team_id.0).with_context(|| {
        format!("no project has the key {project_key}; say its number with --team-id")
    })
}

fn print_summary(
    progress: &Progress,
    checked: Option<&EventCounts>,
    stored: &Stored,
    duplicates: u64,
    found: &[Difference],
) {
    let sum = &progress.sum;
    let rejected: u64 = sum.rejected.values().sum();
    crate::print(&format!(
        "Source            {}{}\nAccepted          {}{}\nRejected          {}\nStored            {}",
        counted(sum.made.total(), "event"),
        match checked.map(EventCounts::total) {
            Some(count) if count != sum.made.total() => format!(
                ", where the last `import check` here counted {count}: of other files, of a part of them, by another mapping, or before rejects were mended"
            ),
            _ => String::new(),
        },
        sum.accepted.total(),
        match sum.generated.total() {
            0 => String::new(),
            count => format!(", and up to {count} that the mapping made of them"),
        },
        counted(rejected, "record"),
        stored.merged.total(),
    ));
    if stored.rows > stored.merged.total() {
        crate::print(&format!(
            "ClickHouse has {} beyond these, of events that were sent again; it merges them by and by, and queries with \
             FINAL leave them out already.",
            counted(stored.rows - stored.merged.total(), "row")
        ));
    }
    if duplicates > 0 {
        crate::print(&format!(
            "In the source twice or more under the same id, and stored once: {}.",
            counted(duplicates, "event")
        ));
    }
    let rows = found.iter().take(ROWS_MAX).map(|it| {
        [
            day_text(it.day),
            it.event.clone(),
            it.source.to_string(),
            it.accepted.to_string(),
            it.stored.to_string(),
        ]
    });
    crate::print("");
    table::print(
        ["DAY", "EVENT", "SOURCE", "ACCEPTED", "STORED"],
        rows.collect(),
        "Every day and event is stored as it was accepted.",
    );
    if found.len() > ROWS_MAX {
        let more = (found.len() - ROWS_MAX) as u64;
        crate::print(&format!("and {more} more"));
    }
}

/// Arguments of `report`.
#[derive(Args, Clone, Debug)]
pub struct ReportArguments {
    #[command(flatten)]
    common: Common,
}

pub(super) fn report(arguments: &ReportArguments) -> anyhow::Result<()> {
    let staging = arguments.common.existing()?;
    let mut loads = Vec::new();
    for folder in staging.loads()? {
        let progress = Journal::read(&folder.journal())?;
        // An import of which nothing was accepted has nothing to compare.
        if !progress.files.is_empty() {
            loads.push((folder, progress));
        }
    }
    let differing = loads.windows(2).map(|pair| match pair {
        [(_, one), (_, other)] => count_differences(&one.sum.accepted, &other.sum.accepted),
        _ => 0,
    });
    let differing: usize = differing.sum();
    if arguments.common.json {
        let list: Vec<_> = loads
            .iter()
            .map(|(folder, progress)| json!({ "project_key": folder.name(), "sum": progress.sum }))
            .collect();
        let result = json!({ "loads": list, "different_counts": differing });
        crate::print_json(&json!({ "stage": "report", "result": result }).to_string());
        return Ok(());
    }
    let rows = loads.iter().map(|(folder, progress)| {
        let sum = &progress.sum;
        // Resent rejects are in the journal as well.
        let resending = folder.resending();
        let is_source = |name: &str| Path::new(name).file_name() != resending.file_name();
        let files = progress.files.iter().filter(|(name, _)| is_source(name));
        let done = files.clone().filter(|(_, file)| file.is_end).count();
        [
            folder.name(),
            format!("{done}/{}", files.count()),
            sum.records.to_string(),
            sum.accepted.total().to_string(),
            sum.skipped.to_string(),
            sum.rejected.values().sum::<u64>().to_string(),
        ]
    });
    table::print(
        [
            "PROJECT KEY",
            "FILES",
            "RECORDS",
            "ACCEPTED",
            "SKIPPED",
            "REJECTED",
        ],
        rows.collect(),
        "Nothing was loaded from this staging folder.",
    );
    if loads.len() > 1 {
        crate::print(&match differing {
            0 => "They brought the same events of each day and name.".to_owned(),
            count => format!("{} between them.", differing_counts(count)),
        });
    }
    Ok(())
}

/// Number of days and events whose counts differ.
fn count_differences(one: &EventCounts, other: &EventCounts) -> usize {
    let differing = |this: &EventCounts, that: &EventCounts| {
        this.iter()
            .filter(|(day, event, count)| that.get(*day, event) != *count)
            .map(|(day, event, _)| (day, event.to_owned()))
            .collect::<std::collections::HashSet<_>>()
    };
    let mut all = differing(one, other);
    all.extend(differing(other, one));
    all.len()
}
