//! Commands that need neither settings nor a server: they run also where the settings are wrong.

use super::{completions, help, man};
use clap::Subcommand;

/// Command that needs no settings.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Print the help of a command, or explain the settings
    Help(help::Help),
    /// Print the script by which a shell completes commands and options
    Completions(completions::Completions),
    /// Write the manual pages of all commands
    Man(man::Man),
}

/// Runs the command of the program.
///
/// # Errors
/// When there is no such topic, or the pages cannot be written.
pub fn run(program: clap::Command, command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Help(help) => help::run(program, help)?,
        Command::Completions(completions) => completions::run(program, *completions),
        Command::Man(man) => man::run(program, man)?,
    }
    Ok(())
}
