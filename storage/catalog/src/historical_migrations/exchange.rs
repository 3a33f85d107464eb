//! What a node and the catalog tell each other about imports: what came in, and what may.
//!
//! One transaction for all projects that a node has something to say of, as it says at the same time
//! up to where in its log all is counted. Organizations are locked first, so that a project is there
//! as long as it takes, then the projects' rows of the table, in order: nodes queue up there, and
//! what they decide about a project they decide one after the other.

mod books;

use super::account::{SliceDecision, SliceStand};
use super::bucket::Bucket;
use crate::catalog::Catalog;
use crate::entities::historical_migrations::{self as migrations, MigrationState};
use crate::entities::{historical_allowances as allowances, ingest_nodes::NodeState};
use crate::entities::{historical_nodes as nodes, historical_slices as slices, ingest_nodes};
use crate::error::{CatalogError, ChangeError};
use crate::transaction::{Abort, lock_organization, locked};
use books::Books;
use millrace_rows::TeamId;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use std::collections::BTreeMap;

/// A node that was heard of so lately, in microseconds, may be about to use what it holds. A node
/// stops using it well before.
const LIVES_MICROS: i64 = 20_000_000;
/// A node that said so lately how far its log is shipped, in microseconds, is running.
const RUNS_MICROS: i64 = 30_000_000;

/// A place in a node's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPlace {
    /// The number of the segment.
    pub segment: u64,
    /// Bytes from its start.
    pub offset: u64,
}

/// What a node left when it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeLegacy {
    /// Up to where in its log all is counted; `None` if it never was given anything.
    pub counted_to: Option<LogPlace>,
    /// Events that it counted, ever, by project.
    pub counted: BTreeMap<TeamId, i64>,
}

impl Catalog {
    /// What a node left that starts again. It says then what its log has beyond that, and that it
    /// holds nothing. If no other node runs, the minute of every project starts anew.
    ///
    /// # Errors
    ///
    /// What the database says; then it must take no imports in.
    pub async fn start_historical_node(&self, node: &str) -> Result<NodeLegacy, CatalogError> {
        let started = async {
            let running = ingest_nodes::Entity::find()
                .filter(ingest_nodes::Column::Name.ne(node))
                .filter(ingest_nodes::Column::State.ne(NodeState::Stopped))
                .filter(ingest_nodes::Column::PublishedAt.gt(self.now().0 - RUNS_MICROS))
                .one(&self.db)
                .await?;
            if running.is_none() {
                allowances::Entity::update_many()
                    .col_expr(
                        allowances::Column::BucketUnits,
                        Expr::value(Bucket::FULL.units),
                    )
                    .col_expr(
                        allowances::Column::BucketPerMinute,
                        Expr::value(Bucket::FULL.per_minute),
                    )
                    .exec(&self.writer)
                    .await?;
            }
            let known = nodes::Entity::find_by_id(node.to_owned())
                .one(&self.db)
                .await?;
            let mut legacy = NodeLegacy {
                counted_to: known.as_ref().map(place),
                ..NodeLegacy::default()
            };
            let of_node = slices::Entity::find().filter(slices::Column::Node.eq(node));
            for slice in of_node.all(&self.db).await? {
                let counted = legacy.counted.entry(TeamId(slice.team_id)).or_default();
                *counted += slice.events_counted;
            }
            Ok(legacy)
        };
        started.await.map_err(|error| self.error(&error))
    }

    /// Counts what a node took in, and gives it what it needs, project by project. Everything below
    /// `counted_to` in its log of imports is in what it says it counted. In the answer, `None` is a
    /// project that is no more.
    ///
    /// # Errors
    ///
    /// What the database says; then nobody knows whether it happened, and the node says where it
    /// stands again, without what it may have been given.
    pub async fn exchange_historical_slices(
        &self,
        node: &str,
        counted_to: LogPlace,
        stands: &BTreeMap<TeamId, SliceStand>,
    ) -> Result<BTreeMap<TeamId, Option<SliceDecision>>, ChangeError> {
        let transaction = self.begin().await?;
        let settled = async {
            let now = self.shared_now(&transaction).await?;
            let mut books = Books::open(&transaction, now, stands.keys().copied()).await?;
            let mut answers = BTreeMap::new();
            for (team_id, stand) in stands {
                answers.insert(*team_id, books.settle(*team_id, node, *stand));
            }
            books.write(&transaction).await?;
            write_node(&transaction, node, counted_to, now).await?;
            Ok((answers, books.used_up()))
        };
        let settled = settled.await;
        let (answers, used_up) = self.finish(transaction, settled).await?;
        for id in used_up {
            self.finish_used_up(id).await?;
        }
        Ok(answers)
    }

    /// Finishes a migration whose last event came. Apart from the exchange, as the entry of the log
    /// of activity needs the organization.
    async fn finish_used_up(&self, id: Uuid) -> Result<(), ChangeError> {
        let transaction = self.begin().await?;
        let finished = async {
            let query = migrations::Entity::find_by_id(id)
                .filter(migrations::Column::State.eq(MigrationState::Approved));
            let Some(seen) = query.clone().one(&transaction).await? else {
                return Ok(());
            };
            let found = lock_organization(&transaction, seen.organization_id).await;
            let before = locked(&transaction, query).one(&transaction).await?;
            let (Ok(_), Some(before)) = (found, before) else {
                return Ok(());
            };
            if before.events_imported >= before.total_events {
                let mut after = before.clone();
                after.state = MigrationState::Finished;
                let system = crate::actor::Actor::System;
                self.save_migration(&transaction, &system, &before, after)
                    .await?;
            }
            Ok::<(), Abort>(())
        };
        let finished = finished.await;
        self.finish(transaction, finished).await
    }
}

fn place(node: &nodes::Model) -> LogPlace {
    LogPlace {
        segment: node.segment.cast_unsigned(),
        offset: node.offset.cast_unsigned(),
    }
}

async fn write_node<C: ConnectionTrait>(
    within: &C,
    node: &str,
    counted_to: LogPlace,
    now: i64,
) -> Result<(), Abort> {
    let row = nodes::ActiveModel {
        node: ActiveValue::Set(node.to_owned()),
        segment: ActiveValue::Set(counted_to.segment.cast_signed()),
        offset: ActiveValue::Set(counted_to.offset.cast_signed()),
        seen_at: ActiveValue::Set(now),
    };
    let mut again = sea_orm::sea_query::OnConflict::column(nodes::Column::Node);
    again.update_columns([
        nodes::Column::Segment,
        nodes::Column::Offset,
        nodes::Column::SeenAt,
    ]);
    nodes::Entity::insert(row)
        .on_conflict(again)
        .exec_without_returning(within)
        .await?;
    Ok(())
}
