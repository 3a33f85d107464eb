//! Nodes that take events: how far each is, and how far that lets exports go.
//!
//! A node's *watermark* W says: every row of this node whose `created_at` is before W is in
//! ClickHouse, and it will make no such row any more. A window of arrival times may be exported
//! once the watermarks of all nodes that count have passed its end ([`Catalog::exports_watermark`]).
//!
//! | State | Exports |
//! |---|---|
//! | starting | run nothing: the node may have rows of any time in its log |
//! | running | run up to its watermark; a process that died says nothing, and its log may hold rows |
//! | stopped | do not wait: its log was empty when it ended |
//!
//! A node counts from before it takes its first request, so no window can run that it would still
//! write into. That alone is not enough: windows ran before it counted, and its clock may be
//! behind. So what registering answers is a floor, before which it must make no row. It is read
//! after the node counts, and so is not below any [`Catalog::exports_watermark`] that was answered
//! before: whoever asks later waits for this node.
//!
//! Nodes belong to the installation and to no organization, so what they say of themselves leaves
//! no entry in an activity log.

#[cfg(test)]
mod tests;

use crate::catalog::Catalog;
use crate::entities::historical_slices as slices;
use crate::entities::ingest_nodes::{self as nodes, NodeState};
use crate::error::{CatalogError, ChangeError};
use crate::time::UtcTime;
use sea_orm::sea_query::{Expr, OnConflict};
use sea_orm::{ActiveValue, ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder};

impl Catalog {
    /// Makes a node count, before it takes its first request. The answer is the time before which
    /// it must make no row; `None` when there is none, as no node has ever said how far it is.
    ///
    /// One that counts already, as its process died, goes on counting with the watermark that it
    /// had, also if the catalog can only be read at the moment.
    ///
    /// # Errors
    ///
    /// What the database says; then it must take no request.
    pub async fn register_ingest_node(
        &self,
        name: &str,
        host: &str,
    ) -> Result<Option<UtcTime>, CatalogError> {
        let found = nodes::Entity::find_by_id(name.to_owned()).one(&self.db);
        let known = found.await.map_err(|error| self.error(&error))?;
        let counts = known.filter(|node| node.state != NodeState::Stopped);
        let started = self.start_ingest_node(name, host, counts.as_ref()).await;
        match (started, counts) {
            (Err(error), Some(_)) => {
                tracing::warn!("it cannot be noted that this node started: {error}");
            }
            (started, _) => started?,
        }
        let nodes = self.ingest_nodes().await?;
        let own = nodes.iter().find(|node| node.name == name);
        Ok(own
            .and_then(|node| node.watermark)
            .max(lowest_known(&nodes)))
    }

    async fn start_ingest_node(
        &self,
        name: &str,
        host: &str,
        counts: Option<&nodes::Model>,
    ) -> Result<(), CatalogError> {
        let now = self.now();
        let row = nodes::ActiveModel {
            name: ActiveValue::Set(name.to_owned()),
            host: ActiveValue::Set(host.to_owned()),
            state: ActiveValue::Set(counts.map_or(NodeState::Starting, |node| node.state)),
            watermark: ActiveValue::Set(counts.and_then(|node| node.watermark)),
            published_at: ActiveValue::Set(now),
            started_at: ActiveValue::Set(now),
        };
        let mut again = OnConflict::column(nodes::Column::Name);
        // The watermark of one that had stopped stays: it is part of others' floors.
        again.update_columns([
            nodes::Column::Host,
            nodes::Column::State,
            nodes::Column::PublishedAt,
            nodes::Column::StartedAt,
        ]);
        let inserted = nodes::Entity::insert(row)
            .on_conflict(again)
            .exec_without_returning(&self.writer)
            .await;
        inserted.map(drop).map_err(|error| self.error(&error))
    }

