//! `millrace nodes`: lists nodes with their watermarks, and deregisters nodes.

use super::table;
use crate::config::Config;
use crate::connect;
use crate::nodes::behind_seconds;
use crate::output;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use millrace_catalog::{Catalog, IngestNode, NodeState, Nodes, UtcTime};
use millrace_rows::{Clock, SystemClock, shown};

/// Silence up to which a node counts as alive, in seconds: it publishes every ten.
const ALIVE_SECONDS: i64 = 60;

/// Subcommand of `millrace nodes`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// List the nodes with their watermarks; exports go up to the lowest
    List,
    /// Deregister a node that will not come back; exports stop waiting for it
    #[command(visible_alias = "forget")]
    Deregister(Deregister),
}

/// Node to deregister.
#[derive(Args, Clone, Debug)]
pub struct Deregister {
    /// Name of the node, as `millrace nodes list` shows it
    #[arg(value_name = "NODE")]
    name: String,
    /// Deregister a node that did not stop cleanly, too: exports will miss the events left in its
    /// log
    #[arg(long)]
    yes: bool,
}

/// Runs the command.
///
/// # Errors
/// When the catalog cannot be opened, or the node must not be deregistered.
pub fn run(config: &Config, command: &Command) -> anyhow::Result<()> {
    connect::with_catalog(config, async |catalog| match command {
        Command::List => list(catalog).await,
        Command::Deregister(arguments) => deregister(catalog, arguments).await,
    })
}

async fn list(catalog: &Catalog) -> anyhow::Result<()> {
    let nodes = Nodes::new(catalog).list().await?;
    let now = UtcTime::from(SystemClock.now());
    let rows = nodes.iter().map(|node| row(node, now)).collect();
    table::print(
        [
            "NODE",
            "HOST",
            "STATE",
            "WATERMARK",
            "BEHIND",
            "HEARD OF",
            "STARTED",
        ],
        rows,
        "No node has accepted events yet; exports wait for the first.",
    );
    if nodes.is_empty() {
        return Ok(());
    }
    let far = Nodes::new(catalog).exports_watermark().await?;
    output::print(&far.map_or_else(
        || "Exports wait for the nodes that are starting.".to_owned(),
        |far| format!("Exports may go up to {far}."),
    ));
    Ok(())
}

fn row(node: &IngestNode, now: UtcTime) -> [String; 7] {
    let state = match node.state {
        NodeState::Starting => "starting",
        NodeState::Running => "running",
        NodeState::Stopped => "stopped",
    };
    [
        node.name.clone(),
        node.host.clone(),
        state.to_owned(),
        node.watermark
            .map_or_else(|| "unknown".to_owned(), |at| at.to_string()),
        format!("{} s", behind_seconds(node, now)),
        node.published_at.to_string(),
        node.started_at.to_string(),
    ]
}

async fn deregister(catalog: &Catalog, arguments: &Deregister) -> anyhow::Result<()> {
    let nodes = Nodes::new(catalog).list().await?;
    let node = nodes.iter().find(|node| node.name == arguments.name);
    let node = node.with_context(|| {
        format!(
            "there is no node \"{}\"; `millrace nodes list` shows all nodes",
            shown(&arguments.name)
        )
    })?;
    if node.state != NodeState::Stopped {
        let now = UtcTime::from(SystemClock.now());
        let silent_seconds = now.0.saturating_sub(node.published_at.0) / 1_000_000;
        if !arguments.yes {
            let lives = if silent_seconds.abs() < ALIVE_SECONDS {
                format!("was heard of {silent_seconds} s ago, so it may well run: stop it")
            } else {
                "did not stop cleanly: start it again, so that it ships what is left in its log"
                    .to_owned()
            };
            bail!(
                "node {} {lives}. If its log is lost or does not matter, add --yes: exports will \
                 lack the events that the node had not shipped; if it ships them later, a backfill \
                 exports them",
                shown(&arguments.name)
            );
        }
    }
    Nodes::new(catalog).deregister(&arguments.name).await?;
    let name = shown(&arguments.name);
    output::print(&format!("Exports no longer wait for {name}."));
    Ok(())
}
