//! Proxy records: domains of an organization that are to point to this installation.
//!
//! A record waits until a checker outside the catalog finds its CNAME record and HTTPS; `checks`
//! stores the results.
//!
//! Until then it is a claim, and blocks nobody: each organization may have one for a domain. The
//! organization that is proven first has the domain until a check finds that it no longer points
//! here.

mod checks;

use millrace_catalog::entities::proxy_records::{self as records, ProxyStatus};
use millrace_catalog::entities::{organizations, users};
use millrace_catalog::features::MANAGED_REVERSE_PROXY;
use millrace_catalog::key::sha256_hex;
use millrace_catalog::limits::{PROXY_RECORDS_MAX, must_have_fewer};
use millrace_catalog::transaction::{Abort, lock_organization, locked, must_act_as};
use millrace_catalog::{
    Activity, ActivityScope, Actor, AuditChange, Catalog, CatalogError, ChangeError, Level, Page,
    PageRequest, is_duplicate,
};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, PaginatorTrait, QueryFilter,
    QueryOrder, QuerySelect,
};

/// Longest domain, in characters.
const DOMAIN_CHARS_MAX: usize = 64;
/// Hex digits of the hash in a target's first label.
const TARGET_DIGITS: usize = 20;

/// Proxy record with its creator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyRecordView {
    /// Row of the record.
    pub record: records::Model,
    /// Creator; `None` once the user is deleted.
    pub created_by: Option<users::Model>,
}

/// Customers' domains that point to this installation, and their checks.
#[derive(Clone, Copy, Debug)]
pub struct ProxyRecords<'a>(&'a Catalog);

