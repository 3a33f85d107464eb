//! The command line.

use crate::commands::{
    backup, catalog, clickhouse_users, columns, credentials, drain, historical_migrations, import,
    invites, keys, log, members, migrate, nodes, organizations, purge, query, rejected_events,
    secrets, sign_in_link, tail,
};
use crate::config::Settings;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, CommandFactory, Parser, Subcommand};

/// Heading of the settings in `--help`, below the options of the command itself.
const SETTINGS: &str = "Settings of the server";

/// Takes analytics events over HTTP, answers when they are on disk, and puts each into ClickHouse
/// exactly once.
#[derive(Debug, Parser)]
#[command(
    name = "millrace",
    version,
    propagate_version = true,
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

/// Builds the clap command. `-h` shows a command's own options and the data folder; `--help` all
/// settings as well.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
        .mut_args(|arg| {
            let is_common = arg.get_id() == "config" || arg.get_id() == "data_dir";
            let hidden = arg.get_env().is_some() && !is_common;
            let arg = arg.hide_short_help(hidden);
            match hidden {
                true => arg.help_heading(SETTINGS),
                false => arg,
            }
        })
        .mut_subcommand("import", with_short_help)
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

/// Makes `--help` of a command the short help, as imports do not need the settings of a server.
fn with_short_help(command: clap::Command) -> clap::Command {
    let help = Arg::new("help")
        .short('h')
        .long("help")
        .help("Print help")
        .action(ArgAction::HelpShort);
    command
        .disable_help_flag(true)
        .arg(help)
        .mut_subcommands(with_short_help)
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
    Config,
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_settings_are_below_the_options_of_a_command_in_its_help() {
        let mut command = command();
        command.build();
        let query = command.find_subcommand_mut("query").unwrap();
        let help = query.render_long_help().to_string();
        let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text}: {help}"));
        let heading = at("\nSettings of the server:\n");
        for option in ["--project <ID>", "--format <FORMAT>", "--data-dir <DIR>"] {
            assert!(at(option) < heading, "{option}: {help}");
        }
        assert!(at("--ingest-addr <ADDR>") > heading, "{help}");
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
