//! Organizations and who belongs to them.

use crate::activity::{Activity, ActivityScope, Deed};
use crate::actor::Actor;
use crate::catalog::Catalog;
use crate::entities::{organization_memberships as memberships, organizations, projects};
use crate::error::{CatalogError, ChangeError};
use crate::level::Level;
use crate::page::{Page, PageRequest};
use crate::personal_keys::Caller;
use crate::projects::{NewProject, insert_project, project_made};
use crate::time::UtcTime;
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};

/// The longest name of an organization, in characters.
const NAME_CHARS_MAX: usize = 64;
/// The longest slug before a suffix, in characters.
const SLUG_CHARS_MAX: usize = 48;

/// An organization as one of its members sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberOrganization {
    /// Itself.
    pub organization: organizations::Model,
    /// The level of whoever asks.
    pub membership_level: Level,
    /// Its projects, lowest id first.
    pub projects: Vec<projects::Model>,
    /// How many members it has.
    pub member_count: u64,
}

impl Catalog {
    /// Makes an organization with a project "Default project". Whoever is named becomes its owner.
    ///
    /// # Errors
    ///
    /// The name is empty or too long.
    pub async fn create_organization(
        &self,
        actor: &Actor,
        name: &str,
        owner_user_id: Option<i64>,
    ) -> Result<organizations::Model, ChangeError> {
        let name = checked_name("the name of an organization", "name", name, NAME_CHARS_MAX)?;
        let project = NewProject::named("Default project").checked()?;
        let transaction = self.begin().await?;
        let made = async {
            // First, because it makes the makers of organizations queue up: the slug that is free
            // when it is looked for stays free.
            self.keys_changed(&transaction).await?;
            let now = self.now();
            let organization = insert_organization(&transaction, &name, now).await?;
            if let Some(user_id) = owner_user_id {
                let id = organization.id;
                insert_membership(&transaction, id, user_id, Level::Owner, now).await?;
            }
            let project = insert_project(&transaction, organization.id, project, now).await?;
            self.organization_made(&transaction, actor, &organization, &project)
                .await?;
            Ok(organization)
        };
        let organization = made.await.map_err(|error: DbErr| self.error(&error))?;
        self.commit(transaction).await?;
        Ok(organization)
    }

    /// All organizations, oldest first; for the operator.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn list_organizations(&self) -> Result<Vec<organizations::Model>, CatalogError> {
        organizations::Entity::find()
            .order_by_asc(organizations::Column::CreatedAt)
            .order_by_asc(organizations::Column::Id)
            .all(&self.db)
            .await
            .map_err(|error| self.error(&error))
    }

    /// The organizations that a caller sees: those of the key's owner, narrowed to the key's.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn organizations_of(
        &self,
        caller: &Caller,
        page: PageRequest,
    ) -> Result<Page<MemberOrganization>, CatalogError> {
        let read = async {
            let visible = visible_to(&self.db, caller).await?;
            let ids = visible.iter().map(|membership| membership.organization_id);
            let found = organizations::Entity::find()
                .filter(organizations::Column::Id.is_in(ids))
                .order_by_asc(organizations::Column::CreatedAt)
                .order_by_asc(organizations::Column::Id)
                .offset(page.offset)
                .limit(page.limit)
                .all(&self.db)
                .await?;
            let mut rows = Vec::with_capacity(found.len());
            for organization in found {
                if let Some(level) = level_in(&visible, organization.id) {
                    rows.push(self.as_member(organization, level).await?);
                }
            }
            Ok(Page {
                count: visible.len() as u64,
                rows,
            })
        };
        read.await.map_err(|error: DbErr| self.error(&error))
    }

    /// One organization that a caller sees; `None` if there is none, or it is another's.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn organization_of(
        &self,
        caller: &Caller,
        id: Uuid,
    ) -> Result<Option<MemberOrganization>, CatalogError> {
        let read = async {
            let visible = visible_to(&self.db, caller).await?;
            let Some(level) = level_in(&visible, id) else {
                return Ok(None);
            };
            match organizations::Entity::find_by_id(id).one(&self.db).await? {
                Some(found) => self.as_member(found, level).await.map(Some),
                None => Ok(None),
            }
        };
        read.await.map_err(|error: DbErr| self.error(&error))
    }

    /// The id that `@current` stands for: the oldest membership that the caller's key covers.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn current_organization_of(
        &self,
        caller: &Caller,
    ) -> Result<Option<Uuid>, CatalogError> {
        let visible = visible_to(&self.db, caller).await;
        let visible = visible.map_err(|error| self.error(&error))?;
        Ok(visible.first().map(|oldest| oldest.organization_id))
    }

    /// Writes down that an organization was made, and its first project.
    pub(crate) async fn organization_made(
        &self,
        within: &DatabaseTransaction,
        actor: &Actor,
        organization: &organizations::Model,
        project: &projects::Model,
    ) -> Result<(), DbErr> {
        let (id, name) = (organization.id, organization.name.as_str());
        let made = Deed::new(
            Activity::Created,
            ActivityScope::Organization,
            id,
            &id,
            name,
        )
        .field("name", (), name);
        self.record(within, actor, made).await?;
        self.record(within, actor, project_made(project)).await
    }

    async fn as_member(
        &self,
        organization: organizations::Model,
        membership_level: Level,
    ) -> Result<MemberOrganization, DbErr> {
        let id = organization.id;
        let projects = projects::Entity::find()
            .filter(projects::Column::OrganizationId.eq(id))
            .order_by_asc(projects::Column::Id)
            .all(&self.db)
            .await?;
        let member_count = memberships::Entity::find()
            .filter(memberships::Column::OrganizationId.eq(id))
            .count(&self.db)
            .await?;
        Ok(MemberOrganization {
            organization,
            membership_level,
            projects,
            member_count,
        })
    }
}

