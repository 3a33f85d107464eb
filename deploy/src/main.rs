//! The `millrace` binary: reads the configuration, then runs one mode.
//!
//! | Module | Holds |
//! |---|---|
//! | `cli`, `config` | what the user asked for |
//! | `serve` | the modes that stay: serve, ingest, admin, clickhouse |
//! | `ingest`, `admin`, `engine` | their parts |
//! | `beside` | parts beside ingestion, and what happens when one of them ends |
//! | `register` | the start of a node, told from one of a copy of its folder |
//! | `preflight` | what has to be right before a start makes anything |
//! | `plugin_source` | sources of plugins, read in a process of their own |
//! | `commands` | the operator's tools |
//! | `credentials`, `logging`, `data_dir` | what every mode needs |
//! | `backup_dir` | the folder of backups, and what is left there |
//! | `cleanup` | deletes what deleted projects left in the catalog |
//! | `clickhouse_watch` | can ClickHouse be used, and what to do where it cannot |
//! | `nodes` | which node holds exports up, as metrics |
//! | `room` | how full log and disks are, as metrics |

#![forbid(unsafe_code)]

mod admin;
mod background;
mod backup_dir;
mod beside;
mod bootstrap;
mod cleanup;
mod cli;
mod clickhouse_watch;
mod commands;
mod config;
mod credentials;
mod data_dir;
mod engine;
mod exports;
mod ingest;
mod logging;
mod nodes;
mod open;
mod persons;
mod plugin_source;
mod preflight;
mod register;
mod room;
mod secret_key;
mod serve;
mod signals;

use clap::FromArgMatches;
use cli::{Cli, Command};
use config::{Config, FileError, Layers};
use millrace_rows::{shown_json, shown_lines};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The command line or the configuration cannot be used (`EX_USAGE` of sysexits.h).
const EXIT_USAGE: u8 = 64;

fn main() -> ExitCode {
    // What we write is for our eyes only, also in a folder that somebody made wider.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let args: Vec<OsString> = std::env::args_os().collect();
    if plugin_source::is_asked_for(&args) {
        return plugin_source::child();
    }
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let layers = match config::load(cli::command(), &args, variables) {
        Ok(layers) => layers,
        Err(FileError::Command(error)) => return command_line(error),
        Err(error) => return fail(EXIT_USAGE, &error.to_string()),
    };
    let cli = match Cli::from_arg_matches(&layers.matches) {
        Ok(cli) => cli,
        Err(error) => return command_line(error),
    };
    #[cfg(feature = "failpoints")]
    if let Some(armed) = cli.fail_point {
        armed.arm();
    }
    let supervised = matches!(cli.command, Some(Command::Clickhouse { parent: Some(_) }));
    let settings = &cli.settings;
    let started = logging::start(settings.log_format, &settings.log_level, supervised);
    let checked = started.and_then(|()| Config::build(settings.clone()));
    let config = match checked {
        Ok(config) => config,
        Err(error) => return fail(EXIT_USAGE, &format!("{error:#}")),
    };
    match run(&cli, &config, &layers) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if supervised => fail(engine::exit_code(&error), &format!("{error:#}")),
        Err(error) => fail(1, &format!("{error:#}")),
    }
}

fn run(cli: &Cli, config: &Config, layers: &Layers) -> anyhow::Result<()> {
    let given = commands::Given::new(cli::command(), &layers.matches);
    match &cli.command {
        None | Some(Command::Serve) if cli.print_credentials => serve::print_credentials(config),
        None | Some(Command::Serve) => serve::run(config, serve::Parts::ALL),
        Some(Command::Ingest) => serve::run(config, serve::Parts::INGEST),
        Some(Command::Admin) => serve::run(config, serve::Parts::ADMIN),
        Some(Command::Clickhouse { parent }) => engine::run(config, *parent),
        Some(Command::Migrate) => commands::migrate(config),
        Some(Command::Config) => {
            print(&config::show(&cli::command(), layers, config));
            Ok(())
        }
        Some(Command::Keys(command)) => commands::keys::run(config, command),
        Some(Command::Organizations(command)) => commands::organizations::run(config, command),
        Some(Command::Members(command)) => commands::members::run(config, command),
        Some(Command::Invites(command)) => commands::invites::run(config, command),
        Some(Command::Migrations(command)) => commands::migrations::run(config, command),
        Some(Command::Import(command)) => commands::import::run(config, command, &given),
        Some(Command::Nodes(command)) => commands::nodes::run(config, command),
        Some(Command::Rejected(command)) => commands::rejected::run(config, command, &given),
        Some(Command::Secrets(command)) => commands::secrets::run(config, command),
        Some(Command::Purge(purge)) => commands::purge::run(config, *purge, &given),
        Some(Command::Backup(backup)) => commands::backup::backup(config, backup),
        Some(Command::Restore(restore)) => commands::backup::restore(config, restore),
        Some(Command::Log(command)) => commands::log::run(config, command),
    }
}

/// Help and version are no errors; the rest is the user's to mend.
fn command_line(error: clap::Error) -> ExitCode {
    let error = cli::with_usage_of_help(error);
    // Where nobody listens, there is nobody to tell.
    let _ = error.print();
    if error.use_stderr() {
        ExitCode::from(EXIT_USAGE)
    } else {
        ExitCode::SUCCESS
    }
}

fn fail(code: u8, message: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "millrace: {}", shown_lines(message));
    ExitCode::from(code)
}

/// Writes to standard output, without a control character but line feeds; a closed pipe is the reader's
/// choice. Texts of others are put into it by [`millrace_rows::shown`], so that they add no line.
fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{}", shown_lines(text));
}

/// The same of JSON, whose meaning stays.
fn print_json(json: &str) {
    let _ = writeln!(std::io::stdout(), "{}", shown_json(json));
}
