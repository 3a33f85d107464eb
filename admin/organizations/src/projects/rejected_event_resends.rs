//! Requests with rejected events that are sent again: the one of each project that is under way.
//!
//! A request is in the catalog from before it is sent until its outcome is recorded, whoever sends
//! it. Whoever finds one there sends it once more, unchanged, before another request of its
//! project: the server recognizes what it has stored, so it need not be known whether the process
//! that began the request is alive.

use super::locks::{lock_project, project_audit};
use millrace_catalog::entities::rejected_event_resends as resends;
use millrace_catalog::transaction::{Abort, must_act_as};
use millrace_catalog::{Activity, Actor, Catalog, CatalogError, ChangeError, Level};
use millrace_rows::ProjectId;
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveValue, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder,
};

/// Requests under way.
#[derive(Clone, Copy, Debug)]
pub struct RejectedEventResends<'a>(&'a Catalog);

/// Request that is about to be sent.
#[derive(Clone, Debug)]
pub struct NewResend {
    /// Project of the events.
    pub project_id: ProjectId,
    /// True if the events are part of a historical migration.
    pub historical_migration: bool,
    /// Keys of the events, and their JSON as it is sent.
    pub request: String,
    /// Number of events.
    pub events: usize,
}

/// Outcome of beginning a request.
#[derive(Clone, Debug)]
pub enum BegunResend {
    /// The request may be sent. The caller ends it by this id.
    New(Uuid),
    /// Another request of the project is under way; nothing was changed.
    Pending(Box<resends::Model>),
}

impl<'a> RejectedEventResends<'a> {
    /// Returns a handle to the requests in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }

    /// Lists all requests, by project.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list_all(self) -> Result<Vec<resends::Model>, CatalogError> {
        let found = resends::Entity::find()
            .order_by_asc(resends::Column::TeamId)
            .all(self.0.reader())
            .await;
        found.map_err(|error| self.0.error(&error))
    }

    /// Begins a request, unless another one of its project is under way. For members.
    ///
    /// # Errors
    ///
    /// There is no such project, or the actor may not.
    pub async fn begin(self, actor: &Actor, new: NewResend) -> Result<BegunResend, ChangeError> {
        let transaction = self.0.begin().await?;
        let begun = self.begin_within(&transaction, actor, new).await;
        self.0.finish(transaction, begun).await
    }

    async fn begin_within(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        new: NewResend,
    ) -> Result<BegunResend, Abort> {
        let project = lock_project(within, new.project_id).await?;
        must_act_as(within, actor, project.organization_id, Level::Member).await?;
        let pending = resends::Entity::find_by_id(project.id).one(within).await?;
        if let Some(pending) = pending {
            return Ok(BegunResend::Pending(Box::new(pending)));
        }
        let id = Uuid::now_v7();
        let row = resends::ActiveModel {
            team_id: ActiveValue::Set(project.id),
            id: ActiveValue::Set(id),
            historical_migration: ActiveValue::Set(new.historical_migration),
            request: ActiveValue::Set(new.request),
            created_at: ActiveValue::Set(self.0.now()),
        };
        resends::Entity::insert(row)
            .exec_without_returning(within)
            .await?;
        let audit = project_audit(Activity::Updated, &project).field(
            "rejected_events_resent",
            (),
            new.events,
        );
        self.0.record(within, actor, audit).await?;
        Ok(BegunResend::New(id))
    }

    /// Ends a request: its outcome is recorded, or nothing of it is stored. Nothing happens if
    /// somebody else has ended it.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn end(self, id: Uuid) -> Result<(), CatalogError> {
        let ended = resends::Entity::delete_many()
            .filter(resends::Column::Id.eq(id))
            .exec(self.0.writer())
            .await;
        ended.map(drop).map_err(|error| self.0.error(&error))
    }
}
