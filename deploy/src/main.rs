//! The `millrace` binary: reads the configuration, then runs one mode.
//!
//! | Module | Holds |
//! |---|---|
//! | `cli`, `setting_args`, `numbers`, `config` | command line and settings |
//! | `colors` | use of colors in output |
//! | `serve` | the long-running modes: serve, ingest, admin |
//! | `ingest_logs` | opening of the logs |
//! | `ingest`, `admin`, `engine` | parts of a mode: ingestion, organization API, embedded ClickHouse |
//! | `engine_process`, `clickhouse_users` | the embedded ClickHouse's own process, and its users |
//! | `clickhouse_sync` | users of projects in ClickHouse, as the catalog has them |
//! | `project_access`, `project_queries` | logins for the rows of projects; their queries |
//! | `property_columns` | properties that are columns of events, as the catalog has them |
//! | `rejected_events` | rejected events that are corrected and sent again |
//! | `exports`, `persons`, `background_parts` | parts that run beside ingestion, and their end |
//! | `connect` | access to the catalog and ClickHouse of a configuration |
//! | `catalog_identity` | the catalog of a data folder; another one is refused |
//! | `node_registration`, `starts_file`, `other_process` | registration of a node, which detects copies of its data folder |
//! | `backlog_hold` | hold of the log of a copied data folder |
//! | `preflight`, `disk_room` | checks before a start creates anything |
//! | `doctor` | checks of an installation from outside |
//! | `plugin_source` | sources of plugins, parsed in a process of their own |
//! | `commands`, `output` | the operator's tools, and what they print |
//! | `poll_timeout` | questions that are asked again while a server does not answer |
//! | `reference` | `deploy/REFERENCE.md`, written by a test |
//! | `bootstrap`, `credentials`, `secret_key` | first start, `credentials.json`, `secret.key` |
//! | `logging`, `log_file` | log lines, and the file that they may go to |
//! | `signals`, `thread_priority` | SIGTERM, background threads |
//! | `key_fingerprint` | fingerprint of the key of secrets in the catalog; another key is refused |
//! | `key_table`, `start_without_catalog` | project keys in the data folder; a start while the catalog is away |
//! | `data_dir`, `created_dirs`, `backup_dir` | the data folder, folders of a start, that of backups |
//! | `drain_request` | request to ship all of a log and end |
//! | `backup`, `restore_mark` | backups of the embedded default, and their restore |
//! | `cleanup` | deletes rows of deleted projects from the catalog |
//! | `clickhouse_watch` | health check of ClickHouse, as log, banner and metric |
//! | `live_endpoint`, `live_nodes` | live stream of this node for others; those of all nodes |
//! | `stats` | counts events by project and time |
//! | `traces` | traces of sampled requests, to an OpenTelemetry collector |
//! | `nodes`, `node_states`, `node_list` | metrics of nodes and those that exports wait for; their list |
//! | `capacity` | metrics of log and disk capacity |
//! | `scraped` | metrics of process, engine, build and projects, which are read with each page |

#![forbid(unsafe_code)]

mod admin;
mod background_parts;
mod backlog_hold;
mod backup;
mod backup_dir;
mod bootstrap;
mod capacity;
mod catalog_identity;
mod cleanup;
mod cli;
mod clickhouse_sync;
mod clickhouse_users;
mod clickhouse_watch;
mod colors;
mod commands;
mod config;
mod connect;
mod created_dirs;
mod credentials;
mod data_dir;
mod disk_room;
mod doctor;
mod drain_request;
mod engine;
mod engine_process;
mod exports;
mod ingest;
mod ingest_logs;
mod key_fingerprint;
mod key_table;
mod live_endpoint;
mod live_nodes;
mod locked_file;
mod log_file;
mod logging;
mod node_list;
mod node_registration;
mod node_states;
mod nodes;
mod numbers;
mod other_process;
mod output;
mod own_client;
mod persons;
mod plain_listeners;
mod plugin_source;
mod poll_timeout;
mod preflight;
mod project_access;
mod project_queries;
mod property_columns;
#[cfg(test)]
mod reference;
mod rejected_events;
mod restore_mark;
mod scraped;
mod secret_key;
mod serve;
mod setting_args;
mod sign_in_link;
mod signals;
mod start_without_catalog;
mod starts_file;
mod stats;
mod thread_priority;
mod traces;

use clap::FromArgMatches;
use cli::{Cli, Command};
use config::{Config, FileError, Layers};
use logging::LogSource;
use output::fail;
use std::ffi::OsString;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Exit code for a command line or configuration that cannot be used (`EX_USAGE` of sysexits.h).
const EXIT_USAGE: u8 = 64;

fn main() -> ExitCode {
    // Files are for their owner only, also in a folder with wider permissions.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let args: Vec<OsString> = std::env::args_os().collect();
    if plugin_source::is_asked_for(&args) {
        return plugin_source::child();
    }
    if let Some(command) = cli::alone(&args) {
        let ran = commands::alone::run(cli::command(), &command).and_then(|()| output::finish());
        return ran.map_or_else(
            |error| fail(1, &format!("{error:#}")),
            |()| ExitCode::SUCCESS,
        );
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
    #[cfg(feature = "failpoints")]
    if let Some(point) = cli.panic_point {
        point.arm();
    }
    let supervised = is_supervised_engine(cli.command.as_ref());
    let settings = &cli.settings;
    let started = logging::start(&settings.logging, log_source(&cli));
    let checked = started.and_then(|()| Config::build(settings.clone()));
    let config = match checked {
        Ok(config) => config,
        Err(error) => return fail(EXIT_USAGE, &format!("{error:#}")),
    };
    let ran = run(&cli, &config, &layers).and_then(|()| match is_server(&cli) {
        // Nobody has to see its banner.
        true => Ok(()),
        false => output::finish(),
    });
    if let Err(error) = &ran
        && is_server(&cli)
        && settings.logging.log_file.is_some()
    {
        // Nobody may read standard error, where the error is written in any case.
        tracing::error!("the server ends: {error:#}");
    }
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if supervised => fail(engine::exit_code(&error), &format!("{error:#}")),
        Err(error) if is_of_settings(&error) => fail(EXIT_USAGE, &format!("{error:#}")),
        Err(error) => fail(1, &format!("{error:#}")),
    }
}

