//! `millrace members`: lists the members of an organization, sets their levels, removes them.

use super::list_format::{ListFormat, print_object};
use super::organizations::OrganizationArgument;
use super::table;
use crate::config::Config;
use crate::connect;
use crate::output;
use anyhow::Context;
use clap::{Args, Subcommand};
use millrace_catalog::{Actor, Catalog, Level, PageRequest};
use millrace_organizations::{Member, Members};
use millrace_rows::shown;
use serde_json::{Value, json};
use uuid::Uuid;

/// Members that are read at once.
const PAGE_ROWS: u64 = 1000;

/// Subcommand of `millrace members`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// List the members of an organization
    List {
        /// Organization
        #[command(flatten)]
        organization: OrganizationArgument,
        /// Format of the list
        #[command(flatten)]
        format: ListFormat,
    },
    /// Change the level of a member; the last owner stays an owner
    SetLevel {
        /// Member
        #[command(flatten)]
        member: MemberArguments,
        /// New level: 1 or member, 8 or administrator, 15 or owner
        #[arg(long, value_parser = level_of)]
        level: Level,
    },
    /// Remove a member from an organization; the last owner cannot be removed
    Remove {
        /// Member
        #[command(flatten)]
        member: MemberArguments,
    },
}

/// A member of an organization.
#[derive(Args, Clone, Debug)]
pub struct MemberArguments {
    #[command(flatten)]
    organization: OrganizationArgument,
    /// Email address of the member
    #[arg(long, value_name = "EMAIL")]
    user: String,
}

/// Runs the command.
///
/// # Errors
/// When the catalog cannot be opened or refuses.
pub fn run(config: &Config, command: &Command) -> anyhow::Result<()> {
    connect::with_catalog(config, async |catalog| match command {
        Command::List {
            organization,
            format,
        } => list(catalog, organization, *format).await,
        Command::SetLevel { member, level } => set_level(catalog, member, *level).await,
        Command::Remove { member } => remove(catalog, member).await,
    })
}

async fn list(
    catalog: &Catalog,
    organization: &OrganizationArgument,
    format: ListFormat,
) -> anyhow::Result<()> {
    let id = organization.id(catalog).await?;
    let mut members: Vec<Member> = Vec::new();
    loop {
        let page = PageRequest {
            limit: PAGE_ROWS,
            offset: members.len() as u64,
        };
        let part = Members::new(catalog).list(id, None, page).await?;
        let is_last = (part.rows.len() as u64) < PAGE_ROWS;
        members.extend(part.rows);
        if is_last {
            break;
        }
    }
    if format.is_json() {
        let members: Vec<Value> = members.iter().map(object).collect();
        print_object(&json!({ "organization_id": id, "members": members }));
        return Ok(());
    }
    table::print(
        ["USER", "NAME", "LEVEL", "", "JOINED", "ID"],
        members.into_iter().map(row).collect(),
        "The organization has no members; `millrace invites create --level owner` invites one.",
    );
    Ok(())
}

fn object(member: &Member) -> Value {
    json!({
        "id": member.user.uuid,
        "email": member.user.email,
        "first_name": member.user.first_name,
        "last_name": member.user.last_name,
        "level": member.membership.level.number(),
        "joined_at": member.membership.joined_at.to_string(),
    })
}

fn row(member: Member) -> [String; 6] {
    let name = [member.user.first_name, member.user.last_name].join(" ");
    [
        member.user.email,
        name.trim().to_owned(),
        member.membership.level.number().to_string(),
        member.membership.level.to_string(),
        member.membership.joined_at.day(),
        member.user.uuid.to_string(),
    ]
}

async fn set_level(
    catalog: &Catalog,
    member: &MemberArguments,
    level: Level,
) -> anyhow::Result<()> {
    let (id, member) = member.find(catalog).await?;
    let actor = Actor::command_line();
    let set = Members::new(catalog).set_level(&actor, id, member.user.uuid, level);
    let set = set.await?;
    output::print(&format!(
        "{} has level {} ({level}).",
        shown(&set.user.email),
        level.number()
    ));
    Ok(())
}

async fn remove(catalog: &Catalog, member: &MemberArguments) -> anyhow::Result<()> {
    let (id, member) = member.find(catalog).await?;
    let actor = Actor::command_line();
    Members::new(catalog)
        .remove(&actor, id, member.user.uuid)
        .await?;
    let email = shown(&member.user.email);
    output::print(&format!("{email} is not a member any more."));
    Ok(())
}

impl MemberArguments {
    async fn find(&self, catalog: &Catalog) -> anyhow::Result<(Uuid, Member)> {
        let id = self.organization.id(catalog).await?;
        let page = PageRequest {
            limit: 1,
            offset: 0,
        };
        let found = Members::new(catalog)
            .list(id, Some(&self.user), page)
            .await?;
        let member = found.rows.into_iter().next().with_context(|| {
            format!(
                "the organization has no member {:?}; `millrace members list` shows who is there, \
                 `millrace invites create` invites others",
                self.user
            )
        })?;
        Ok((id, member))
    }
}

/// Parses a level by its number or its name.
pub fn level_of(text: &str) -> Result<Level, String> {
    let named = [Level::Member, Level::Administrator, Level::Owner];
    let mut named = named.into_iter();
    let found = named.find(|level| text == level.to_string() || text == level.number().to_string());
    found.ok_or_else(|| "give 1 or member, 8 or administrator, 15 or owner".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_numbers_and_names() {
        let table = [
            ("1", Some(Level::Member)),
            ("member", Some(Level::Member)),
            ("administrator", Some(Level::Administrator)),
            ("15", Some(Level::Owner)),
            ("2", None),
            ("", None),
            ("Owner ", None),
        ];
        for (text, level) in table {
            assert_eq!(level_of(text).ok(), level, "{text:?}");
        }
    }
}
