//! `millrace backup` and `millrace restore`: the data of the embedded default, in a folder.

use crate::config::Config;
use crate::{backup, output};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `millrace backup`.
#[derive(Args, Clone, Debug)]
pub struct Backup {
    /// Folder to create for the backup
    #[arg(value_name = "DIR")]
    to: PathBuf,
}

/// Arguments of `millrace restore`.
#[derive(Args, Clone, Debug)]
pub struct Restore {
    /// Folder that `millrace backup` created
    #[arg(value_name = "DIR")]
    from: PathBuf,
}

/// Makes a backup of a running server.
///
/// # Errors
/// When this is not the embedded default, nothing runs, or the folder cannot be made and filled.
pub fn backup(config: &Config, arguments: &Backup) -> anyhow::Result<()> {
    let to = backup::create(config, &arguments.to)?;
    output::print(&format!("{} is a whole backup.", to.display()));
    Ok(())
}

/// Creates a data folder from a backup.
///
/// # Errors
/// When this is not the embedded default, the data folder is in use, or the backup is not whole.
pub fn restore(config: &Config, arguments: &Restore) -> anyhow::Result<()> {
    backup::restore(config, &arguments.from)?;
    let dir = config.data_dir.display();
    output::print(&format!("{dir} has the contents of the backup."));
    Ok(())
}
