//! Projects and their keys.

use crate::activity::{Activity, ActivityScope, Deed};
use crate::actor::Actor;
use crate::catalog::Catalog;
use crate::entities::{organizations, projects};
use crate::error::{CatalogError, ChangeError, is_duplicate};
use crate::key::{ProjectKeyForm, check_chosen_project_key, generate_project_key, mask};
use crate::organizations::checked_name;
use crate::time::UtcTime;
use millrace_rows::TeamId;
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    QueryFilter, QueryOrder, QuerySelect,
};

/// The longest name of a project, in characters.
const NAME_CHARS_MAX: usize = 200;

/// What the ingestion path needs to know of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProjectKey {
    /// The number under which its events are stored.
    pub team_id: TeamId,
    /// Whether clients' addresses are left out of its events.
    pub anonymize_ips: bool,
}

/// What a new project needs.
#[derive(Clone, Debug)]
pub struct NewProject {
    /// What people call it.
    pub name: String,
    /// A key of the operator's choice, to take over SDKs that hold it; `None`: a new one.
    pub key: Option<String>,
    /// IANA name.
    pub timezone: String,
    /// Whether clients' addresses are left out of events.
    pub anonymize_ips: bool,
}

impl NewProject {
    /// A project with a new key and otherwise the defaults.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            key: None,
            timezone: "UTC".to_owned(),
            anonymize_ips: false,
        }
    }

    /// Checks name and key, and makes a key if none was chosen.
    pub(crate) fn checked(self) -> Result<CheckedProject, ChangeError> {
        Ok(CheckedProject {
            name: checked_name("the name of a project", "name", &self.name, NAME_CHARS_MAX)?,
            key: checked_key(self.key)?,
            timezone: self.timezone,
            anonymize_ips: self.anonymize_ips,
        })
    }
}

pub(crate) struct CheckedProject {
    name: String,
    pub(crate) key: String,
    timezone: String,
    anonymize_ips: bool,
}

impl Catalog {
    /// Which project a key belongs to, from one index look-up. The key's form is the caller's to
    /// check before; see [`ProjectKeyForm`].
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn project_by_key(&self, key: &str) -> Result<Option<ProjectKey>, CatalogError> {
        let row: Option<(i64, bool)> = projects::Entity::find()
            .select_only()
            .column(projects::Column::Id)
            .column(projects::Column::AnonymizeIps)
            .filter(projects::Column::ApiToken.eq(key))
            .into_tuple()
            .one(&self.db)
            .await
            .map_err(|error| self.error(&error))?;
        Ok(row.map(|(id, anonymize_ips)| ProjectKey {
            team_id: TeamId(id),
            anonymize_ips,
        }))
    }

