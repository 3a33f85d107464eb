//! E-mail domains: claiming, reading and deleting them.
//!
//! | Module | Holds |
//! |---|---|
//! | `input` | what is sent to claim and to change a domain |
//! | `change` | login rules of a domain |
//! | `verify` | proof of a domain's owner |
//!
//! Any organization may claim a domain; the first whose proof is found owns it. A claim alone has
//! no power: rules for logins with addresses of the domain wait for the proof.

mod change;
mod input;
mod verify;

pub use input::{DomainChange, NewDomain, SSO_ENFORCEMENTS};

use millrace_catalog::entities::{organization_domains as domains, organizations};
use millrace_catalog::features::{AUTOMATIC_PROVISIONING, SAML};
use millrace_catalog::limits::{DOMAINS_MAX, must_have_fewer};
use millrace_catalog::random::random_text;
use millrace_catalog::transaction::{Abort, lock_organization, must_act_as};
use millrace_catalog::{
    Activity, ActivityScope, Actor, AuditChange, Catalog, CatalogError, ChangeError, Level, Page,
    PageRequest, is_duplicate,
};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveValue, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};

const VERIFIED: &str = "This domain is verified already.";

/// E-mail domains that organizations claim.
#[derive(Clone, Copy, Debug)]
pub struct Domains<'a>(&'a Catalog);

