//! `millrace organizations`: creates and lists organizations, and sets their features.

use super::list_format::{ListFormat, print_object};
use super::{counted, table};
use crate::config::Config;
use crate::connect;
use crate::numbers::uuid_of;
use crate::output;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use millrace_catalog::{Actor, Catalog, FEATURES, Organization};
use millrace_exports::set_features;
use millrace_organizations::{Organizations, Projects, Users};
use millrace_rows::shown;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Subcommand of `millrace organizations`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Create an organization, with a project and its key
    Create {
        /// Name of the organization
        #[arg(long)]
        name: String,
        /// Email address of the owner
        #[arg(long, value_name = "EMAIL")]
        owner: Option<String>,
    },
    /// List organizations
    List(ListFormat),
    /// Show the features of an organization, switch features off and on
    Features {
        /// Organization
        #[command(flatten)]
        organization: OrganizationArgument,
        /// Features to switch on, as in saml,data_pipelines
        #[arg(long, value_name = "KEYS", value_delimiter = ',')]
        on: Vec<String>,
        /// Features to switch off; without data_pipelines its batch exports are paused
        #[arg(long, value_name = "KEYS", value_delimiter = ',')]
        off: Vec<String>,
        /// Access to plugins: 0 none, 3 configure, 6 install, 9 share them
        #[arg(long, value_name = "LEVEL", value_parser = plugins_level_of)]
        plugins_access_level: Option<i16>,
        /// Format of the list
        #[command(flatten)]
        format: ListFormat,
    },
}

/// The organization that a command is about.
#[derive(Args, Clone, Copy, Debug)]
pub struct OrganizationArgument {
    /// Id of the organization; by default the only one
    #[arg(long, value_name = "ID", value_parser = uuid_of)]
    organization: Option<Uuid>,
}

impl OrganizationArgument {
    /// Id of the organization.
    ///
    /// # Errors
    /// When no organization has the given id, or none was given and there is not exactly one.
    pub async fn id(&self, catalog: &Catalog) -> anyhow::Result<Uuid> {
        let all = Organizations::new(catalog).list_all().await?;
        match (self.organization, all.as_slice()) {
            (Some(id), all) if all.iter().any(|organization| organization.id == id) => Ok(id),
            (Some(id), _) => {
                bail!("there is no organization {id}; `millrace organizations list` shows them")
            }
            (None, [only]) => Ok(only.id),
            (None, []) => {
                bail!("there is no organization; `millrace organizations create` creates one")
            }
            (None, all) => bail!(
                "there are {}; name one with --organization ID, as \
                 `millrace organizations list` shows it",
                counted(all.len() as u64, "organization")
            ),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// When the catalog cannot be opened or refuses.
pub fn run(config: &Config, command: &Command) -> anyhow::Result<()> {
    connect::with_catalog(config, async |catalog| match command {
        Command::Create { name, owner } => create(catalog, name, owner.as_deref()).await,
        Command::List(format) => list(catalog, *format).await,
        Command::Features {
            organization,
            on,
            off,
            plugins_access_level,
            format,
        } => {
            let id = organization.id(catalog).await?;
            let set = set_access(catalog, id, on, off, *plugins_access_level).await?;
            print_features(&set, *format);
            Ok(())
        }
    })
}

async fn create(catalog: &Catalog, name: &str, owner: Option<&str>) -> anyhow::Result<()> {
    let owner_id = match owner {
        Some(email) => {
            let user = Users::new(catalog).by_email(email).await?;
            let user = user.with_context(|| {
                format!(
                    "there is no user {email:?}; omit --owner and invite them afterwards with \
                     `millrace invites create --level owner`"
                )
            });
            Some(user?.id)
        }
        None => None,
    };
    let organization = Organizations::new(catalog)
        .create(&Actor::command_line(), name, owner_id)
        .await?;
    output::print(&format!(
        "Organization {} is there: {}",
        shown(&organization.name),
        organization.id
    ));
    for project in Projects::new(catalog)
        .list_all(Some(organization.id))
        .await?
    {
        let key = project.api_token.unwrap_or_default();
        output::print(&format!(
            "Its project {:?} has the id {} and the key {}",
            project.name,
            project.id,
            shown(&key)
        ));
    }
    if owner_id.is_none() {
        output::print(&format!(
            "It has no members yet: `millrace invites create --organization {} --level owner \
             --email ...` creates a link for its owner",
            organization.id
        ));
    }
    Ok(())
}

async fn list(catalog: &Catalog, format: ListFormat) -> anyhow::Result<()> {
    let organizations = Organizations::new(catalog).list_all().await?;
    if format.is_json() {
        let organizations = organizations.iter().map(|organization| {
            json!({
                "id": organization.id,
                "name": organization.name,
                "created_at": organization.created_at.to_string(),
            })
        });
        let organizations: Vec<Value> = organizations.collect();
        print_object(&json!({ "organizations": organizations }));
        return Ok(());
    }
    let rows = organizations.into_iter().map(|organization| {
        [
            organization.id.to_string(),
            organization.name,
            organization.created_at.day(),
        ]
    });
    table::print(
        ["ID", "NAME", "CREATED"],
        rows.collect(),
        "There are no organizations.",
    );
    Ok(())
}

/// Changes features and the level of plugins as far as they are given.
async fn set_access(
    catalog: &Catalog,
    id: Uuid,
    on: &[String],
    off: &[String],
    plugins_access_level: Option<i16>,
) -> anyhow::Result<Organization> {
    let actor = Actor::command_line();
    let organizations = Organizations::new(catalog);
    // Whoever only looks waits for nobody who writes.
    let found = organizations.get(id).await?;
    let mut set = found.with_context(|| {
        format!("there is no organization {id}; `millrace organizations list` shows them")
    })?;
    if !on.is_empty() || !off.is_empty() {
        let changed = set_features(catalog, &actor, id, on, off).await;
        set =
            changed.context("nothing changed; `millrace organizations features` shows the keys")?;
    }
    if let Some(level) = plugins_access_level {
        let leveled = organizations
            .set_plugins_access_level(&actor, id, level)
            .await;
        let kept = match on.is_empty() && off.is_empty() {
            true => "nothing changed",
            false => "the features are set, and the level is as before",
        };
        set = leveled.context(kept)?;
    }
    Ok(set)
}

fn print_features(organization: &Organization, format: ListFormat) {
    let level = organization.plugins_access_level;
    if format.is_json() {
        let features = FEATURES.iter().map(|feature| {
            let is_on = organization.has_feature(*feature);
            (feature.key.to_owned(), Value::from(is_on))
        });
        let features: Map<String, Value> = features.collect();
        print_object(&json!({
            "organization_id": organization.id,
            "features": features,
            "plugins_access_level": level,
        }));
        return;
    }
    let rows = FEATURES.iter().map(|feature| {
        let state = match organization.has_feature(*feature) {
            true => "on",
            false => "off",
        };
        [feature.key, state, feature.description].map(str::to_owned)
    });
    table::print(["KEY", "", "WHAT IT IS"], rows.collect(), "");
    output::print(&format!(
        "\nIts access to plugins has level {level}: 0 nothing, 3 configure, 6 install, 9 share."
    ));
}

/// Parses a level of access to plugins; the catalog knows which there are.
fn plugins_level_of(text: &str) -> Result<i16, String> {
    text.parse()
        .map_err(|_| "give the number of a level, such as 6".to_owned())
}
