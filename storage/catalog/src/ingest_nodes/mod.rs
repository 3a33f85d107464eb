//! Registry of ingest nodes: their watermarks, and how far these let exports go.
//!
//! A node's *watermark* W says: every row of this node whose `created_at` is before W is in
//! ClickHouse, and it will make no such row any more. A window of arrival times may be exported
//! once the watermarks of all nodes that count have passed its end
//! ([`Nodes::exports_watermark`]).
//!
//! | State | Exports |
//! |---|---|
//! | starting | run nothing: the node may have rows of any time in its log |
//! | running | run up to its watermark; a process that died says nothing, and its log may hold rows |
//! | stopped | do not wait: its log was empty when it ended |
//!
//! A node counts from before it takes its first request, so no window can run that it would still
//! write into. That alone is not enough: windows ran before it counted, and its clock may be
//! behind. So registering answers `min_created_at`, a time before which the node must make no row.
//! It is read after the node counts, and so is not below any [`Nodes::exports_watermark`] that
//! was answered before: later exports wait for this node.
//!
//! A node may start while the catalog is away, and counts once it has registered. One that had
//! stopped may then have rows below what exports have passed: `min_created_at` tells it so.
//!
//! Person updates have a watermark of their own ([`Nodes::updates_watermark`]), as they are
//! shipped before events of older months are; persons are kept up to it. A node makes no row below
//! either: `min_created_at` is not below any that was answered before.
//!
//! Two processes with one name run copies of one data folder ([`starts`]). The name belongs to the
//! one that started last; the other one is told so when it next publishes its watermark.
//!
//! Nodes belong to the installation and to no organization, so their changes have no entry in an
//! activity log.

mod starts;
#[cfg(test)]
mod tests;

pub use starts::{NODE_SILENCE_MAX, NextStart, NodeStart, NodeStarts};

use crate::catalog::Catalog;
use crate::entities::ingest_nodes::{self as nodes, NodeState};
use crate::error::{CatalogError, ChangeError};
use crate::time::UtcTime;
use sea_orm::sea_query::{self, Expr, OnConflict};
use sea_orm::{ActiveValue, ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder};

/// Reason why a node could not be registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// Database error.
    #[error("{0}")]
    Catalog(#[from] CatalogError),
    /// Another start has taken the name.
    #[error("another copy of this node's data folder was started on {}", .0.host)]
    Taken(Box<nodes::Model>),
}

/// Outcome of publishing a watermark.
#[derive(Debug, PartialEq, Eq)]
pub enum Published {
    /// The catalog has it.
    Done,
    /// The catalog has no such node that counts, as it was deregistered: it has to register again
    /// at once.
    Unknown,
    /// The catalog has the node without its last start: it has to register again.
    Unnoted,
    /// Another start has taken the name.
    Taken(Box<nodes::Model>),
}

/// Watermarks that a node publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Time before which all rows of the node are in ClickHouse.
    pub all: UtcTime,
    /// Time before which its person updates are; not before that of all rows.
    pub updates: UtcTime,
}

impl Watermarks {
    /// Watermarks of a node whose rows of all tables are stored up to one time.
    #[must_use]
    pub const fn of(at: UtcTime) -> Self {
        Self {
            all: at,
            updates: at,
        }
    }
}

/// Registry of ingest nodes, and how far each has shipped.
#[derive(Clone, Copy, Debug)]
pub struct Nodes<'a>(&'a Catalog);

impl<'a> Nodes<'a> {
    /// Returns a handle to the nodes in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

impl Nodes<'_> {
    /// Registers a node before it takes its first request, so that it counts. The answer is
    /// `min_created_at`, before which it must make no row; `None` when no node has ever published a
    /// watermark.
    ///
    /// A node that counts already, as its process died, goes on counting with the watermark that it
    /// had, also if the catalog can only be read at the moment.
    ///
    /// # Errors
    ///
    /// Any database error, or another start has taken the name since `starts` were read; then the
    /// node must take no request.
    pub async fn register(
        self,
        name: &str,
        host: &str,
        starts: &NodeStarts,
    ) -> Result<Option<UtcTime>, RegisterError> {
        let known = self.get(name).await?;
        let counts = known.filter(|node| node.state != NodeState::Stopped);
        let started = self.start(name, host, starts, counts.as_ref());
        match (started.await, counts) {
            (Ok(true), _) => {}
            (Ok(false), _) => {
                let taken = self.get(name).await?;
                // The row was removed in between: nobody has the name, so the caller tries again.
                let taken = taken.ok_or(CatalogError::ConditionBroken)?;
                return Err(RegisterError::Taken(Box::new(taken)));
            }
            (Err(error), Some(node)) if starts.knows(&node.start_id) => {
                tracing::warn!("the start of this node cannot be recorded: {error}");
            }
            (Err(error), _) => return Err(error.into()),
        }
        let nodes = self.list().await?;
        let own = nodes.iter().find(|node| node.name == name);
        Ok(own
            .and_then(nodes::Model::updates_passed)
            .max(lowest_known(&nodes, nodes::Model::updates_passed)))
    }

