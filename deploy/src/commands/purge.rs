//! `millrace purge`: deletes the events of projects that the catalog no longer has.

use super::{Invocation, counted, table};
use crate::config::Config;
use crate::connect;
use crate::output;
use crate::poll_timeout::PollTimeout;
use anyhow::{Context, bail};
use clap::Args;
use millrace_catalog::Catalog;
use millrace_clickhouse::{ClickHouse, ProjectRows};
use millrace_organizations::Projects;
use millrace_rows::ProjectId;
use std::collections::BTreeSet;
use std::time::Duration;

/// Pause between two checks of the server's progress.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Arguments of `millrace purge`.
#[derive(Args, Clone, Copy, Debug)]
pub struct Purge {
    /// Delete the events; without it, only list them
    #[arg(long)]
    yes: bool,
}

/// Runs the command.
///
/// # Errors
/// When the catalog or ClickHouse cannot be reached, or the catalog knows no project at all.
pub fn run(config: &Config, purge: Purge, invocation: &Invocation) -> anyhow::Result<()> {
    connect::block_on(async {
        // First, so that ClickHouse is one with rows of this catalog's projects.
        let catalog = connect::catalog(config).await?;
        let clickhouse = connect::clickhouse(config)?;
        let without_project = without_project(config, &catalog, &clickhouse).await;
        catalog.close().await?;
        let without_project = without_project?;
        table::print(
            ["PROJECT", "ROWS"],
            without_project
                .iter()
                .map(|project| [project.team_id.to_string(), project.rows.to_string()])
                .collect(),
            "No deleted project has events.",
        );
        if without_project.is_empty() {
            return Ok(());
        }
        if !purge.yes {
            output::print(&format!(
                "Nothing was deleted. To delete them for good:\n  {} --yes",
                invocation.command("purge", &[])
            ));
            return Ok(());
        }
        let project_ids: Vec<ProjectId> = without_project
            .iter()
            .map(|project| ProjectId(project.team_id))
            .collect();
        let asked = clickhouse.delete_projects(&project_ids).await;
        asked.context("cannot delete events")?;
        wait(&clickhouse).await?;
        check_deleted(&clickhouse, &project_ids).await?;
        let rows: u64 = without_project.iter().map(|project| project.rows).sum();
        let projects = counted(project_ids.len() as u64, "project");
        output::print(&format!("{} of {projects} deleted.", counted(rows, "row")));
        Ok(())
    })
}

/// Finds projects that have rows and are not in the catalog. ClickHouse is read first: a project
/// that is created in between is in the catalog when that is read.
async fn without_project(
    config: &Config,
    catalog: &Catalog,
    clickhouse: &ClickHouse,
) -> anyhow::Result<Vec<ProjectRows>> {
    let stored = clickhouse.projects_with_rows().await;
    let stored = stored
        .map_err(|error| connect::explain(config, error))
        .context("cannot read which projects have events")?;
    let projects = Projects::new(catalog).list_all(None).await?;
    if projects.is_empty() {
        bail!(
            "the catalog has no projects, so this may be the wrong catalog; \
             name the right one with --database-url or --data-dir"
        );
    }
    let kept: BTreeSet<i64> = projects.into_iter().map(|project| project.id).collect();
    Ok(stored
        .into_iter()
        .filter(|project| !kept.contains(&project.team_id))
        .collect())
}

/// Waits until the server has rewritten all parts.
async fn wait(clickhouse: &ClickHouse) -> anyhow::Result<()> {
    let mut every = tokio::time::interval(CHECK_INTERVAL);
    let mut poll_timeout = PollTimeout::new();
    loop {
        every.tick().await;
        let deletion = poll_timeout.check(clickhouse.deletion().await);
        let deletion = deletion.context("ClickHouse goes on deleting; its progress is unknown")?;
        let Some(deletion) = deletion else {
            continue;
        };
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

/// Checks that no rows of the projects are left: some may have waited in a log meanwhile, and a
/// gateway may have answered in ClickHouse's place.
async fn check_deleted(clickhouse: &ClickHouse, project_ids: &[ProjectId]) -> anyhow::Result<()> {
    let stored = clickhouse.projects_with_rows().await;
    let stored = stored.context("events were deleted, but it cannot be read whether all were")?;
    let is_left = |project: &&ProjectRows| project_ids.contains(&ProjectId(project.team_id));
    let rows: u64 = stored
        .iter()
        .filter(is_left)
        .map(|project| project.rows)
        .sum();
    if rows > 0 {
        bail!(
            "{} of these projects left: new rows arrived, or a proxy answered for ClickHouse. Run the command again.",
            counted(rows, "row")
        );
    }
    Ok(())
}
