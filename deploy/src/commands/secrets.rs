//! `millrace secrets`: the key that secrets of destinations are encrypted with.

use super::counted;
use crate::config::Config;
use crate::{open, secret_key};
use clap::Subcommand;
use millrace_catalog::SecretKey;

/// What to do with secrets.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Encrypt all of them with another key; restart the servers of this catalog afterwards
    ///
    /// Without secret_key a new key is made in the data folder. With it, give the new key first and
    /// the one before behind it, with a comma between; run this; then take the old one out.
    Rotate,
}

/// Runs the command.
///
/// # Errors
/// When a secret opens with no key, or the catalog or the key's file cannot be written.
pub fn run(config: &Config, command: &Command) -> anyhow::Result<()> {
    let Command::Rotate = command;
    match &config.secret_key {
        Some(key) => reseal(config, key)?,
        None => {
            // Before the key is another one.
            open::on_catalog(config, async |_| Ok(()))?;
            secret_key::rotate(&config.data_dir, |key| reseal(config, key))?;
        }
    }
    crate::print("Restart the servers of this catalog: they know the key from before only.");
    Ok(())
}

fn reseal(config: &Config, key: &SecretKey) -> anyhow::Result<()> {
    open::on_catalog(config, async |catalog| {
        let count = catalog.reseal_secrets(key).await?;
        crate::print(&format!(
            "The secrets of {} have another key.",
            counted(count as u64, "export")
        ));
        Ok(())
    })
}
