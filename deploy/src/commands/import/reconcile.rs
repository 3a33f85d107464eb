//! `millrace import reconcile`: what was accepted against what is stored; `millrace import report`: imports beside one
//! another.

use super::rejects::load_them;
use super::{Common, Sources, TargetArguments};
use crate::commands::{Given, table};
use crate::config::Config;
use crate::open;
use anyhow::{Context, bail};
use clap::Args;
use millrace_clickhouse::Settings;
use millrace_import::check::Findings;
use millrace_import::clickhouse::{ClickHouse, Stored};
use millrace_import::count::counted;
use millrace_import::journal::{Journal, Progress};
use millrace_import::reconcile::{Difference, differences, without_doubles};
use millrace_import::send::server_url;
use millrace_import::staging::LoadFolder;
use millrace_import::tally::{Tally, day_text};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

/// Differences that are listed.
const ROWS_MAX: usize = 50;
const ASK_EVERY: Duration = Duration::from_secs(1);

/// What `reconcile` is told.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    target: TargetArguments,
    /// Number of the project in ClickHouse; by default that of the key
    #[arg(long, value_name = "N")]
    team_id: Option<i64>,
    /// Wait so many seconds for ClickHouse to have all
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    wait: u64,
    /// Let the project have more events than this import brought, as after another import
    #[arg(long)]
    allow_more: bool,
}

