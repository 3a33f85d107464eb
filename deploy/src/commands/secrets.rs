//! `millrace secrets`: rotates the key that secrets of destinations are encrypted with, or gives a
//! lost one up.

use super::counted;
use crate::config::Config;
use crate::output;
use crate::{connect, key_fingerprint, secret_key};
use anyhow::bail;
use clap::{Args, Subcommand};
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
    /// Give up a key that is lost: the catalog takes the key of this folder or setting in its place
    ///
    /// Secrets that were encrypted with the lost key cannot be read any more. The administrators
    /// give those of their exports again.
    Reset(Reset),
}

/// Arguments of `millrace secrets reset`.
#[derive(Args, Clone, Copy, Debug)]
pub struct Reset {
    /// Give the lost key up
    #[arg(long)]
    yes: bool,
}

/// Runs the command.
///
/// # Errors
/// When a secret opens with no key, or the catalog or the key's file cannot be written; of a reset
/// without `--yes`.
pub fn run(config: &Config, command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Rotate => rotate(config),
        Command::Reset(arguments) => reset(config, *arguments),
    }
}

fn reset(config: &Config, arguments: Reset) -> anyhow::Result<()> {
    if !arguments.yes {
        bail!(
            "the secrets of exports that were encrypted with another key will have to be given again; start this \
             command with --yes if that key is lost"
        );
    }
    connect::with_catalog(config, async |catalog| {
        let Some(key) = secret_key::known(config)? else {
            bail!(
                "there is no secret.key in {}, and no secret_key; name the folder of a server with --data-dir",
                config.data_dir.display()
            );
        };
        key_fingerprint::note(&key, catalog).await
    })?;
    output::print(
        "Servers with this key start. Exports whose secrets were encrypted with another one wait until their secrets \
         are given again.",
    );
    Ok(())
}

fn rotate(config: &Config) -> anyhow::Result<()> {
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
        key_fingerprint::note(key, catalog).await?;
        output::print(&format!(
            "The secrets of {} are encrypted with the new key.",
            counted(count as u64, "export")
        ));
        Ok(())
    })
}
