//! The command line.

use crate::commands::{
    ListFormat, alone, backup, catalog, clickhouse_users, columns, credentials, doctor, drain,
    historical_migrations, import, invites, keys, log, members, migrate, nodes, organizations,
    purge, query, rejected_events, secrets, sign_in_link, tail,
};
use crate::config::Settings;
use crate::setting_args::{SERVERS, is_of_servers};
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;

/// Line below the help of commands that have a use for settings.
const ABOUT_SETTINGS: &str = "`millrace help settings` explains all settings of a server, \
                              `millrace config` prints their values.";

/// Takes analytics events over HTTP, answers when they are on disk, and puts each into ClickHouse
/// exactly once.
#[derive(Debug, Parser)]
#[command(
    name = "millrace",
    version,
    propagate_version = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Cli {
    /// Command to run; `serve` by default
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Print the keys and addresses of the first start again (serve)
    #[arg(long, global = true)]
    pub print_credentials: bool,
    /// Kill this process at a fail point, as in group-synced:12
    #[cfg(feature = "failpoints")]
    #[arg(
        long,
        hide = true,
        env = "MILLRACE_FAIL_POINT",
        value_name = "POINT:NTH"
    )]
    pub fail_point: Option<millrace_log::fail_point::Armed>,
    /// Panic in this process at a panic point, as in frame-read
    #[cfg(feature = "failpoints")]
    #[arg(long, hide = true, env = "MILLRACE_PANIC_POINT", value_name = "POINT")]
    pub panic_point: Option<millrace_log::panic_point::PanicPoint>,
    /// Settings
    #[command(flatten)]
    pub settings: Settings,
}

/// Builds the clap command. The help of a command shows its own options and the data folder;
/// `millrace help settings` explains the settings.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
        .mut_args(|arg| {
            let is_hidden = is_of_servers(&arg);
            arg.hide_short_help(is_hidden).hide_long_help(is_hidden)
        })
        .after_help(ABOUT_SETTINGS)
        .mut_subcommands(|inner| {
            let is_server = SERVERS.contains(&inner.get_name());
            match is_server {
                true => inner.after_help(ABOUT_SETTINGS),
                false => inner,
            }
        })
}

/// Parses the command line if it asks for a command that needs no settings; `None` for all others.
#[must_use]
pub fn alone(args: &[OsString]) -> Option<alone::Command> {
    let matches = command().try_get_matches_from(args).ok()?;
    match Cli::from_arg_matches(&matches).ok()?.command? {
        Command::Alone(command) => Some(command),
        _ => None,
    }
}

/// Replaces an error's usage line by that of the command's help: clap's own lists each setting that
/// was given, or is in the environment, as if it were required.
#[must_use]
pub fn with_usage_of_help(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else {
        return error;
    };
    let usage = usage.to_string();
    let words = usage.split_whitespace();
    let mut command = command();
    command.build();
    for word in words.skip_while(|word| *word != "millrace").skip(1) {
        match command.find_subcommand(word).cloned() {
            Some(inner) => command = inner,
            None => break,
        }
    }
    let usage = ContextValue::StyledStr(command.render_usage());
    error.insert(ContextKind::Usage, usage);
    error
}