    /// The keys that have our form without our checksum, because they came from elsewhere: the
    /// first `keys_max` of them.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn imported_project_keys(&self, keys_max: u64) -> Result<Vec<String>, CatalogError> {
        let keys: Vec<Option<String>> = projects::Entity::find()
            .select_only()
            .column(projects::Column::ApiToken)
            .filter(projects::Column::ApiTokenImported.eq(true))
            .filter(projects::Column::ApiToken.is_not_null())
            .order_by_asc(projects::Column::Id)
            .limit(keys_max)
            .into_tuple()
            .all(&self.db)
            .await
            .map_err(|error| self.error(&error))?;
        Ok(keys.into_iter().flatten().collect())
    }

    /// Adds a project to an organization.
    ///
    /// # Errors
    ///
    /// No such organization, a bad name or key, or another project has the key.
    pub async fn create_project(
        &self,
        actor: &Actor,
        organization_id: Uuid,
        new: NewProject,
    ) -> Result<projects::Model, ChangeError> {
        let new = new.checked()?;
        let transaction = self.begin().await?;
        let organization = organizations::Entity::find_by_id(organization_id)
            .one(&transaction)
            .await
            .map_err(|error| self.error(&error))?;
        if organization.is_none() {
            return Err(ChangeError::NotFound {
                what: "organization",
                name: organization_id.to_string(),
            });
        }
        let made = insert_project(&transaction, organization_id, new, self.now()).await;
        let project = made.map_err(|error| self.key_error(&error))?;
        self.announce(transaction, actor, project_made(&project))
            .await?;
        Ok(project)
    }

    /// All projects, or those of one organization; lowest id first.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn list_projects(
        &self,
        organization_id: Option<Uuid>,
    ) -> Result<Vec<projects::Model>, CatalogError> {
        let mut query = projects::Entity::find();
        if let Some(id) = organization_id {
            query = query.filter(projects::Column::OrganizationId.eq(id));
        }
        let found = query.order_by_asc(projects::Column::Id).all(&self.db).await;
        found.map_err(|error| self.error(&error))
    }

    /// One project.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn project(&self, team_id: TeamId) -> Result<Option<projects::Model>, CatalogError> {
        let found = projects::Entity::find_by_id(team_id.0).one(&self.db).await;
        found.map_err(|error| self.error(&error))
    }

    /// Gives a key to a project that has none.
    ///
    /// # Errors
    ///
    /// [`ChangeError::HasKey`] if it has one, which would die: [`Catalog::rotate_project_key`]
    /// says that it is meant to. No such project, a bad key, or another project has it.
    pub async fn create_project_key(
        &self,
        actor: &Actor,
        team_id: TeamId,
        chosen: Option<String>,
    ) -> Result<projects::Model, ChangeError> {
        let transaction = self.begin().await?;
        let before = self.lock_project(&transaction, team_id).await?;
        if before.api_token.is_some() {
            return Err(ChangeError::HasKey(team_id.0));
        }
        let key = checked_key(chosen)?;
        self.set_key(transaction, actor, &before, Some(key)).await
    }

    /// Replaces a project's key; the old one is refused from then on, within 2 seconds everywhere.
    ///
    /// # Errors
    ///
    /// No such project, a bad key, or another project has it.
    pub async fn rotate_project_key(
        &self,
        actor: &Actor,
        team_id: TeamId,
        chosen: Option<String>,
    ) -> Result<projects::Model, ChangeError> {
        let transaction = self.begin().await?;
        let before = self.lock_project(&transaction, team_id).await?;
        let key = checked_key(chosen)?;
        self.set_key(transaction, actor, &before, Some(key)).await
    }

    /// Takes a project's key away; it accepts no events until it is given another.
    ///
    /// # Errors
    ///
    /// No project has this key.
    pub async fn revoke_project_key(
        &self,
        actor: &Actor,
        key: &str,
    ) -> Result<projects::Model, ChangeError> {
        let transaction = self.begin().await?;
        let found = projects::Entity::find()
            .filter(projects::Column::ApiToken.eq(key))
            .one(&transaction)
            .await
            .map_err(|error| self.error(&error))?;
        let project = found.ok_or_else(|| ChangeError::NotFound {
            what: "project key",
            name: mask(key),
        })?;
        self.set_key(transaction, actor, &project, None).await
    }

    /// Sets whether clients' addresses are left out of a project's events.
    ///
    /// # Errors
    ///
    /// No such project.
    pub async fn set_anonymize_ips(
        &self,
        actor: &Actor,
        team_id: TeamId,
        anonymize_ips: bool,
    ) -> Result<projects::Model, ChangeError> {
        let transaction = self.begin().await?;
        let before = self.lock_project(&transaction, team_id).await?;
        let change = projects::ActiveModel {
            id: ActiveValue::Unchanged(team_id.0),
            anonymize_ips: ActiveValue::Set(anonymize_ips),
            updated_at: ActiveValue::Set(self.now()),
            ..Default::default()
        };
        let changed = projects::Entity::update(change).exec(&transaction).await;
        let project = changed.map_err(|error| self.error(&error))?;
        let deed = project_deed(Activity::Updated, &before);
        let deed = deed.field("anonymize_ips", before.anonymize_ips, anonymize_ips);
        self.announce(transaction, actor, deed).await?;
        Ok(project)
    }

    async fn set_key(
        &self,
        transaction: DatabaseTransaction,
        actor: &Actor,
        before: &projects::Model,
        key: Option<String>,
    ) -> Result<projects::Model, ChangeError> {
        let change = projects::ActiveModel {
            id: ActiveValue::Unchanged(before.id),
            api_token_imported: ActiveValue::Set(key.as_deref().is_some_and(is_imported)),
            api_token: ActiveValue::Set(key),
            updated_at: ActiveValue::Set(self.now()),
            ..Default::default()
        };
        let changed = projects::Entity::update(change).exec(&transaction).await;
        let project = changed.map_err(|error| self.key_error(&error))?;
        let masked = |project: &projects::Model| project.api_token.as_deref().map(mask);
        let deed = project_deed(Activity::Updated, before);
        let deed = deed.field("api_token", masked(before), masked(&project));
        self.announce(transaction, actor, deed).await?;
        Ok(project)
    }

    /// Reads a project that is about to be changed; PostgreSQL locks the row, SQLite is locked
    /// whole.
    async fn lock_project(
        &self,
        within: &DatabaseTransaction,
        team_id: TeamId,
    ) -> Result<projects::Model, ChangeError> {
        let mut query = projects::Entity::find_by_id(team_id.0);
        if within.get_database_backend() == sea_orm::DbBackend::Postgres {
            query = query.lock_exclusive();
        }
        let found = query
            .one(within)
            .await
            .map_err(|error| self.error(&error))?;
        found.ok_or_else(|| ChangeError::NotFound {
            what: "project",
            name: team_id.to_string(),
        })
    }

    /// Ends a change that the ingestion path must notice.
    async fn announce(
        &self,
        transaction: DatabaseTransaction,
        actor: &Actor,
        deed: Deed,
    ) -> Result<(), CatalogError> {
        let written = async {
            self.record(&transaction, actor, deed).await?;
            self.keys_changed(&transaction).await
        };
        written.await.map_err(|error| self.error(&error))?;
        self.commit(transaction).await
    }

    fn key_error(&self, error: &DbErr) -> ChangeError {
        if is_duplicate(error) {
            ChangeError::KeyTaken
        } else {
            self.error(error).into()
        }
    }
}

