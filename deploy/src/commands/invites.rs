//! `millrace invites`: creates signup links for new members.

use super::members::level_of;
use super::organizations::OrganizationArgument;
use crate::config::Config;
use crate::connect;
use crate::credentials::Credentials;
use crate::output;
use clap::{Args, Subcommand};
use millrace_catalog::{Actor, Level};
use millrace_organizations::{Invites, NewInvite};
use millrace_rows::shown;

/// Subcommand of `millrace invites`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Create an invite and print its link; no mail is sent
    Create(Create),
}

/// Person to invite.
#[derive(Args, Clone, Debug)]
pub struct Create {
    #[command(flatten)]
    organization: OrganizationArgument,
    /// Email address of the person to invite
    #[arg(long)]
    email: String,
    /// Level of the new member: 1 or member, 8 or administrator, 15 or owner
    #[arg(long, default_value = "1", value_parser = level_of)]
    level: Level,
    /// First name of the person
    #[arg(long, value_name = "NAME", default_value = "")]
    first_name: String,
}

/// Runs the command.
///
/// # Errors
/// When the catalog cannot be opened or refuses.
pub fn run(config: &Config, command: &Command) -> anyhow::Result<()> {
    let Command::Create(create) = command;
    // An invite whose link cannot be printed would be of no use.
    let base = base_url(config)?;
    connect::with_catalog(config, async |catalog| {
        let id = create.organization.id(catalog).await?;
        let new = NewInvite {
            first_name: create.first_name.clone(),
            level: create.level,
            ..NewInvite::to(&create.email)
        };
        let actor = Actor::command_line();
        let sent = Invites::new(catalog).create(&actor, id, new).await?;
        output::print(&format!(
            "{base}/signup/{}\n\nThe link makes {} {} of {}. It works once, until {}, for anybody \
             who has it.",
            sent.token.expose(),
            shown(&sent.invite.record.target_email),
            create.level,
            shown(&sent.organization.name),
            sent.invite.record.expires_at,
        ));
        Ok(())
    })
}

/// Base URL of pages for people: as configured, or the address of the local server.
pub(super) fn base_url(config: &Config) -> anyhow::Result<String> {
    if let Some(url) = &config.admin_public_url {
        return Ok(url.clone());
    }
    let running = Credentials::load(&config.credentials_path())?;
    let running = running.map(|running| running.admin_url);
    // It is empty where the organization API has not run yet.
    let url = running.filter(|url| !url.is_empty());
    let url = url.unwrap_or_else(|| config.listener_url(config.admin_addr));
    Ok(url.trim_end_matches('/').to_owned())
}
