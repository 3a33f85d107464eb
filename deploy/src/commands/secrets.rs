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
    /// Encrypt all secrets with another key; servers may run meanwhile
    ///
    /// Without the setting secret_key a new key is created in the data folder. Servers on this
    /// folder use the new key at once; servers on other folders with a copy of secret.key need a
    /// new copy. The old key stays in the file until the next rotation: to remove a key that others
    /// may know, rotate twice.
    ///
    /// With secret_key: first restart all servers of this catalog with the new key, a comma and the
    /// old key. Then run this command with the same setting, and remove the old key from the
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
            "Remove the older keys from secret_key once all servers have the new one."
        }
        None => {
            // The catalog must open before the key changes.
            connect::with_catalog(config, async |_| Ok(()))?;
            secret_key::rotate(&config.data_dir, |key| reseal(config, key))?;
            "Servers on this data folder use the new key; copy secret.key to servers on other \
             folders. The previous key stays in secret.key until the next rotation."
        }
    };
    output::print(next);
    Ok(())
}

fn reseal(config: &Config, key: &SecretKey) -> anyhow::Result<()> {
    connect::with_catalog(config, async |catalog| {
        let count = BatchExports::new(catalog).reseal(key).await?;
        output::print(&format!(
            "The secrets of {} are encrypted with the new key.",
            counted(count as u64, "export")
        ));
        Ok(())
    })
}