/// Returns true if the settings exclude each other, or what was used with others before.
fn is_of_settings(error: &anyhow::Error) -> bool {
    error.is::<preflight::SameAddress>()
        || error.is::<catalog_identity::OtherCatalog>()
        || error.is::<key_fingerprint::OtherSecretKey>()
}

fn run(cli: &Cli, config: &Config, layers: &Layers) -> anyhow::Result<()> {
    let invocation = commands::Invocation::new(cli::command(), &layers.matches);
    if needs_whole_folder(cli.command.as_ref()) {
        restore_mark::require_none(&config.data_dir)?;
    }
    match &cli.command {
        None | Some(Command::Serve) if cli.print_credentials => serve::print_credentials(config),
        None | Some(Command::Serve) => serve::run(config, serve::Parts::ALL),
        Some(Command::Ingest) => serve::run(config, serve::Parts::INGEST),
        Some(Command::Admin) => serve::run(config, serve::Parts::ADMIN),
        Some(Command::Clickhouse {
            parent,
            direct_port,
        }) => engine_process::run(config, *parent, *direct_port),
        Some(Command::ClickhouseUsers(command)) => commands::clickhouse_users::run(config, command),
        Some(Command::Columns(command)) => commands::columns::run(config, command),
        Some(Command::Credentials(command)) => commands::credentials::run(config, command),
        Some(Command::Migrate(migrate)) => commands::migrate::run(config, migrate),
        Some(Command::Query(query)) => commands::query::run(config, query),
        Some(Command::Tail(tail)) => commands::tail::run(config, tail),
        Some(Command::Config(format)) => {
            commands::show_settings(&cli::command(), config, layers, *format);
            Ok(())
        }
        Some(Command::Doctor(doctor)) => commands::doctor::run(config, *doctor),
        Some(Command::Keys(command)) => commands::keys::run(config, command),
        Some(Command::Organizations(command)) => commands::organizations::run(config, command),
        Some(Command::Members(command)) => commands::members::run(config, command),
        Some(Command::Invites(command)) => commands::invites::run(config, command),
        Some(Command::SignInLink(create)) => commands::sign_in_link::run(config, create),
        Some(Command::Migrations(command)) => commands::historical_migrations::run(config, command),
        Some(Command::Import(command)) => commands::import::run(config, command, &invocation),
        Some(Command::Nodes(command)) => commands::nodes::run(config, command),
        Some(Command::Rejected(command)) => {
            commands::rejected_events::run(config, command, &invocation)
        }
        Some(Command::Secrets(command)) => commands::secrets::run(config, command),
        Some(Command::Catalog(command)) => commands::catalog::run(config, command),
        Some(Command::Purge(purge)) => commands::purge::run(config, *purge, &invocation),
        Some(Command::Backup(backup)) => commands::backup::backup(config, backup),
        Some(Command::Restore(restore)) => commands::backup::restore(config, restore),
        Some(Command::Log(command)) => commands::log::run(config, command),
        Some(Command::Drain(drain)) => commands::drain::run(config, *drain),
        Some(Command::Alone(command)) => commands::alone::run(cli::command(), command),
    }
}

/// Returns false for commands that may see a folder of a restore that was cut off. All others could
/// take the addresses of the old server from its `credentials.json`.
fn needs_whole_folder(command: Option<&Command>) -> bool {
    // A restore has an engine of its own, and says itself what it needs.
    let may_see = matches!(command, Some(Command::Config(_) | Command::Restore(_)));
    !may_see && !is_supervised_engine(command)
}

/// Returns true for what runs until it is stopped.
fn is_server(cli: &Cli) -> bool {
    match &cli.command {
        None | Some(Command::Serve) => !cli.print_credentials,
        Some(Command::Ingest | Command::Admin | Command::Clickhouse { .. }) => true,
        Some(_) => false,
    }
}

/// Kind of this process, as its log needs it.
fn log_source(cli: &Cli) -> LogSource {
    match is_server(cli) {
        _ if is_supervised_engine(cli.command.as_ref()) => LogSource::SupervisedEngine,
        true => LogSource::Server,
        false => LogSource::Command,
    }
}

/// Returns true for the engine's process that another one supervises.
fn is_supervised_engine(command: Option<&Command>) -> bool {
    matches!(
        command,
        Some(Command::Clickhouse {
            parent: Some(_),
            ..
        })
    )
}

/// Prints an error of the command line, or the help or version that was asked for.
fn command_line(error: clap::Error) -> ExitCode {
    let error = cli::with_usage_of_help(error);
    let printed = error.print();
    if error.use_stderr() {
        // A closed standard error has no reader.
        return ExitCode::from(EXIT_USAGE);
    }
    output::keep(printed);
    match output::finish() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(1, &format!("{error:#}")),
    }
}
