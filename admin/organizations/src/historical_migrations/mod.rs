//! Historical migrations: imports of past events beyond the default quota.
//!
//! An organization asks, the operator decides, the ingestion path counts:
//!
//! ```text
//! requested ──> approved ──> finished (used up, or given up)
//!     │  └────────┐ ▲ │
//!     ▼           ▼ │ ▼
//!  finished      rejected
//! ```
//!
//! | Module | Holds |
//! |---|---|
//! | `decide` | approving, rejecting, finishing |
//! | `grant` | approvals that the operator makes without a request |

mod decide;
mod grant;

pub use decide::HistoricalDecision;
pub use grant::HistoricalGrant;

use crate::default_project::project_or_default;
use crate::names::checked_name;
use millrace_catalog::entities::historical_migrations::{self as migrations, MigrationState};
use millrace_catalog::features::HISTORICAL_MIGRATIONS;
use millrace_catalog::limits::{HISTORICAL_MIGRATIONS_MAX, must_have_fewer};
use millrace_catalog::transaction::{Abort, lock_organization, must_act_as};
use millrace_catalog::{
    Activity, ActivityScope, Actor, AuditChange, Catalog, CatalogError, ChangeError, Level, Page,
    PageRequest,
};
use millrace_rows::ProjectId;
use schemars::JsonSchema;
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, PaginatorTrait, QueryFilter,
    QueryOrder, QuerySelect, Select,
};
use serde::{Deserialize, Deserializer};

/// Longest source and method, in characters.
const TEXT_CHARS_MAX: usize = 200;

/// Fields of a requested import.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct NewHistoricalMigration {
    /// Id of the project that gets the events; the organization's first project if not given.
    #[serde(default, rename = "team_id", deserialize_with = "sent_project")]
    #[schemars(with = "i64")]
    pub project_id: Option<ProjectId>,
    /// Source of the events, for people.
    #[schemars(length(min = 1, max = TEXT_CHARS_MAX), regex(pattern = r"\S"))]
    pub source: String,
    /// Method of the import, for people.
    #[schemars(length(min = 1, max = TEXT_CHARS_MAX), regex(pattern = r"\S"))]
    pub method: String,
    /// Number of events in all.
    #[schemars(range(min = 1))]
    pub total_events: i64,
    /// Most events in a minute.
    #[schemars(range(min = 1))]
    pub events_per_minute: i64,
}

/// Reads the id of a project; null is refused.
fn sent_project<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ProjectId>, D::Error> {
    let id = i64::deserialize(deserializer)?;
    Ok(Some(ProjectId(id)))
}

/// Imports: requests of organizations, and decisions of the operator.
#[derive(Clone, Copy, Debug)]
pub struct HistoricalMigrations<'a>(&'a Catalog);