    /// Says how far a node is, in one statement; without a watermark only that it lives. `false`
    /// if the catalog knows no such node that counts, as somebody has had it forgotten: it has to
    /// be registered again at once.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn publish_watermark(
        &self,
        name: &str,
        watermark: Option<UtcTime>,
    ) -> Result<bool, CatalogError> {
        let mut row = nodes::ActiveModel {
            published_at: ActiveValue::Set(self.now()),
            ..Default::default()
        };
        let mut update = nodes::Entity::update_many()
            .filter(nodes::Column::Name.eq(name))
            .filter(nodes::Column::State.ne(NodeState::Stopped));
        if let Some(watermark) = watermark {
            row.state = ActiveValue::Set(NodeState::Running);
            row.watermark = ActiveValue::Set(Some(watermark));
            // It never falls, whoever else has the same name.
            let is_no_fall = Condition::any()
                .add(nodes::Column::Watermark.is_null())
                .add(nodes::Column::Watermark.lte(watermark));
            update = update.filter(is_no_fall);
        }
        let updated = update.set(row).exec(&self.writer).await;
        let updated = updated.map_err(|error| self.error(&error))?;
        Ok(updated.rows_affected > 0)
    }

    /// Says that a node ended, takes no request any more, and has nothing left in its log: nobody
    /// waits for it.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn stop_ingest_node(
        &self,
        name: &str,
        watermark: UtcTime,
    ) -> Result<(), CatalogError> {
        let row = nodes::ActiveModel {
            state: ActiveValue::Set(NodeState::Stopped),
            watermark: ActiveValue::Set(Some(watermark)),
            published_at: ActiveValue::Set(self.now()),
            ..Default::default()
        };
        let updated = nodes::Entity::update_many()
            .set(row)
            .filter(nodes::Column::Name.eq(name))
            .exec(&self.writer)
            .await;
        updated.map(drop).map_err(|error| self.error(&error))
    }

    /// Ends a node that may have begun to count by a [`Catalog::register_ingest_node`] whose answer was
    /// lost, and that took no request. Its log must be empty.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn take_back_ingest_node(&self, name: &str) -> Result<(), CatalogError> {
        let row = nodes::ActiveModel {
            state: ActiveValue::Set(NodeState::Stopped),
            ..Default::default()
        };
        let updated = nodes::Entity::update_many()
            .set(row)
            .filter(nodes::Column::Name.eq(name))
            .filter(nodes::Column::State.eq(NodeState::Starting))
            .exec(&self.writer)
            .await;
        updated.map(drop).map_err(|error| self.error(&error))
    }

    /// All nodes there are or were, by name.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn ingest_nodes(&self) -> Result<Vec<nodes::Model>, CatalogError> {
        let found = nodes::Entity::find()
            .order_by_asc(nodes::Column::Name)
            .all(&self.db)
            .await;
        found.map_err(|error| self.error(&error))
    }

    /// The arrival time before which every row of every node is in ClickHouse: a window may be
    /// exported if it ends here or before. `None` means that nothing may run: no node has ever
    /// said how far it is, or one has just begun to count and has not.
    ///
    /// # Errors
    ///
    /// What the database says; then nothing may run, either.
    pub async fn exports_watermark(&self) -> Result<Option<UtcTime>, CatalogError> {
        Ok(passed_by_all(&self.ingest_nodes().await?))
    }

    /// Takes a node out for good, whatever its log may still hold: those rows, should they ever
    /// ship, are in no window any more. One that lives registers again within seconds.
    ///
    /// # Errors
    ///
    /// There is no such node, or the database failed.
    pub async fn forget_ingest_node(&self, name: &str) -> Result<(), ChangeError> {
        let deleted = nodes::Entity::delete_by_id(name.to_owned())
            .exec(&self.writer)
            .await;
        let deleted = deleted.map_err(|error| self.error(&error))?;
        if deleted.rows_affected == 0 {
            return Err(ChangeError::not_found("node", &name));
        }
        Ok(())
    }

    /// Nobody waits for any node of this catalog any more: it is a copy, and their logs are not
    /// with it. Their watermarks stay, as exports went up to them; what they held of imports is with
    /// the projects again.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn retire_ingest_nodes(&self) -> Result<(), CatalogError> {
        let row = nodes::ActiveModel {
            state: ActiveValue::Set(NodeState::Stopped),
            ..Default::default()
        };
        let retired = async {
            let nodes = nodes::Entity::update_many().set(row);
            nodes.exec(&self.writer).await?;
            slices::Entity::update_many()
                .col_expr(slices::Column::EventsHeld, Expr::value(0_i64))
                .exec(&self.writer)
                .await
        };
        let retired = retired.await;
        retired.map(drop).map_err(|error| self.error(&error))
    }
}

/// What exports may go up to.
fn passed_by_all(nodes: &[nodes::Model]) -> Option<UtcTime> {
    let is_unknown = |node: &nodes::Model| node.state == NodeState::Starting;
    if nodes.iter().any(is_unknown) {
        return None;
    }
    lowest_known(nodes)
}

/// The lowest watermark of those that count. If none does, all that any of them made is in
/// ClickHouse, and the highest holds: up to it exports may have gone.
fn lowest_known(nodes: &[nodes::Model]) -> Option<UtcTime> {
    let of = |node: &nodes::Model| node.watermark;
    let running = nodes.iter().filter(|it| it.state == NodeState::Running);
    running
        .filter_map(of)
        .min()
        .or_else(|| nodes.iter().filter_map(of).max())
}
