//! `millrace drain`: has the server of a data folder accept no more events, ship all that its log
//! has, deregister, and end.

use crate::config::Config;
use crate::data_dir::{self, INGEST_ROLE};
use crate::drain_request::DrainState;
use crate::{connect, output};
use anyhow::{Context, bail};
use clap::Args;
use millrace_catalog::{NodeState, Nodes};
use std::path::Path;
use std::time::Duration;

/// Interval of looking at the drain.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Arguments of `millrace drain`.
#[derive(Args, Clone, Copy, Debug)]
pub struct Drain {
    /// Wait until the log is empty; the exit status is 0 then
    #[arg(long)]
    wait: bool,
}

/// Runs the command.
///
/// # Errors
/// When no server runs on the folder and its log may have events, or the server ends before its log
/// is empty.
pub fn run(config: &Config, drain: Drain) -> anyhow::Result<()> {
    let dir = &config.data_dir;
    if !dir.join(data_dir::NODE_FILE).exists() {
        bail!(
            "{} is not the data folder of a node; name it with --data-dir",
            dir.display()
        );
    }
    if !data_dir::is_locked(dir, INGEST_ROLE) {
        return require_stopped(config);
    }
    let stored = DrainState::Requested.store(dir);
    stored.with_context(|| format!("cannot write to the data folder {}", dir.display()))?;
    if !drain.wait {
        output::print(
            "The server accepts no more events, and ends once its log is empty. With --wait this command waits for it.",
        );
        return Ok(());
    }
    wait(dir)?;
    output::print("The log is empty, and exports do not wait for this node.");
    Ok(())
}

/// Waits for the outcome of a drain.
fn wait(dir: &Path) -> anyhow::Result<()> {
    loop {
        std::thread::sleep(LOOK_INTERVAL);
        // Before the state is read, which a server stores before it ends.
        let runs = data_dir::is_locked(dir, INGEST_ROLE);
        match DrainState::read(dir) {
            Some(DrainState::Empty) => return Ok(()),
            Some(DrainState::Requested) if runs => {}
            Some(DrainState::Requested) => bail!(
                "the server ended before its log was empty; start it again, then drain it again"
            ),
            Some(DrainState::CutShort) => bail!(
                "the server was stopped before its log was empty, or could not deregister, as its log says; start it \
                 again, then drain it again"
            ),
            None => bail!("the server was started anew meanwhile; drain it again"),
        }
    }
}

/// Requires that the node of a folder without a server has stopped with an empty log.
fn require_stopped(config: &Config) -> anyhow::Result<()> {
    let name = data_dir::node_name(&config.data_dir)?;
    let node = connect::with_catalog(config, async |catalog| {
        Ok(Nodes::new(catalog).get(&name).await?)
    })?;
    if node.is_none_or(|node| node.state != NodeState::Stopped) {
        bail!(
            "no server runs on {}, and the log of its node may have events that are not in ClickHouse: start it with \
             `millrace ingest`, then drain it",
            config.data_dir.display()
        );
    }
    output::print("The node has stopped: its log is empty, and exports do not wait for it.");
    Ok(())
}