pub(super) fn run(config: &Config, arguments: &Arguments, given: &Given) -> anyhow::Result<()> {
    let staging = arguments.common.existing()?;
    let (_, project_key) = arguments.target.resolve(config)?;
    let journal = staging.load(&project_key).journal();
    let progress = Journal::read(&journal)?;
    let Some(heading) = &progress.heading else {
        bail!(
            "nothing was loaded into this project from {}; first run:\n  {}",
            staging.path().display(),
            given.command("import load", &["json"])
        );
    };
    if let Some(url) = &arguments.target.url
        && server_url(url)? != server_url(&heading.url)?
    {
        bail!(
            "--url is {url}, and this import went to {}; leave --url out, or name that",
            heading.url
        );
    }
    let team_id = team_id(config, arguments, &project_key)?;
    let settings = open::clickhouse_settings(config)?;
    let clickhouse = stored_in(&settings)?;
    let (stored, mut found) = open::block_on(async {
        // First by the client that knows what to do about each of its errors.
        let answers = open::clickhouse(config)?.ping().await;
        answers.map_err(|error| open::explained(config, error))?;
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
    let mut doubles = 0;
    if found.iter().any(Difference::is_missing)
        && let Ok(files) = arguments.sources.files(&staging, given)
    {
        doubles = without_doubles(&mut found, &files, &arguments.sources.plan()?)?;
    }
    if arguments.allow_more {
        found.retain(Difference::is_missing);
    }
    let checked = checked(&staging.file("check.json"));
    let unfinished = progress.files.values().filter(|file| !file.is_end).count();
    if arguments.common.json {
        let result = json!({
            "source": progress.sum.made.total(), "checked": checked.as_ref().map(Tally::total), "accepted": progress.sum.accepted.total(),
            "generated": progress.sum.generated.total(), "stored": stored.merged.total(),
            "rows": stored.rows, "doubles_of_the_source": doubles, "unfinished_files": unfinished,
            "differences": found,
        });
        crate::print_json(&json!({ "stage": "reconcile", "result": result }).to_string());
    } else {
        tell(&progress, checked.as_ref(), &stored, doubles, &found);
    }
    judge(unfinished, &found, given, || {
        again(&staging.load(&project_key), given)
    })
}

fn stored_in(settings: &Settings) -> anyhow::Result<ClickHouse> {
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

/// What goes on with an import that did not end.
fn again(folder: &LoadFolder, given: &Given) -> String {
    let resending = folder.resending();
    if resending.exists() {
        let rejects = folder.rejects();
        return load_them(given, &rejects);
    }
    given.command("import load", &["json"])
}

fn judge(
    unfinished: usize,
    found: &[Difference],
    given: &Given,
    again: impl Fn() -> String,
) -> anyhow::Result<()> {
    if unfinished > 0 {
        bail!(
            "{} not loaded to the end; go on with:\n  {}",
            counted(unfinished as u64, "file"),
            again()
        );
    }
    if !found.is_empty() {
        let mut told = differ(found.len());
        if found.iter().any(Difference::is_missing) {
            told += "; those stored less are missing";
        }
        if !found.iter().all(Difference::is_missing) {
            told += &format!(
                "; those stored more came from elsewhere. If the project is to have others, too, leave them out with:\n  {} \
                 --allow-more",
                given.command("import reconcile", &["json"])
            );
        }
        bail!(told);
    }
    Ok(())
}

/// Says how many counts are not the same.
fn differ(count: usize) -> String {
    match count {
        1 => "1 count of a day and an event differs".to_owned(),
        _ => format!(
            "{} of a day and an event differ",
            counted(count as u64, "count")
        ),
    }
}

fn checked(path: &Path) -> Option<Tally> {
    let text = std::fs::read_to_string(path).ok()?;
    let findings: Findings = serde_json::from_str(&text).ok()?;
    Some(findings.events)
}

fn team_id(config: &Config, arguments: &Arguments, project_key: &str) -> anyhow::Result<i64> {
    if let Some(team_id) = arguments.team_id {
        return Ok(team_id);
    }
    let found = open::on_catalog(config, async |catalog| {
        Ok(catalog.project_by_key(project_key).await?)
    });
    let found = found.context("say the project's number with --team-id")?;
    found.map(|project| project.team_id.0).with_context(|| {
        format!("no project has the key {project_key}; say its number with --team-id")
    })
}

fn tell(
    progress: &Progress,
    checked: Option<&Tally>,
    stored: &Stored,
    doubles: u64,
    found: &[Difference],
) {
    let sum = &progress.sum;
    let rejected: u64 = sum.rejected.values().sum();
    crate::print(&format!(
        "Source            {}{}\nAccepted          {}{}\nRejected          {}\nStored            {}",
        counted(sum.made.total(), "event"),
        match checked.map(Tally::total) {
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
    if doubles > 0 {
        crate::print(&format!(
            "In the source twice or more under the same id, and stored once: {}.",
            counted(doubles, "event")
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

/// What `report` is told.
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
        // One that the server let nothing of in brought nothing that could be compared.
        if !progress.files.is_empty() {
            loads.push((folder, progress));
        }
    }
    let different = loads.windows(2).map(|pair| match pair {
        [(_, one), (_, other)] => different(&one.sum.accepted, &other.sum.accepted),
        _ => 0,
    });
    let different: usize = different.sum();
    if arguments.common.json {
        let list: Vec<_> = loads
            .iter()
            .map(|(folder, progress)| json!({ "project_key": folder.name(), "sum": progress.sum }))
            .collect();
        let result = json!({ "loads": list, "different_counts": different });
        crate::print_json(&json!({ "stage": "report", "result": result }).to_string());
        return Ok(());
    }
    let rows = loads.iter().map(|(folder, progress)| {
        let sum = &progress.sum;
        // Rejects that were sent again are in the journal as well.
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
        crate::print(&match different {
            0 => "They brought the same events of each day and name.".to_owned(),
            count => format!("{} between them.", differ(count)),
        });
    }
    Ok(())
}

/// How many days and events have another count.
fn different(one: &Tally, other: &Tally) -> usize {
    let unlike = |this: &Tally, that: &Tally| {
        this.iter()
            .filter(|(day, event, count)| that.get(*day, event) != *count)
            .map(|(day, event, _)| (day, event.to_owned()))
            .collect::<std::collections::HashSet<_>>()
    };
    let mut all = unlike(one, other);
    all.extend(unlike(other, one));
    all.len()
}