impl<'a> HistoricalMigrations<'a> {
    /// Returns a handle to the historical migrations in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

impl HistoricalMigrations<'_> {
    /// Lists the migrations of an organization, oldest first.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list(
        self,
        organization_id: Uuid,
        page: PageRequest,
    ) -> Result<Page<migrations::Model>, CatalogError> {
        let read = async {
            let query = of_organization(organization_id);
            let count = query.clone().count(self.0.reader()).await?;
            let query = oldest_first(query).offset(page.offset).limit(page.limit);
            let rows = query.all(self.0.reader()).await?;
            Ok(Page { count, rows })
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Lists the migrations of all organizations, or those in one state, oldest first; for the
    /// operator.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list_all(
        self,
        state: Option<MigrationState>,
    ) -> Result<Vec<migrations::Model>, CatalogError> {
        let mut query = migrations::Entity::find();
        if let Some(state) = state {
            query = query.filter(migrations::Column::State.eq(state));
        }
        let found = oldest_first(query).all(self.0.reader()).await;
        found.map_err(|error| self.0.error(&error))
    }

    /// Finds one of an organization's migrations.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn get(
        self,
        organization_id: Uuid,
        id: Uuid,
    ) -> Result<Option<migrations::Model>, CatalogError> {
        let query = of_organization(organization_id).filter(migrations::Column::Id.eq(id));
        let found = query.one(self.0.reader()).await;
        found.map_err(|error| self.0.error(&error))
    }

    /// Requests a migration. The actor must be an administrator or above.
    ///
    /// # Errors
    ///
    /// No such organization, a bad text or number, a project that is not the organization's, or
    /// the actor may not.
    pub async fn request(
        self,
        actor: &Actor,
        organization_id: Uuid,
        new: NewHistoricalMigration,
    ) -> Result<migrations::Model, ChangeError> {
        let source = checked_name("the source", "source", &new.source, TEXT_CHARS_MAX)?;
        let method = checked_name("the method", "method", &new.method, TEXT_CHARS_MAX)?;
        check_positive("total_events", new.total_events)?;
        check_positive("events_per_minute", new.events_per_minute)?;
        let transaction = self.0.begin().await?;
        let made = async {
            let organization = lock_organization(&transaction, organization_id).await?;
            must_act_as(&transaction, actor, organization_id, Level::Administrator).await?;
            organization.must_have(HISTORICAL_MIGRATIONS)?;
            let project_id =
                project_or_default(&transaction, organization_id, new.project_id).await?;
            let had = of_organization(organization_id).count(&transaction).await?;
            must_have_fewer(
                "An organization",
                HISTORICAL_MIGRATIONS_MAX,
                "historical migrations",
                had,
            )?;
            let row = migrations::ActiveModel {
                id: ActiveValue::Set(Uuid::now_v7()),
                organization_id: ActiveValue::Set(organization_id),
                team_id: ActiveValue::Set(project_id.0),
                source: ActiveValue::Set(source),
                method: ActiveValue::Set(method),
                total_events: ActiveValue::Set(new.total_events),
                events_per_minute: ActiveValue::Set(new.events_per_minute),
                state: ActiveValue::Set(MigrationState::Requested),
                events_imported: ActiveValue::Set(0),
                events_leased: ActiveValue::Set(0),
                created_at: ActiveValue::Set(self.0.now()),
                decided_at: ActiveValue::Set(None),
                note: ActiveValue::Set(None),
            };
            self.insert(&transaction, actor, row).await
        };
        let made = made.await;
        self.0.finish(transaction, made).await
    }

    async fn insert(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        row: migrations::ActiveModel,
    ) -> Result<migrations::Model, Abort> {
        let made = migrations::Entity::insert(row)
            .exec_with_returning(within)
            .await?;
        let audit = audit_change(Activity::Created, &made)
            .field("team_id", (), made.team_id)
            .field("method", (), &made.method)
            .field("total_events", (), made.total_events)
            .field("events_per_minute", (), made.events_per_minute)
            .field("state", (), state_name(made.state));
        self.0.record(within, actor, audit).await?;
        Ok(made)
    }
}

fn of_organization(organization_id: Uuid) -> Select<migrations::Entity> {
    migrations::Entity::find().filter(migrations::Column::OrganizationId.eq(organization_id))
}

fn oldest_first(query: Select<migrations::Entity>) -> Select<migrations::Entity> {
    query
        .order_by_asc(migrations::Column::CreatedAt)
        .order_by_asc(migrations::Column::Id)
}

fn check_positive(field: &'static str, number: i64) -> Result<(), ChangeError> {
    if number >= 1 {
        return Ok(());
    }
    let detail = format!("{field} must be at least 1");
    Err(ChangeError::invalid(field, "min_value", detail))
}

fn state_name(state: MigrationState) -> String {
    sea_orm::ActiveEnum::to_value(&state)
}

fn audit_change(activity: Activity, migration: &migrations::Model) -> AuditChange {
    let scope = ActivityScope::HistoricalMigration;
    let organization_id = migration.organization_id;
    AuditChange::new(
        activity,
        scope,
        organization_id,
        &migration.id,
        &migration.source,
    )
}
