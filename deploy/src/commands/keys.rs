//! `millrace keys`: creates, lists and revokes project keys, which post events, and personal keys,
//! which call the organization API.

use super::list_format::{ListFormat, print_object};
use super::table;
use crate::config::Config;
use crate::connect;
use crate::numbers::{project, uuid_of};
use crate::output;
use anyhow::{Context, bail};
use clap::{ArgGroup, Args, Subcommand};
use millrace_catalog::{Actor, Catalog, PersonalKeyRecord, Project, Scopes, UtcTime};
use millrace_organizations::{
    NewPersonalKey, NewProject, Organizations, PersonalKeys, ProjectKeyChanges, Projects, Users,
};
use millrace_rows::{ProjectId, shown};
use serde_json::{Value, json};
use uuid::Uuid;

/// Subcommand of `millrace keys`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Create a key: personal (--user), of a new project (--project), or of an existing project
    /// (--project-id)
    Create(Box<Create>),
    /// List keys; personal keys are masked
    List(ListFormat),
    /// Revoke a key: a project's key, or the id or value of a personal one; rejected everywhere
    /// within 2 s
    Revoke {
        /// Key to revoke
        key: String,
    },
}

/// Key to create.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("which").required(true).args(["user", "project", "project_id"])))]
pub struct Create {
    /// Email address of the owner of a personal key
    #[arg(long, value_name = "EMAIL")]
    user: Option<String>,
    /// Purpose of the personal key
    #[arg(long, requires = "user", default_value = "Command line")]
    label: String,
    /// Scopes of the personal key, as in organization:read,project:write
    #[arg(long, requires = "user", default_value = "*", value_delimiter = ',')]
    scopes: Vec<String>,
    /// Expiry of the personal key, as in 2027-01-31T00:00:00Z
    #[arg(long, requires = "user", value_parser = time_of)]
    expires_at: Option<UtcTime>,
    /// Name of a new project
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Organization of the new project; the first one by default
    #[arg(long, requires = "project", value_name = "ID", value_parser = uuid_of)]
    organization: Option<Uuid>,
    /// Id of an existing project
    #[arg(long, alias = "team-id", value_name = "N", value_parser = project::<i64>)]
    project_id: Option<i64>,
    /// Replace the key of the project; the old key is rejected at once
    #[arg(long, requires = "project_id")]
    rotate: bool,
    /// Value of the new project key, for SDKs that have it already
    #[arg(long, conflicts_with = "user", value_name = "KEY")]
    key: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// When the catalog cannot be opened or refuses.
pub fn run(config: &Config, command: &Command) -> anyhow::Result<()> {
    connect::with_catalog(config, async |catalog| match command {
        Command::Create(create) => create_key(catalog, create).await,
        Command::List(format) => list(catalog, *format).await,
        Command::Revoke { key } => revoke(catalog, key).await,
    })
}

async fn create_key(catalog: &Catalog, create: &Create) -> anyhow::Result<()> {
    if let Some(email) = &create.user {
        if Users::new(catalog).by_email(email).await?.is_none() {
            bail!(
                "there is no user {email:?}; `millrace invites create --email {}` creates a link \
                 to invite them",
                shown(email)
            );
        }
        let created = PersonalKeys::new(catalog)
            .create(
                &Actor::command_line(),
                NewPersonalKey {
                    email: email.clone(),
                    label: create.label.clone(),
                    scopes: Scopes::parse(create.scopes.iter().map(String::as_str))?,
                    expires_at: create.expires_at,
                    scoped_organizations: None,
                },
            )
            .await?;
        output::print(&format!(
            "{}\n\nThe key is not shown again. Its id is {}.",
            created.value.expose(),
            created.record.id
        ));
        return Ok(());
    }
    let project = match (&create.project, create.project_id) {
        (Some(name), _) => {
            let organization = match create.organization {
                Some(id) => id,
                None => first_organization(catalog).await?,
            };
            let project = NewProject {
                key: create.key.clone(),
                ..NewProject::named(name)
            };
            Projects::new(catalog)
                .create(&Actor::command_line(), organization, project)
                .await?
        }
        (None, Some(number)) if create.rotate => {
            ProjectKeyChanges::new(catalog)
                .rotate(
                    &Actor::command_line(),
                    ProjectId(number),
                    create.key.clone(),
                )
                .await?
        }
        (None, number) => {
            let project_id =
                ProjectId(number.context("name a user, a new project or the id of a project")?);
            ProjectKeyChanges::new(catalog)
                .create(&Actor::command_line(), project_id, create.key.clone())
                .await?
        }
    };
    output::print(&project.api_token.unwrap_or_default());
    Ok(())
}

async fn first_organization(catalog: &Catalog) -> anyhow::Result<Uuid> {
    let organizations = Organizations::new(catalog).list_all().await?;
    let first = organizations
        .first()
        .context("there is no organization; create one first")?;
    Ok(first.id)
}

async fn list(catalog: &Catalog, format: ListFormat) -> anyhow::Result<()> {
    let projects = Projects::new(catalog).list_all(None).await?;
    let users = Users::new(catalog).list().await?;
    let email_of = |id: i64| {
        let user = users.iter().find(|user| user.id == id);
        user.map_or_else(|| id.to_string(), |user| user.email.clone())
    };
    let keys = PersonalKeys::new(catalog).list(None).await?.into_iter();
    let keys = keys.map(|key| OwnedKey {
        user: email_of(key.user_id),
        key,
    });
    let keys: Vec<OwnedKey> = keys.collect();
    if format.is_json() {
        let projects: Vec<Value> = projects.iter().map(project_object).collect();
        let keys: Vec<Value> = keys.iter().map(OwnedKey::object).collect();
        print_object(&json!({ "projects": projects, "personal_keys": keys }));
        return Ok(());
    }
    table::print(
        ["PROJECT", "NAME", "KEY", "ORGANIZATION"],
        projects.into_iter().map(project_row).collect(),
        "There are no projects.",
    );
    output::print("");
    let headings = [
        "ID",
        "USER",
        "LABEL",
        "KEY",
        "SCOPES",
        "EXPIRES",
        "LAST USED",
    ];
    let rows = keys.into_iter().map(OwnedKey::row).collect();
    table::print(headings, rows, "There are no personal keys.");
    Ok(())
}

fn project_object(project: &Project) -> Value {
    json!({
        "id": project.id,
        "name": project.name,
        "api_token": project.api_token,
        "organization_id": project.organization_id,
    })
}

fn project_row(project: Project) -> [String; 4] {
    let key = project.api_token.unwrap_or_else(|| "(none)".to_owned());
    [
        project.id.to_string(),
        project.name,
        key,
        project.organization_id.to_string(),
    ]
}

/// Personal key with the email address of its owner.
struct OwnedKey {
    user: String,
    key: PersonalKeyRecord,
}

impl OwnedKey {
    fn object(&self) -> Value {
        let key = &self.key;
        json!({
            "id": key.id,
            "user": self.user,
            "label": key.label,
            "mask_value": key.mask_value,
            "scopes": key.scopes.as_slice(),
            "expires_at": key.expires_at.map(|at| at.to_string()),
            "last_used_at": key.last_used_at.map(|at| at.to_string()),
        })
    }