impl<'a> Domains<'a> {
    /// Returns a handle to the domains in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

impl Domains<'_> {
    /// Page of an organization's domains, oldest first.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list(
        self,
        organization_id: Uuid,
        page: PageRequest,
    ) -> Result<Page<domains::Model>, CatalogError> {
        let in_organization = domains::Column::OrganizationId.eq(organization_id);
        let query = domains::Entity::find().filter(in_organization);
        let read = async {
            let count = query.clone().count(self.0.reader()).await?;
            let part = query
                .order_by_asc(domains::Column::CreatedAt)
                .order_by_asc(domains::Column::Id)
                .offset(page.offset)
                .limit(page.limit);
            let rows = part.all(self.0.reader()).await?;
            Ok(Page { count, rows })
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Reads a domain; `None` if the organization has none of this id.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn get(
        self,
        organization_id: Uuid,
        id: Uuid,
    ) -> Result<Option<domains::Model>, CatalogError> {
        let found = find_domain(self.0.reader(), organization_id, id).await;
        found.map_err(|error| self.0.error(&error))
    }

    /// Claims a domain; requires administrator.
    ///
    /// # Errors
    ///
    /// A field is blank or too long; the organization has the domain already, or another one
    /// proved that it is theirs (`unique`); or the actor may not.
    pub async fn create(
        self,
        actor: &Actor,
        organization_id: Uuid,
        new: NewDomain,
    ) -> Result<domains::Model, ChangeError> {
        let new = new.checked()?;
        let transaction = self.0.begin().await?;
        let made = self.claim(&transaction, actor, organization_id, new).await;
        self.0.finish(transaction, made).await
    }

    async fn claim(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        organization_id: Uuid,
        new: NewDomain,
    ) -> Result<domains::Model, Abort> {
        let organization = lock_organization(within, organization_id).await?;
        must_act_as(within, actor, organization_id, Level::Administrator).await?;
        organization.must_have(AUTOMATIC_PROVISIONING)?;
        let saml = [&new.saml_entity_id, &new.saml_acs_url, &new.saml_x509_cert];
        if saml.iter().any(|field| field.is_some()) {
            organization.must_have(SAML)?;
        }
        must_be_free(within, &new.domain).await?;
        let own = domains::Column::OrganizationId.eq(organization_id);
        let had = domains::Entity::find().filter(own).count(within).await?;
        must_have_fewer("An organization", DOMAINS_MAX, "domains", had)?;
        let now = self.0.now();
        let row = domains::ActiveModel {
            id: ActiveValue::Set(Uuid::now_v7()),
            organization_id: ActiveValue::Set(organization_id),
            domain: ActiveValue::Set(new.domain),
            verification_challenge: ActiveValue::Set(random_text()?),
            verified_at: ActiveValue::Set(None),
            jit_provisioning_enabled: ActiveValue::Set(false),
            sso_enforcement: ActiveValue::Set(String::new()),
            saml_entity_id: ActiveValue::Set(new.saml_entity_id),
            saml_acs_url: ActiveValue::Set(new.saml_acs_url),
            saml_x509_cert: ActiveValue::Set(new.saml_x509_cert),
            created_at: ActiveValue::Set(now),
            updated_at: ActiveValue::Set(now),
        };
        let inserted = domains::Entity::insert(row).exec_with_returning(within);
        let made = inserted.await;
        let made = made.map_err(|error| taken_if_duplicate(error, false))?;
        let audit = domain_audit(Activity::Created, &made)
            .field("domain", (), &made.domain)
            .field("saml_entity_id", (), &made.saml_entity_id)
            .field("saml_acs_url", (), &made.saml_acs_url)
            .field("saml_x509_cert", (), &made.saml_x509_cert);
        self.0.record(within, actor, audit).await?;
        Ok(made)
    }

    /// Gives a domain up; requires administrator. Others may prove it then.
    ///
    /// # Errors
    ///
    /// The organization has no such domain, or the actor may not.
    pub async fn delete(
        self,
        actor: &Actor,
        organization_id: Uuid,
        id: Uuid,
    ) -> Result<(), ChangeError> {
        let transaction = self.0.begin().await?;
        let deleted = async {
            let (_, domain) = domain_to_change(&transaction, actor, organization_id, id).await?;
            domains::Entity::delete_by_id(id).exec(&transaction).await?;
            let audit = domain_audit(Activity::Deleted, &domain);
            let audit = audit.field("domain", &domain.domain, ());
            self.0.record(&transaction, actor, audit).await?;
            Ok(())
        };
        let deleted = deleted.await;
        self.0.finish(transaction, deleted).await
    }
}

async fn find_domain<C: ConnectionTrait>(
    db: &C,
    organization_id: Uuid,
    id: Uuid,
) -> Result<Option<domains::Model>, DbErr> {
    domains::Entity::find_by_id(id)
        .filter(domains::Column::OrganizationId.eq(organization_id))
        .one(db)
        .await
}

/// Locks an organization and reads a domain of it that the actor may change.
async fn domain_to_change(
    within: &DatabaseTransaction,
    actor: &Actor,
    organization_id: Uuid,
    id: Uuid,
) -> Result<(organizations::Model, domains::Model), Abort> {
    let organization = lock_organization(within, organization_id).await?;
    must_act_as(within, actor, organization_id, Level::Administrator).await?;
    let found = find_domain(within, organization_id, id).await?;
    let domain = found.ok_or_else(|| ChangeError::not_found("domain", &id))?;
    Ok((organization, domain))
}

/// Refuses a domain that an organization has proved.
async fn must_be_free<C: ConnectionTrait>(db: &C, domain: &str) -> Result<(), Abort> {
    let proved = domains::Entity::find()
        .filter(domains::Column::Domain.eq(domain))
        .filter(domains::Column::VerifiedAt.is_not_null())
        .count(db)
        .await?;
    if proved > 0 {
        return Err(taken(VERIFIED));
    }
    Ok(())
}

/// Classifies a unique index's error: an organization has a domain once, and only one proves it.
fn taken_if_duplicate(error: DbErr, is_verified: bool) -> Abort {
    if !is_duplicate(&error) {
        error.into()
    } else if is_verified {
        taken(VERIFIED)
    } else {
        taken("The organization has this domain already.")
    }
}

fn taken(detail: &'static str) -> Abort {
    ChangeError::invalid("domain", "unique", detail).into()
}

fn domain_audit(activity: Activity, domain: &domains::Model) -> AuditChange {
    let (scope, name) = (ActivityScope::Domain, &domain.domain);
    AuditChange::new(activity, scope, domain.organization_id, &domain.id, name)
}
