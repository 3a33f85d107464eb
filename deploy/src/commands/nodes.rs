//! `millrace nodes`: lists nodes with their watermarks, and deregisters nodes.

use super::list_format::{ListFormat, print_object};
use super::{counted, table};
use crate::config::Config;
use crate::connect;
use crate::node_list::{NodeList, NodeView};
use crate::output;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use millrace_catalog::{Catalog, NodeReports, NodeState, Nodes};
use millrace_rows::shown;

/// Silence up to which a node counts as alive, in seconds: it reports every five.
const ALIVE_SECONDS: i64 = 60;

/// Subcommand of `millrace nodes`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// List the nodes with their states, logs and watermarks; exports go up to the lowest
    ///
    /// A node is silent when it was not heard of for 15 seconds, and lost after two minutes.
    List(ListFormat),
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
        Command::List(format) => list(catalog, *format).await,
        Command::Deregister(arguments) => deregister(catalog, arguments).await,
    })
}

async fn list(catalog: &Catalog, format: ListFormat) -> anyhow::Result<()> {
    let list = NodeList::read(catalog).await?;
    if format.is_json() {
        print_object(&serde_json::to_value(&list)?);
        return Ok(());
    }
    table::print(
        [
            "NODE",
            "HOST",
            "ADDRESS",
            "VERSION",
            "STATE",
            "HEARD OF",
            "IN LOG",
            "OLDEST",
            "WATERMARK",
            "BEHIND",
            "STARTED",
        ],
        list.nodes.iter().map(row).collect(),
        "No node has accepted events yet; exports wait for the first.",
    );
    if list.nodes.is_empty() {
        return Ok(());
    }
    output::print(&list.exports_watermark.map_or_else(
        || "Exports wait for the nodes that are starting.".to_owned(),
        |far| format!("Exports may go up to {far}."),
    ));
    Ok(())
}

fn row(node: &NodeView) -> [String; 11] {
    let unknown = || "unknown".to_owned();
    [
        node.name.clone(),
        node.host.clone(),
        node.address.clone().unwrap_or_else(unknown),
        node.version.clone().unwrap_or_else(unknown),
        node.state.to_owned(),
        match node.state {
            "stopped" => "–".to_owned(),
            _ => format!("{} s ago", node.unheard_seconds),
        },
        counted(node.log_bytes, "byte"),
        format!("{} s", node.log_age_seconds),
        node.watermark.map_or_else(unknown, |at| at.to_string()),
        format!("{} s", node.behind_seconds),
        node.started_at.to_string(),
    ]
}

async fn deregister(catalog: &Catalog, arguments: &Deregister) -> anyhow::Result<()> {
    let found = NodeReports::new(catalog).get(&arguments.name).await?;
    let status = found.with_context(|| {
        format!(
            "there is no node \"{}\"; `millrace nodes list` shows all nodes",
            shown(&arguments.name)
        )
    })?;
    if status.node.state != NodeState::Stopped {
        let silent_seconds = status.unheard_seconds();
        if !arguments.yes {
            let lives = if silent_seconds < ALIVE_SECONDS {
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
