//! `millrace completions`: the script by which a shell completes commands, options and values.

use crate::output;
use crate::setting_args::{SERVERS, is_of_servers, settings, with_local_settings};
use clap::{Arg, Args, Command};
use clap_complete::Shell;

/// Arguments of `millrace completions`.
#[derive(Args, Clone, Copy, Debug)]
pub struct Completions {
    /// Shell that reads the script
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Prints the script for the program.
pub(super) fn run(program: Command, arguments: Completions) {
    output::write(&script(program, arguments.shell));
}

/// Script for a shell. Only servers, and the program without a command, are offered settings.
fn script(program: Command, shell: Shell) -> Vec<u8> {
    let of_servers = settings(&program).filter(|arg| is_of_servers(arg)).cloned();
    let of_servers: Vec<Arg> = of_servers.map(|arg| arg.global(false)).collect();
    let mut command = with_local_settings(program).mut_subcommands(|inner| {
        let is_server = SERVERS.contains(&inner.get_name());
        match is_server {
            true => inner.args(of_servers.clone()),
            false => inner,
        }
    });
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "millrace", &mut script);
    script
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;
    use clap::ValueEnum;

    #[test]
    fn the_script_of_each_shell_has_commands_options_and_settings() {
        for shell in Shell::value_variants() {
            let script = String::from_utf8(script(cli::command(), *shell)).unwrap();
            for word in ["deregister", "project-id", "ingest-addr", "data-dir"] {
                assert!(script.contains(word), "{shell}: {word}");
            }
        }
    }

    #[test]
    fn settings_are_completed_for_servers_only() {
        let script = String::from_utf8(script(cli::command(), Shell::Bash)).unwrap();
        let lines = script.lines().filter(|line| line.contains("opts=\"-"));
        let (with, without): (Vec<&str>, Vec<&str>) =
            lines.partition(|line| line.contains("--ingest-addr"));
        assert_eq!(with.len(), SERVERS.len() + 1, "{with:?}");
        assert!(without.iter().any(|line| line.contains("--project-id")));
        assert!(without.iter().all(|line| line.contains("--data-dir")));
    }
}
