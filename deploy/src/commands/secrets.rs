//! `millrace secrets`: rotates the key that secrets of destinations are encrypted with.

use super::counted;
use crate::config::Config;
use crate::output;
use crate::{connect, secret_key};
use clap::Subcommand;
use millrace_exports::{BatchExports, SecretKey};

/// Subcommand of `millrace secrets`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Encrypt all secrets with another key; servers may run
    ///
    /// Without secret_key a new key is made in the data folder, and the servers on this folder use
    /// it at once; servers on other folders with a copy of secret.key need a new copy. The old key
    /// stays in the file until the next rotation: to remove a key that others may know, rotate
    /// twice.
    ///
    /// With secret_key: first restart all servers of this catalog with the new key, a comma and the
    /// old key; then run this command with the same setting; then remove the old key from the
    /// setting. Exports wait at servers that do not have the new key yet.
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
            // The catalog must open before the key changes.
            connect::with_catalog(config, async |_| Ok(()))?;
            secret_key::rotate(&config.data_dir, |key| reseal(config, key))?;
            "Servers on this data folder use it; give a copy of secret.key to those on others. \
             The key before stays in it until the next rotation."
        }
    };
    output::print(next);
    Ok(())
}

fn reseal(config: &Config, key: &SecretKey) -> anyhow::Result<()> {
    connect::with_catalog(config, async |catalog| {
        let count = BatchExports::new(catalog).reseal(key).await?;
        output::print(&format!(
            "The secrets of {} have another key.",
            counted(count as u64, "export")
        ));
        Ok(())
    })
}
