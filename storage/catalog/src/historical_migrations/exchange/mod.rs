//! Exchange between a node and the catalog about import quota: the node reports its counts, and
//! gets leases.
//!
//! One transaction covers all projects that a node reports on, as the node reports at the same time
//! up to where in its log all is counted. Organizations are locked first, so that a project exists
//! until the end, then the projects' rows, in order: nodes queue up there, and decide about a
//! project one after the other.

mod quota_ledger;

use super::bucket::Bucket;
use super::project_quota::{LeaseDecision, LeaseReport};
use crate::catalog::Catalog;
use crate::entities::historical_migrations::{self as migrations, MigrationState};
use crate::entities::{historical_allowances as quota_rows, ingest_nodes::NodeState};
use crate::entities::{historical_nodes as nodes, historical_slices as lease_rows, ingest_nodes};
use crate::error::{CatalogError, ChangeError};
use crate::transaction::{Abort, lock_organization, locked};
use millrace_rows::ProjectId;
use quota_ledger::QuotaLedger;
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};
use std::collections::BTreeMap;

/// Time since a node last published its watermark, in microseconds, within which it counts as
/// running.
const RUNS_MICROS: i64 = 30_000_000;

/// Position in a node's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPlace {
    /// Number of the segment.
    pub segment: u64,
    /// Bytes from the start of the segment.
    pub offset: u64,
}

/// Counts of a node that starts again, as the catalog has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Position in its log up to which all is counted; `None` if it never got a lease.
    pub counted_to: Option<LogPlace>,
    /// Events that it counted, ever, by project.
    pub counted: BTreeMap<ProjectId, i64>,
}

impl Catalog {
    /// Answers the counts of a node that starts. The node then reports what its log has beyond
    /// them, and that it holds nothing. If no other node runs, the rate limit of every project
    /// starts anew.
    ///
    /// # Errors
    ///
    /// Any database error; then the node must accept no imports.
    pub async fn start_historical_node(&self, node: &str) -> Result<NodeCounts, CatalogError> {
        let started = async {
            let running = ingest_nodes::Entity::find()
                .filter(ingest_nodes::Column::Name.ne(node))
                .filter(ingest_nodes::Column::State.ne(NodeState::Stopped))
                .filter(ingest_nodes::Column::PublishedAt.gt(self.now().0 - RUNS_MICROS))
                .one(&self.db)
                .await?;
            if running.is_none() {
                quota_rows::Entity::update_many()
                    .col_expr(
                        quota_rows::Column::BucketUnits,
                        Expr::value(Bucket::FULL.units),
                    )
                    .col_expr(
                        quota_rows::Column::BucketPerMinute,
                        Expr::value(Bucket::FULL.per_minute),
                    )
                    .exec(&self.writer)
                    .await?;
            }
            let known = nodes::Entity::find_by_id(node.to_owned())
                .one(&self.db)
                .await?;
            let mut counts = NodeCounts {
                counted_to: known.as_ref().map(place),
                ..NodeCounts::default()
            };
            let of_node = lease_rows::Entity::find().filter(lease_rows::Column::Node.eq(node));
            for lease in of_node.all(&self.db).await? {
                let counted = counts.counted.entry(ProjectId(lease.team_id)).or_default();
                *counted += lease.events_counted;
            }
            Ok(counts)
        };
        started.await.map_err(|error| self.error(&error))
    }

    /// Counts the events that a node took in, and leases it what it needs, project by project. All
    /// events below `counted_to` in its log of imports are in its counts. In the answer, `None` is
    /// a project that is gone.
    ///
    /// # Errors
    ///
    /// Any database error; then it is unknown whether the exchange happened, and the node reports
    /// again, without what it may have been leased.
    pub async fn exchange_quota_leases(
        &self,
        node: &str,
        counted_to: LogPlace,
        lease_reports: &BTreeMap<ProjectId, LeaseReport>,
    ) -> Result<BTreeMap<ProjectId, Option<LeaseDecision>>, ChangeError> {
        let transaction = self.begin().await?;
        let settled = async {
            let now = self.shared_now(&transaction).await?;
            let mut ledger =
                QuotaLedger::open(&transaction, now, lease_reports.keys().copied()).await?;
            let mut answers = BTreeMap::new();
            for (project_id, lease_report) in lease_reports {
                answers.insert(*project_id, ledger.settle(*project_id, node, *lease_report));
            }
            ledger.write(&transaction).await?;
            write_node(&transaction, node, counted_to, now).await?;
            Ok((answers, ledger.used_up()))
        };
        let settled = settled.await;
        let (answers, used_up) = self.finish(transaction, settled).await?;
        for id in used_up {
            self.finish_used_up(id).await?;
        }
        Ok(answers)
    }

    /// Finishes a migration whose last event came. Separate from the exchange, as the entry of the
    /// activity log needs the organization.
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