pub(crate) fn project_made(project: &projects::Model) -> Deed {
    project_deed(Activity::Created, project).field("name", (), &project.name)
}

fn project_deed(activity: Activity, project: &projects::Model) -> Deed {
    let organization_id = project.organization_id;
    let scope = ActivityScope::Project;
    Deed::new(activity, scope, organization_id, &project.id, &project.name)
}

pub(crate) async fn insert_project<C: ConnectionTrait>(
    db: &C,
    organization_id: Uuid,
    new: CheckedProject,
    now: UtcTime,
) -> Result<projects::Model, DbErr> {
    let row = projects::ActiveModel {
        id: ActiveValue::NotSet,
        uuid: ActiveValue::Set(Uuid::now_v7()),
        organization_id: ActiveValue::Set(organization_id),
        name: ActiveValue::Set(new.name),
        api_token_imported: ActiveValue::Set(is_imported(&new.key)),
        api_token: ActiveValue::Set(Some(new.key)),
        anonymize_ips: ActiveValue::Set(new.anonymize_ips),
        timezone: ActiveValue::Set(new.timezone),
        created_at: ActiveValue::Set(now),
        updated_at: ActiveValue::Set(now),
    };
    projects::Entity::insert(row).exec_with_returning(db).await
}

fn checked_key(chosen: Option<String>) -> Result<String, ChangeError> {
    match chosen {
        Some(key) => {
            check_chosen_project_key(&key)?;
            Ok(key)
        }
        None => Ok(generate_project_key()?),
    }
}

fn is_imported(key: &str) -> bool {
    ProjectKeyForm::of(key) == ProjectKeyForm::WrongChecksum
}
