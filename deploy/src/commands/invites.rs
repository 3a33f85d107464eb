//! `millrace invites`: links with which people become members.

use super::members::level_of;
use super::organizations::Chosen;
use crate::config::Config;
use crate::credentials::Credentials;
use crate::open;
use clap::{Args, Subcommand};
use millrace_catalog::{Actor, Level, NewInvite};
use millrace_rows::shown;

/// What to do with invites.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Invite somebody: prints the link to give them. No mail is sent
    Create(Create),
}

/// Who is to be invited.
#[derive(Args, Clone, Debug)]
pub struct Create {
    #[command(flatten)]
    organization: Chosen,
    /// Whom
    #[arg(long)]
    email: String,
    /// What they will be: 1 or member, 8 or administrator, 15 or owner
    #[arg(long, default_value = "1", value_parser = level_of)]
    level: Level,
    /// Their first name
    #[arg(long, value_name = "NAME", default_value = "")]
    first_name: String,
}

/// Runs the command.
///
/// # Errors
/// When the catalog cannot be opened or refuses.
pub fn run(config: &Config, command: &Command) -> anyhow::Result<()> {
    let Command::Create(create) = command;
    open::on_catalog(config, async |catalog| {
        let id = create.organization.id(catalog).await?;
        let new = NewInvite {
            first_name: create.first_name.clone(),
            level: create.level,
            ..NewInvite::to(&create.email)
        };
        let actor = Actor::command_line();
        let sent = catalog.create_invite(&actor, id, new).await?;
        let base = base_url(config)?;
        crate::print(&format!(
            "{base}/signup/{}\n\nIt makes {} {} of {}, once, until {}. Whoever has the link can use it.",
            sent.token.expose(),
            shown(&sent.invite.record.target_email),
            create.level,
            shown(&sent.organization.name),
            sent.invite.record.expires_at,
        ));
        Ok(())
    })
}

/// Where people find the signup page: as configured, or where the server here listens.
fn base_url(config: &Config) -> anyhow::Result<String> {
    if let Some(url) = &config.admin_public_url {
        return Ok(url.clone());
    }
    let running = Credentials::load(&config.credentials_path())?;
    let listening = || format!("http://{}", config.admin_addr);
    let url = running.map_or_else(listening, |running| running.admin_url);
    Ok(url.trim_end_matches('/').to_owned())
}