    /// Finds the node of a name.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn get(self, name: &str) -> Result<Option<nodes::Model>, CatalogError> {
        let found = nodes::Entity::find_by_id(name.to_owned()).one(&self.0.db);
        found.await.map_err(|error| self.0.error(&error))
    }

    /// Writes a start of a node; `false` if another start has the name.
    async fn start(
        self,
        name: &str,
        host: &str,
        starts: &NodeStarts,
        counts: Option<&nodes::Model>,
    ) -> Result<bool, CatalogError> {
        let now = self.0.now();
        let row = nodes::ActiveModel {
            name: ActiveValue::Set(name.to_owned()),
            host: ActiveValue::Set(host.to_owned()),
            state: ActiveValue::Set(counts.map_or(NodeState::Starting, |node| node.state)),
            watermark: ActiveValue::Set(counts.and_then(|node| node.watermark)),
            updates_watermark: ActiveValue::Set(counts.and_then(|node| node.updates_watermark)),
            published_at: ActiveValue::Set(now),
            started_at: ActiveValue::Set(now),
            start_count: ActiveValue::Set(starts.own.count),
            start_id: ActiveValue::Set(starts.own.id.clone()),
        };
        let mut again = OnConflict::column(nodes::Column::Name);
        // The watermarks of a node that had stopped stay: the `min_created_at` of others is
        // computed from them.
        again.update_columns([
            nodes::Column::Host,
            nodes::Column::State,
            nodes::Column::PublishedAt,
            nodes::Column::StartedAt,
            nodes::Column::StartCount,
            nodes::Column::StartId,
        ]);
        let start_id = Expr::col((nodes::Entity, nodes::Column::StartId));
        let known = [&*starts.before.id, &*starts.own.id];
        let count = Expr::col((nodes::Entity, nodes::Column::StartCount));
        let is_restored = sea_query::ExprTrait::lt(count, starts.before.count);
        let is_known = sea_query::ExprTrait::is_in(start_id, known);
        again.action_and_where(sea_query::ExprTrait::or(is_known, is_restored));
        let inserted = nodes::Entity::insert(row)
            .on_conflict(again)
            .exec_without_returning(&self.0.writer)
            .await;
        let written = inserted.map_err(|error| self.0.error(&error))?;
        Ok(written > 0)
    }

    /// Publishes a node's watermarks, in one statement; without any only that it lives.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn publish(
        self,
        name: &str,
        starts: &NodeStarts,
        watermarks: Option<Watermarks>,
    ) -> Result<Published, CatalogError> {
        let mut row = nodes::ActiveModel {
            published_at: ActiveValue::Set(self.0.now()),
            ..Default::default()
        };
        let mut update = nodes::Entity::update_many()
            .filter(nodes::Column::Name.eq(name))
            .filter(nodes::Column::StartId.eq(&*starts.own.id))
            .filter(nodes::Column::State.ne(NodeState::Stopped));
        if let Some(Watermarks { all, updates }) = watermarks {
            row.state = ActiveValue::Set(NodeState::Running);
            row.watermark = ActiveValue::Set(Some(all));
            row.updates_watermark = ActiveValue::Set(Some(updates));
            // Neither ever falls.
            for (column, to) in [
                (nodes::Column::Watermark, all),
                (nodes::Column::UpdatesWatermark, updates),
            ] {
                let is_no_fall = Condition::any().add(column.is_null()).add(column.lte(to));
                update = update.filter(is_no_fall);
            }
        }
        let updated = update.set(row).exec(&self.0.writer).await;
        let updated = updated.map_err(|error| self.0.error(&error))?;
        if updated.rows_affected > 0 {
            return Ok(Published::Done);
        }
        Ok(match self.get(name).await? {
            // The catalog was restored to before this start, which has to be noted anew.
            Some(row) if !starts.knows(&row.start_id) && row.start_count < starts.before.count => {
                Published::Unnoted
            }
            Some(row) if !starts.knows(&row.start_id) => Published::Taken(Box::new(row)),
            Some(row) if row.start_id != starts.own.id => Published::Unnoted,
            _ => Published::Unknown,
        })
    }

    /// Stops a node that takes no request any more and has nothing left in its log: exports do not
    /// wait for it, unless another start has its name.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn stop(
        self,
        name: &str,
        starts: &NodeStarts,
        watermark: UtcTime,
    ) -> Result<(), CatalogError> {
        let row = nodes::ActiveModel {
            state: ActiveValue::Set(NodeState::Stopped),
            watermark: ActiveValue::Set(Some(watermark)),
            published_at: ActiveValue::Set(self.0.now()),
            ..Default::default()
        };
        let updated = nodes::Entity::update_many()
            .set(row)
            .filter(nodes::Column::Name.eq(name))
            .filter(nodes::Column::StartId.is_in([&*starts.before.id, &*starts.own.id]))
            .exec(&self.0.writer)
            .await;
        updated.map(drop).map_err(|error| self.0.error(&error))
    }

    /// Stops a node that a [`Nodes::register`] may have registered though its answer
    /// was lost, and that took no request. Its log must be empty.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn take_back(self, name: &str) -> Result<(), CatalogError> {
        let row = nodes::ActiveModel {
            state: ActiveValue::Set(NodeState::Stopped),
            ..Default::default()
        };
        let updated = nodes::Entity::update_many()
            .set(row)
            .filter(nodes::Column::Name.eq(name))
            .filter(nodes::Column::State.eq(NodeState::Starting))
            .exec(&self.0.writer)
            .await;
        updated.map(drop).map_err(|error| self.0.error(&error))
    }

    /// Lists all nodes, running or stopped, by name.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list(self) -> Result<Vec<nodes::Model>, CatalogError> {
        let found = nodes::Entity::find()
            .order_by_asc(nodes::Column::Name)
            .all(&self.0.db)
            .await;
        found.map_err(|error| self.0.error(&error))
    }

    /// Arrival time before which every row of every node is in ClickHouse: a window may be exported
    /// if it ends here or before. `None` means that nothing may run: no node has ever published a
    /// watermark, or one has just begun to count and has not.
    ///
    /// # Errors
    ///
    /// Any database error; then nothing may run, either.
    pub async fn exports_watermark(self) -> Result<Option<UtcTime>, CatalogError> {
        let nodes = self.list().await?;
        Ok(passed_by_all(&nodes, |node| node.watermark))
    }

    /// Arrival time before which every person update of every node is in ClickHouse: up to here
    /// updates may be applied. Never before [`Nodes::exports_watermark`], and `None` with it.
    ///
    /// # Errors
    ///
    /// Any database error; then none may be applied, either.
    pub async fn updates_watermark(self) -> Result<Option<UtcTime>, CatalogError> {
        let nodes = self.list().await?;
        Ok(passed_by_all(&nodes, nodes::Model::updates_passed))
    }

    /// Deregisters a node for good, whatever its log may still hold: those rows, should they ever
    /// ship, are in no window any more. A node that lives registers again within seconds.
    ///
    /// # Errors
    ///
    /// There is no such node, or the database failed.
    pub async fn deregister(self, name: &str) -> Result<(), ChangeError> {
        let deleted = nodes::Entity::delete_by_id(name.to_owned())
            .exec(&self.0.writer)
            .await;
        let deleted = deleted.map_err(|error| self.0.error(&error))?;
        if deleted.rows_affected == 0 {
            return Err(ChangeError::not_found("node", &name));
        }
        Ok(())
    }

    /// Deregisters all nodes of a catalog that is a copy, as their logs are not with it: exports do
    /// not wait for them. Their watermarks stay, as exports went up to them.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn deregister_all(self) -> Result<(), CatalogError> {
        let row = nodes::ActiveModel {
            state: ActiveValue::Set(NodeState::Stopped),
            ..Default::default()
        };
        let deregistered = nodes::Entity::update_many().set(row);
        let deregistered = deregistered.exec(&self.0.writer).await;
        deregistered.map(drop).map_err(|error| self.0.error(&error))
    }
}

/// Time that all nodes that count have passed, given that of each; `None` while one is not known.
fn passed_by_all(
    nodes: &[nodes::Model],
    of: impl Fn(&nodes::Model) -> Option<UtcTime>,
) -> Option<UtcTime> {
    let is_unknown = |node: &nodes::Model| node.state == NodeState::Starting;
    if nodes.iter().any(is_unknown) {
        return None;
    }
    lowest_known(nodes, of)
}

/// Lowest time of the nodes that count. If none counts, all rows of all nodes are in ClickHouse,
/// and the highest time holds: up to it exports may have gone.
fn lowest_known(
    nodes: &[nodes::Model],
    of: impl Fn(&nodes::Model) -> Option<UtcTime>,
) -> Option<UtcTime> {
    let running = nodes.iter().filter(|it| it.state == NodeState::Running);
    let lowest = running.filter_map(&of).min();
    lowest.or_else(|| nodes.iter().filter_map(&of).max())
}