    fn row(self) -> [String; 7] {
        let day_of = |at: Option<UtcTime>| at.map_or_else(|| "never".to_owned(), UtcTime::day);
        let key = self.key;
        [
            key.id.to_string(),
            self.user,
            key.label,
            key.mask_value,
            key.scopes.as_slice().join(","),
            day_of(key.expires_at),
            day_of(key.last_used_at),
        ]
    }
}

async fn revoke(catalog: &Catalog, key: &str) -> anyhow::Result<()> {
    if key.starts_with("phx_") || Uuid::parse_str(key).is_ok() {
        let revoked = PersonalKeys::new(catalog)
            .revoke(&Actor::command_line(), key)
            .await?;
        output::print(&format!(
            "The personal key {} ({}) is revoked.",
            revoked.mask_value,
            shown(&revoked.label)
        ));
    } else {
        let project = ProjectKeyChanges::new(catalog)
            .revoke(&Actor::command_line(), key)
            .await?;
        output::print(&format!(
            "The key of project {} ({}) is revoked; `millrace keys create --project-id {}` gives it another.",
            project.id,
            shown(&project.name),
            project.id
        ));
    }
    Ok(())
}

fn time_of(text: &str) -> Result<UtcTime, String> {
    UtcTime::from_rfc3339(text).ok_or_else(|| "give a time such as 2027-01-31T00:00:00Z".to_owned())
}
