//! `millrace organizations`.

use super::table;
use crate::config::Config;
use crate::open;
use anyhow::Context;
use clap::Subcommand;
use millrace_catalog::Actor;

/// What to do with organizations.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Create an organization, with a project and its key
    Create {
        /// What people call it
        #[arg(long)]
        name: String,
        /// Address of the user who will own it
        #[arg(long, value_name = "EMAIL")]
        owner: Option<String>,
    },
    /// List organizations
    List,
}

/// Runs the command.
///
/// # Errors
/// When the catalog cannot be opened or refuses.
pub fn run(config: &Config, command: &Command) -> anyhow::Result<()> {
    open::block_on(async {
        match command {
            Command::Create { name, owner } => create(config, name, owner.as_deref()).await,
            Command::List => list(config).await,
        }
    })
}

async fn create(config: &Config, name: &str, owner: Option<&str>) -> anyhow::Result<()> {
    let catalog = open::catalog(config).await?;
    let owner_id = match owner {
        Some(email) => {
            let user = catalog.user_by_email(email).await?;
            Some(
                user.with_context(|| format!("there is no user {email:?}"))?
                    .id,
            )
        }
        None => None,
    };
    let organization = catalog
        .create_organization(&Actor::command_line(), name, owner_id)
        .await?;
    crate::print(&format!(
        "Organization {} is there: {}",
        organization.name, organization.id
    ));
    for project in catalog.list_projects(Some(organization.id)).await? {
        let key = project.api_token.unwrap_or_default();
        crate::print(&format!(
            "Its project {:?} has number {} and key {key}",
            project.name, project.id
        ));
    }
    Ok(())
}

async fn list(config: &Config) -> anyhow::Result<()> {
    let catalog = open::catalog(config).await?;
    let organizations = catalog.list_organizations().await?;
    let rows = organizations.into_iter().map(|organization| {
        [
            organization.id.to_string(),
            organization.name,
            super::keys::day(organization.created_at),
        ]
    });
    table::print(
        ["ID", "NAME", "CREATED"],
        rows.collect(),
        "There are no organizations.",
    );
    Ok(())
}
