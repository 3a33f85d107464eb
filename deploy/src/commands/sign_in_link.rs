//! `millrace sign-in-link`: creates a link that signs a person in.

use super::invites::base_url;
use crate::config::Config;
use crate::connect;
use crate::output;
use crate::sign_in_link;
use anyhow::bail;
use clap::Args;
use millrace_catalog::Actor;
use millrace_organizations::Users;
use millrace_rows::shown;

/// Person to sign in.
#[derive(Args, Clone, Debug)]
pub struct Create {
    /// Email address of the person, who needs an account
    #[arg(long)]
    email: String,
}

/// Runs the command.
///
/// # Errors
/// When there is no such account, or the catalog cannot be opened or refuses.
pub fn run(config: &Config, create: &Create) -> anyhow::Result<()> {
    // A link that cannot be printed would be of no use.
    let (base, email) = (base_url(config)?, create.email.as_str());
    connect::with_catalog(config, async |catalog| {
        if Users::new(catalog).by_email(email).await?.is_none() {
            bail!(
                "there is no user {email:?}; `millrace invites create --email {}` creates a link \
                 to invite them",
                shown(email)
            );
        }
        let actor = Actor::command_line();
        let link = sign_in_link::create(catalog, &actor, &base, email).await?;
        output::print(&format!(
            "{}\n\nThe link signs {} in, once, until {}, for anybody who has it.",
            link.url,
            shown(email),
            link.expires_at,
        ));
        Ok(())
    })
}