/// Command of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run everything: ingestion, organization API, embedded ClickHouse (the default)
    Serve,
    /// Run ingestion alone
    Ingest,
    /// Run the organization API alone
    Admin,
    /// Run the embedded ClickHouse alone
    Clickhouse {
        /// Process that supervises the engine; the engine ends with it
        #[arg(long, hide = true)]
        parent: Option<u32>,
        /// Port of loopback where the engine itself listens for that process; 0 takes a free one
        #[arg(long, hide = true, default_value_t = 0)]
        direct_port: u16,
    },
    /// List the users of ClickHouse, and change their passwords
    #[command(subcommand)]
    ClickhouseUsers(clickhouse_users::Command),
    /// List the properties that are columns of events, add some, remove some, suggest some
    #[command(subcommand)]
    Columns(columns::Command),
    /// Print the keys and addresses of the first start, or the password of a user of ClickHouse
    Credentials(credentials::Show),
    /// Apply the schema migrations of catalog and ClickHouse
    Migrate(migrate::Migrate),
    /// Run SQL over the rows of a project
    Query(query::Query),
    /// Show the events of a project as they arrive, accepted or rejected
    Tail(tail::Tail),
    /// Print the settings and where each comes from
    Config(ListFormat),
    /// Check disks, clocks, limits, ports and services, and say what to do
    ///
    /// Changes nothing, and a server may run meanwhile. The exit status is 1 if an error was found.
    Doctor(doctor::Doctor),
    /// Create, list and revoke keys
    #[command(subcommand)]
    Keys(keys::Command),
    /// Create and list organizations, and choose their features
    #[command(subcommand)]
    Organizations(organizations::Command),
    /// List the members of an organization, change their levels, remove them
    #[command(subcommand)]
    Members(members::Command),
    /// Invite people into an organization
    #[command(subcommand)]
    Invites(invites::Command),
    /// Create a link that signs a person in on a browser, once, within 15 minutes
    SignInLink(sign_in_link::Create),
    /// Approve or reject imports of past events above the default quota
    #[command(subcommand)]
    Migrations(historical_migrations::Command),
    /// Import past events from other tools and files
    #[command(subcommand)]
    Import(import::Command),
    /// List the nodes that accept events with their watermarks, and deregister one that is gone
    #[command(subcommand)]
    Nodes(nodes::Command),
    /// List, show and resend rejected events
    #[command(subcommand)]
    Rejected(rejected_events::Command),
    /// Rotate the key that encrypts secrets of destinations, or give a lost one up
    #[command(subcommand)]
    Secrets(secrets::Command),
    /// Move the catalog to another database
    #[command(subcommand)]
    Catalog(catalog::Command),
    /// Delete the events of deleted projects
    Purge(purge::Purge),
    /// Back up the data of a running server to a new folder
    Backup(backup::Backup),
    /// Create a data folder from a backup
    Restore(backup::Restore),
    /// Inspect the log
    #[command(subcommand)]
    Log(log::Command),
    /// Have the server of a data folder accept no more events, ship its log, deregister and end
    ///
    /// The grace period does not apply: the server ends once its log is empty, however long
    /// ClickHouse is away. SIGTERM ends it earlier; the next start ships the rest.
    Drain(drain::Drain),
    /// Commands that need no settings
    #[command(flatten)]
    Alone(alone::Command),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;
    use clap::error::ErrorKind;

    fn global_names() -> Vec<String> {
        let command = Cli::command();
        let global = command.get_arguments().filter(|arg| arg.is_global_set());
        global.map(|arg| arg.get_id().to_string()).collect()
    }

    /// An option and a setting of one name would shadow each other.
    #[test]
    fn no_option_of_a_command_has_the_name_of_a_setting() {
        fn walk(command: &clap::Command, global: &[String]) {
            for arg in command.get_arguments().filter(|arg| !arg.is_global_set()) {
                let name = arg.get_id().to_string();
                assert!(!global.contains(&name), "{}: {name}", command.get_name());
            }
            command.get_subcommands().for_each(|it| walk(it, global));
        }
        let global = global_names();
        assert!(global.contains(&"secret_key".to_owned()));
        Cli::command()
            .get_subcommands()
            .for_each(|it| walk(it, &global));
    }

    #[test]
    fn the_help_of_a_command_leaves_the_settings_out() {
        let mut command = command();
        command.build();
        for path in [&[][..], &["serve"], &["query"], &["import", "load"]] {
            let inner = path.iter().fold(&command, |command, name| {
                command.find_subcommand(name).unwrap()
            });
            let mut inner = inner.clone();
            let (short, long) = (inner.render_help(), inner.render_long_help());
            for help in [short.to_string(), long.to_string()] {
                assert!(help.contains("--data-dir <DIR>"), "{path:?}: {help}");
                assert!(!help.contains("--ingest-addr"), "{path:?}: {help}");
                let is_server = path.first().is_none_or(|name| SERVERS.contains(name));
                let has_hint = help.contains("millrace help settings");
                assert_eq!(has_hint, is_server, "{path:?}: {help}");
            }
        }
    }

    #[test]
    fn commands_without_settings_are_found_where_settings_are_wrong() {
        let table = [
            ("help settings", true),
            ("help", true),
            ("completions bash", true),
            ("--data-dir x man --to y", true),
            ("completions tcsh", false),
            ("keys list", false),
            ("serve", false),
            ("", false),
        ];
        for (line, is_alone) in table {
            let words = ["millrace"].into_iter().chain(line.split_whitespace());
            let words: Vec<OsString> = words.map(OsString::from).collect();
            assert_eq!(alone(&words).is_some(), is_alone, "{line}");
        }
    }

    /// Errors of all visible options of a command and its subcommands for a value that is none.
    fn value_errors(root: &clap::Command, path: &[&str], command: &clap::Command) -> Vec<String> {
        let is_own = |arg: &&Arg| path.is_empty() || !arg.is_global_set();
        let own = command.get_arguments().filter(is_own);
        let own = own.filter(|arg| arg.get_action().takes_values() && !arg.is_hide_set());
        let mut errors: Vec<String> = own
            .filter_map(|arg| {
                let value = match arg.get_long() {
                    Some(name) => format!("--{name}=?!"),
                    None => "?!".to_owned(),
                };
                let line = ["millrace"].iter().chain(path).copied();
                let line: Vec<&str> = line.chain([value.as_str()]).collect();
                let error = root.clone().try_get_matches_from(line).err()?;
                (error.kind() == ErrorKind::ValueValidation).then(|| error.to_string())
            })
            .collect();
        for inner in command.get_subcommands().filter(|it| !it.is_hide_set()) {
            let path = [path, &[inner.get_name()]].concat();
            errors.extend(value_errors(root, &path, inner));
        }
        errors
    }

    #[test]
    fn a_value_that_cannot_be_used_is_refused_with_an_example() {
        let root = command();
        let errors = value_errors(&root, &[], &root);
        assert!(errors.len() > 40, "{errors:?}");
        for error in errors {
            let has_example = error.contains("such as") || error.contains(" or ");
            assert!(has_example, "{error}");
        }
    }

    #[test]
    fn every_command_that_lists_or_shows_prints_json() {
        const LISTS: [&str; 6] = ["list", "show", "inspect", "suggest", "features", "config"];
        fn walk(command: &clap::Command, count: &mut u32) {
            let name = command.get_name();
            if LISTS.contains(&name) {
                let has_json = command.get_arguments().any(|arg| arg.get_id() == "json");
                assert!(has_json, "{name}");
                *count += 1;
            }
            command.get_subcommands().for_each(|it| walk(it, count));
        }
        let mut count = 0;
        walk(&Cli::command(), &mut count);
        assert!(count > 10, "{count}");
    }

    #[test]
    fn an_option_that_was_renamed_has_its_former_name_as_an_alias() {
        let table = [
            ("keys create", "project_id", "team-id"),
            ("migrations approve", "project_id", "team-id"),
            ("rejected list", "project_id", "team-id"),
            ("rejected show", "project_id", "team-id"),
            ("rejected resend", "project_id", "team-id"),
            ("import reconcile", "project_id", "team-id"),
            ("import fetch clickhouse", "from_project_id", "from-team-id"),
            ("import load", "give_up_after", "patience"),
        ];
        for (path, id, former) in table {
            let mut command = &Cli::command();
            for name in path.split(' ') {
                command = command.find_subcommand(name).unwrap();
            }
            let mut arguments = command.get_arguments();
            let argument = arguments.find(|argument| argument.get_id() == id).unwrap();
            let aliases = argument.get_all_aliases().unwrap_or_default();
            assert!(aliases.contains(&former), "{path}: {aliases:?}");
        }
    }
}
