//! `millrace secrets`: the key that secrets of destinations are encrypted with.

use super::counted;
use crate::config::Config;
use crate::{open, secret_key};
use clap::Subcommand;
use millrace_catalog::SecretKey;

/// What to do with secrets.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Encrypt all of them with another key; servers may run
    ///
    /// Without secret_key a new key is made in the data folder, and the servers on it use it at
    /// once; servers on other folders with a copy of secret.key need a new copy. The key before
    /// stays in the file until the next rotation: to be rid of one that others may know, rotate twice.
    ///
    /// With secret_key: first restart all servers of this catalog with the new key and the one
    /// before behind it, with a comma between; then run this with the same; then take the old one
    /// out of the setting. Exports wait at servers that have not got the new key yet.
    Rotate,
}

/// Runs the command.
///
/// # Errors
/// When a secret opens with no key, or the catalog or the key's file cannot be written.
pub fn run(config: &Config, command: &Command) -> anyhow::Result<()> {
    let Command::Rotate = command;
    let next = match &config.secret_key {
        Some(key) => {
            reseal(config, key)?;
            "Take the older keys out of secret_key where all servers have the new one."
        }
        None => {
            // Before the key is another one.
            open::on_catalog(config, async |_| Ok(()))?;
            secret_key::rotate(&config.data_dir, |key| reseal(config, key))?;
            "Servers on this data folder use it; give a copy of secret.key to those on others. \
             The key before stays in it until the next rotation."
        }
    };
    crate::print(next);
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