/// The caller's memberships that the key covers, oldest first.
async fn visible_to<C: ConnectionTrait>(
    db: &C,
    caller: &Caller,
) -> Result<Vec<memberships::Model>, DbErr> {
    let mut visible = memberships::Entity::find()
        .filter(memberships::Column::UserId.eq(caller.user.id))
        .order_by_asc(memberships::Column::JoinedAt)
        .order_by_asc(memberships::Column::Id)
        .all(db)
        .await?;
    if let Some(only) = &caller.scoped_organizations {
        visible.retain(|membership| only.0.contains(&membership.organization_id));
    }
    Ok(visible)
}

fn level_in(visible: &[memberships::Model], organization_id: Uuid) -> Option<Level> {
    let membership = visible
        .iter()
        .find(|membership| membership.organization_id == organization_id);
    membership.map(|membership| membership.level)
}

/// A name without white space at its ends, of 1 to `chars_max` characters.
pub(crate) fn checked_name(
    what: &'static str,
    field: &'static str,
    name: &str,
    chars_max: usize,
) -> Result<String, ChangeError> {
    let name = name.trim();
    let empty = name.is_empty();
    if empty || name.chars().count() > chars_max {
        return Err(ChangeError::BadName {
            what,
            field,
            empty,
            chars_max,
        });
    }
    Ok(name.to_owned())
}

pub(crate) async fn insert_organization<C: ConnectionTrait>(
    db: &C,
    name: &str,
    now: UtcTime,
) -> Result<organizations::Model, DbErr> {
    let id = Uuid::now_v7();
    let row = organizations::ActiveModel {
        id: ActiveValue::Set(id),
        name: ActiveValue::Set(name.to_owned()),
        slug: ActiveValue::Set(free_slug(db, name, id).await?),
        created_at: ActiveValue::Set(now),
        updated_at: ActiveValue::Set(now),
        is_member_join_email_enabled: ActiveValue::Set(true),
        enforce_2fa: ActiveValue::Set(None),
        members_can_write_pipelines: ActiveValue::Set(true),
        plugins_access_level: ActiveValue::Set(9),
        customer_id: ActiveValue::Set(None),
        disabled_features: ActiveValue::Set(organizations::FeatureKeys::default()),
    };
    organizations::Entity::insert(row)
        .exec_with_returning(db)
        .await
}

pub(crate) async fn insert_membership<C: ConnectionTrait>(
    db: &C,
    organization_id: Uuid,
    user_id: i64,
    level: Level,
    now: UtcTime,
) -> Result<(), DbErr> {
    let row = memberships::ActiveModel {
        id: ActiveValue::Set(Uuid::now_v7()),
        organization_id: ActiveValue::Set(organization_id),
        user_id: ActiveValue::Set(user_id),
        level: ActiveValue::Set(level),
        joined_at: ActiveValue::Set(now),
        updated_at: ActiveValue::Set(now),
    };
    memberships::Entity::insert(row).exec(db).await.map(drop)
}

/// The slug of a name, or that with a suffix if another organization has it. The suffix is the
/// random end of the id, so that two that are made at the same time do not collide either.
async fn free_slug<C: ConnectionTrait>(db: &C, name: &str, id: Uuid) -> Result<String, DbErr> {
    let slug = slugify(name);
    let taken = organizations::Entity::find()
        .filter(organizations::Column::Slug.eq(slug.as_str()))
        .count(db)
        .await?;
    if taken == 0 {
        return Ok(slug);
    }
    let id = id.simple().to_string();
    let (_, suffix) = id.split_at_checked(24).unwrap_or_default();
    Ok(format!("{slug}-{suffix}"))
}

/// Letters and digits in lower case, everything else one hyphen.
fn slugify(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars().flat_map(char::to_lowercase) {
        if slug.len() >= SLUG_CHARS_MAX {
            break;
        }
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() {
        "organization".to_owned()
    } else {
        slug.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_lower_case_ascii_words() {
        let table = [
            ("Default organization", "default-organization"),
            ("  Ünïcode & Söhne ", "n-code-s-hne"),
            ("東京", "organization"),
            ("--a--", "a"),
            (&"x".repeat(64), &"x".repeat(48)),
        ];
        for (name, slug) in table {
            assert_eq!(slugify(name), slug);
        }
    }

    #[test]
    fn names_are_trimmed_and_bounded() {
        assert_eq!(checked_name("it", "name", " a ", 3).unwrap(), "a");
        assert_eq!(checked_name("it", "name", "äöü", 3).unwrap(), "äöü");
        assert!(checked_name("it", "name", " \t", 3).is_err());
        assert!(checked_name("it", "name", "abcd", 3).is_err());
    }
}
