//! `millrace purge`: deletes the events of projects that the catalog no longer has.

use super::{Given, counted, table};
use crate::config::Config;
use crate::open;
use anyhow::{Context, bail};
use clap::Args;
use millrace_clickhouse::{ClickHouse, TeamRows};
use millrace_rows::TeamId;
use std::collections::BTreeSet;
use std::time::Duration;

/// Between two looks at how far the server is.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What to purge.
#[derive(Args, Clone, Copy, Debug)]
pub struct Purge {
    /// Delete; without it, only list what would be deleted
    #[arg(long)]
    yes: bool,
}

/// Runs the command.
///
/// # Errors
/// When the catalog or ClickHouse cannot be reached, or the catalog knows no project at all.
pub fn run(config: &Config, purge: Purge, given: &Given) -> anyhow::Result<()> {
    open::block_on(async {
        let clickhouse = open::clickhouse(config)?;
        let orphans = orphans(config, &clickhouse).await?;
        table::print(
            ["TEAM", "ROWS"],
            orphans
                .iter()
                .map(|team| [team.team_id.to_string(), team.rows.to_string()])
                .collect(),
            "No deleted project has events.",
        );
        if orphans.is_empty() {
            return Ok(());
        }
        if !purge.yes {
            crate::print(&format!(
                "Nothing was deleted. To delete them for good:\n  {} --yes",
                given.command("purge", &[])
            ));
            return Ok(());
        }
        let teams: Vec<TeamId> = orphans.iter().map(|team| TeamId(team.team_id)).collect();
        let asked = clickhouse.delete_teams(&teams).await;
        asked.context("cannot delete events")?;
        wait(&clickhouse).await?;
        let rows: u64 = orphans.iter().map(|team| team.rows).sum();
        let projects = counted(teams.len() as u64, "project");
        crate::print(&format!("{} of {projects} deleted.", counted(rows, "row")));
        Ok(())
    })
}

/// Projects that have rows and are not in the catalog. ClickHouse is read first: a project made
/// in between is then in the catalog when that is read.
async fn orphans(config: &Config, clickhouse: &ClickHouse) -> anyhow::Result<Vec<TeamRows>> {
    let stored = clickhouse.teams_with_rows().await;
    let stored = stored
        .map_err(|error| open::explained(config, error))
        .context("cannot read which projects have events")?;
    let catalog = open::catalog(config).await?;
    let projects = catalog.list_projects(None).await?;
    catalog.close().await?;
    if projects.is_empty() {
        bail!(
            "the catalog has no projects, so this may be the wrong catalog; \
             name the right one with --database-url or --data-dir"
        );
    }
    let kept: BTreeSet<i64> = projects.into_iter().map(|project| project.id).collect();
    Ok(stored
        .into_iter()
        .filter(|team| !kept.contains(&team.team_id))
        .collect())
}

/// Until the server has rewritten all parts.
async fn wait(clickhouse: &ClickHouse) -> anyhow::Result<()> {
    let mut every = tokio::time::interval(LOOK_EVERY);
    loop {
        every.tick().await;
        let deletion = clickhouse.deletion().await;
        let deletion = deletion.context("deleting goes on, but cannot be watched")?;
        if !deletion.failure.is_empty() {
            bail!(
                "ClickHouse cannot rewrite a part, and will try again: {}",
                deletion.failure
            );
        }
        if deletion.unfinished == 0 {
            return Ok(());
        }
    }
}
