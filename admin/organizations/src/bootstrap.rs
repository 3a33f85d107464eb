//! First organization, project, owner and keys of an empty catalog, so that the first event can be
//! sent at once.

use crate::organizations::{Organizations, insert_membership, insert_organization};
use crate::personal_keys::{KeyConstraints, PersonalKeys, insert_personal_key, key_audit};
use crate::projects::{CheckedProject, NewProject, insert_project};
use crate::users::{NewUser, checked_email, insert_user};
use millrace_catalog::entities::{catalog_versions, organizations};
use millrace_catalog::key::PersonalKey;
use millrace_catalog::{Activity, Actor, Catalog, CatalogError, ChangeError, Level, Scopes};
use millrace_rows::ProjectId;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveValue, DatabaseTransaction, DbErr, EntityTrait, PaginatorTrait};

/// Row that marks the catalog as bootstrapped; it outlives the organization.
const MARKER: &str = "bootstrap";
const ORGANIZATION_NAME: &str = "Default organization";
const PROJECT_NAME: &str = "Default project";
const KEY_LABEL: &str = "First key";

/// Choices of the operator for the first organization.
#[derive(Clone, Debug)]
pub struct BootstrapOptions {
    /// Owner's address.
    pub owner_email: String,
    /// Project key of the operator's choice; `None`: a new one.
    pub project_key: Option<String>,
    /// Owner's key. A caller that must not lose it generates it, stores it, and then bootstraps;
    /// `None`: a new one.
    pub personal_key: Option<PersonalKey>,
}

impl Default for BootstrapOptions {
    fn default() -> Self {
        Self {
            owner_email: "owner@localhost".to_owned(),
            project_key: None,
            personal_key: None,
        }
    }
}

/// First organization and its keys. The personal key is known here and never again.
#[derive(Clone, Debug)]
pub struct Bootstrap {
    /// Id of "Default organization".
    pub organization_id: Uuid,
    /// Id of "Default project".
    pub project_id: ProjectId,
    /// Key of that project.
    pub project_api_key: String,
    /// Owner's key, with scope `*`.
    pub personal_api_key: PersonalKey,
    /// Owner's address.
    pub owner_email: String,
}

/// Fills an empty catalog, once in its life. `None` if any process did so before, or if there
/// are organizations already.
///
/// # Errors
///
/// A chosen address or key is malformed, or the database fails.
pub async fn bootstrap(
    catalog: &Catalog,
    options: BootstrapOptions,
) -> Result<Option<Bootstrap>, ChangeError> {
    let email = checked_email(&options.owner_email)?;
    let mut project = NewProject::named(PROJECT_NAME);
    project.key = options.project_key;
    let project = project.checked()?;
    let personal_api_key = match options.personal_key {
        Some(key) => key,
        None => PersonalKey::generate()?,
    };
    let transaction = catalog.begin().await?;
    let filled = fill(catalog, &transaction, email, project, personal_api_key);
    let filled = filled.await.map_err(|error| catalog.error(&error))?;
    catalog.commit(transaction).await?;
    Ok(filled)
}

/// Tells whether any server has used the catalog: each start bootstraps it, or finds that one
/// did.
///
/// # Errors
///
/// Any database error.
pub async fn is_bootstrapped(catalog: &Catalog) -> Result<bool, CatalogError> {
    let looked = async {
        let marker = catalog_versions::Entity::find_by_id(MARKER.to_owned());
        let marker = marker.one(catalog.reader()).await?;
        let organization = organizations::Entity::find().one(catalog.reader()).await?;
        Ok(marker.is_some() || organization.is_some())
    };
    looked.await.map_err(|error: DbErr| catalog.error(&error))
}

async fn fill(
    catalog: &Catalog,
    within: &DatabaseTransaction,
    owner_email: String,
    project: CheckedProject,
    personal_api_key: PersonalKey,
) -> Result<Option<Bootstrap>, DbErr> {
    let organizations = organizations::Entity::find().count(within);
    if !claim(within).await? || organizations.await? > 0 {
        return Ok(None);
    }
    let now = catalog.now();
    let project_api_key = project.key.clone();
    let organization = insert_organization(within, ORGANIZATION_NAME.into(), now).await?;
    let owner = NewUser {
        email: owner_email.clone(),
        ..NewUser::default()
    };
    let owner = insert_user(within, owner, None, now).await?;
    insert_membership(within, organization.id, owner.id, Level::Owner, now).await?;
    let project = insert_project(within, organization.id, project, now).await?;
    Organizations::new(catalog)
        .record_creation(within, &Actor::System, &organization, &project)
        .await?;
    let constraints = KeyConstraints {
        label: KEY_LABEL.to_owned(),
        scopes: Scopes::all(),
        expires_at: None,
        scoped_organizations: None,
    };
    let key = insert_personal_key(within, owner.id, &personal_api_key, constraints, now).await?;
    let audit = key_audit(Activity::Created, &key);
    PersonalKeys::new(catalog)
        .record_change(within, &Actor::System, audit, &key, None)
        .await?;
    catalog.keys_changed(within).await?;
    Ok(Some(Bootstrap {
        organization_id: organization.id,
        project_id: ProjectId(project.id),
        project_api_key,
        personal_api_key,
        owner_email,
    }))
}

/// Returns true if this transaction is the one to bootstrap. Others that try wait here until it
/// ends, and then find the row there.
async fn claim(within: &DatabaseTransaction) -> Result<bool, DbErr> {
    let marker = catalog_versions::ActiveModel {
        name: ActiveValue::Set(MARKER.to_owned()),
        version: ActiveValue::Set(1),
    };
    let mut keep = OnConflict::column(catalog_versions::Column::Name);
    keep.do_nothing();
    let inserted = catalog_versions::Entity::insert(marker)
        .on_conflict(keep)
        .exec_without_returning(within)
        .await?;
    Ok(inserted == 1)
}