impl<'a> ProxyRecords<'a> {
    /// Returns a handle to the proxy records in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

impl ProxyRecords<'_> {
    /// Page of the proxy records of an organization, oldest first.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list(
        self,
        organization_id: Uuid,
        page: PageRequest,
    ) -> Result<Page<ProxyRecordView>, CatalogError> {
        let query =
            records::Entity::find().filter(records::Column::OrganizationId.eq(organization_id));
        let read = async {
            let count = query.clone().count(self.0.reader()).await?;
            let found = query
                .order_by_asc(records::Column::CreatedAt)
                .order_by_asc(records::Column::Id)
                .offset(page.offset)
                .limit(page.limit)
                .all(self.0.reader())
                .await?;
            let rows = self.with_creators(found).await?;
            Ok(Page { count, rows })
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Reads a proxy record; `None` if the organization has none of this id.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn get(
        self,
        organization_id: Uuid,
        id: Uuid,
    ) -> Result<Option<ProxyRecordView>, CatalogError> {
        let read = async {
            let found = records::Entity::find_by_id(id)
                .filter(records::Column::OrganizationId.eq(organization_id))
                .one(self.0.reader())
                .await?;
            let found = found.into_iter().collect();
            Ok(self.with_creators(found).await?.pop())
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Adds the creators to records, in one statement for all.
    async fn with_creators(
        self,
        found: Vec<records::Model>,
    ) -> Result<Vec<ProxyRecordView>, DbErr> {
        let ids = found.iter().filter_map(|record| record.created_by);
        let creators = users::Entity::find()
            .filter(users::Column::Id.is_in(ids))
            .all(self.0.reader())
            .await?;
        let with_creator = |record: records::Model| {
            let creator = creators
                .iter()
                .find(|user| Some(user.id) == record.created_by);
            ProxyRecordView {
                created_by: creator.cloned(),
                record,
            }
        };
        Ok(found.into_iter().map(with_creator).collect())
    }

    /// Creates a record for `domain`, which is in its normal form: punycode, lower case, no dot at
    /// the end; requires administrator. `base_name` is the domain under which our proxies answer.
    ///
    /// # Errors
    ///
    /// No such organization, the domain is too long, the organization has a record for it already,
    /// that of another one is proven, the organization has 100 records, or the actor may not.
    pub async fn create(
        self,
        actor: &Actor,
        organization_id: Uuid,
        domain: &str,
        base_name: &str,
    ) -> Result<ProxyRecordView, ChangeError> {
        if domain.chars().count() > DOMAIN_CHARS_MAX {
            let detail = format!("domain may have at most {DOMAIN_CHARS_MAX} characters");
            return Err(ChangeError::invalid("domain", "max_length", detail));
        }
        let now = self.0.now();
        let row = records::ActiveModel {
            id: ActiveValue::Set(Uuid::now_v7()),
            organization_id: ActiveValue::Set(organization_id),
            domain: ActiveValue::Set(domain.to_owned()),
            target_cname: ActiveValue::Set(target(organization_id, domain, base_name)),
            status: ActiveValue::Set(ProxyStatus::Waiting),
            message: ActiveValue::Set(None),
            created_by: ActiveValue::Set(actor.user_id()),
            created_at: ActiveValue::Set(now),
            updated_at: ActiveValue::Set(now),
            check_at: ActiveValue::Set(now),
        };
        let transaction = self.0.begin().await?;
        let made = async {
            let organization = may_change(&transaction, actor, organization_id).await?;
            organization.must_have(MANAGED_REVERSE_PROXY)?;
            must_have_fewer_records(&transaction, organization_id).await?;
            if is_proven(&transaction, domain).await? {
                return Err(taken("A proxy record for this domain works already."));
            }
            let inserted = records::Entity::insert(row).exec_with_returning(&transaction);
            let record = inserted.await.map_err(domain_taken)?;
            let audit = audit_change(Activity::Created, &record)
                .field("domain", (), &record.domain)
                .field("target_cname", (), &record.target_cname);
            self.0.record(&transaction, actor, audit).await?;
            Ok(record.id)
        };
        let made = made.await;
        let id = self.0.finish(transaction, made).await?;
        let view = self.get(organization_id, id).await?;
        view.ok_or_else(|| ChangeError::not_found("proxy record", &id))
    }

    /// Deletes a record, at once; requires administrator.
    ///
    /// # Errors
    ///
    /// No such record, or the actor may not.
    pub async fn delete(
        self,
        actor: &Actor,
        organization_id: Uuid,
        id: Uuid,
    ) -> Result<(), ChangeError> {
        let transaction = self.0.begin().await?;
        let deleted = async {
            may_change(&transaction, actor, organization_id).await?;
            let query = records::Entity::find_by_id(id)
                .filter(records::Column::OrganizationId.eq(organization_id));
            let found = locked(&transaction, query).one(&transaction).await?;
            let record = found.ok_or_else(|| ChangeError::not_found("proxy record", &id))?;
            records::Entity::delete_by_id(id).exec(&transaction).await?;
            let audit = audit_change(Activity::Deleted, &record);
            self.0.record(&transaction, actor, audit).await?;
            Ok(())
        };
        let deleted = deleted.await;
        self.0.finish(transaction, deleted).await
    }
}

/// Locks the organization whose records are about to change; refuses an actor who may not.
async fn may_change(
    within: &DatabaseTransaction,
    actor: &Actor,
    organization_id: Uuid,
) -> Result<organizations::Model, Abort> {
    let organization = lock_organization(within, organization_id).await?;
    must_act_as(within, actor, organization_id, Level::Administrator).await?;
    Ok(organization)
}

/// Refuses one more record for an organization, which is locked, with the most records.
async fn must_have_fewer_records(
    within: &DatabaseTransaction,
    organization_id: Uuid,
) -> Result<(), Abort> {
    let had = records::Entity::find()
        .filter(records::Column::OrganizationId.eq(organization_id))
        .count(within)
        .await?;
    Ok(must_have_fewer(
        "An organization",
        PROXY_RECORDS_MAX,
        "proxy records",
        had,
    )?)
}

/// Name that a domain's CNAME record must have: it is unique, and others cannot guess its
/// organization.
fn target(organization_id: Uuid, domain: &str, base_name: &str) -> String {
    let hash = sha256_hex(format!("{organization_id}{domain}").as_bytes());
    let label = hash.get(..TARGET_DIGITS).unwrap_or(&hash);
    format!("{label}.{base_name}")
}

/// Returns true if one of the domain's records is proven.
async fn is_proven(within: &DatabaseTransaction, domain: &str) -> Result<bool, DbErr> {
    let proven = records::Entity::find()
        .filter(records::Column::Domain.eq(domain))
        .filter(records::Column::Status.is_in(ProxyStatus::PROVEN));
    Ok(proven.count(within).await? > 0)
}

fn domain_taken(error: DbErr) -> Abort {
    if is_duplicate(&error) {
        taken("The organization has a proxy record for this domain already.")
    } else {
        error.into()
    }
}

fn taken(detail: &'static str) -> Abort {
    ChangeError::invalid("domain", "unique", detail).into()
}

fn audit_change(activity: Activity, record: &records::Model) -> AuditChange {
    let scope = ActivityScope::ProxyRecord;
    AuditChange::new(
        activity,
        scope,
        record.organization_id,
        &record.id,
        &record.domain,
    )
}
