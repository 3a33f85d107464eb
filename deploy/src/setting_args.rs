//! Settings among the arguments of the command line: which they are, and who has a use for them.

use clap::{Arg, Command};

/// Commands that run until they are stopped; they have a use for every setting.
pub const SERVERS: [&str; 4] = ["serve", "ingest", "admin", "clickhouse"];

/// Returns true for a setting: what has a variable is also a key of the file.
#[must_use]
pub fn is_setting(arg: &Arg) -> bool {
    arg.get_env().is_some() && !arg.is_hide_set()
}

/// Returns true for a setting that servers alone need: all but the data folder and the file.
#[must_use]
pub fn is_of_servers(arg: &Arg) -> bool {
    is_setting(arg) && arg.get_id() != "config" && arg.get_id() != "data_dir"
}

/// Settings of the program, in the order of their definition.
pub fn settings(program: &Command) -> impl Iterator<Item = &Arg> {
    let arguments = program.get_arguments();
    arguments.filter(|arg| is_setting(arg))
}

/// Makes the settings of servers options of the program itself only: scripts and pages for each
/// command would otherwise repeat all of them.
#[must_use]
pub fn with_local_settings(program: Command) -> Command {
    program.mut_args(|arg| {
        let is_local = is_of_servers(&arg);
        match is_local {
            true => arg.global(false),
            false => arg,
        }
    })
}
