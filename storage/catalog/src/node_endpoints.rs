//! Endpoints of nodes: where each serves its live stream, and the token that it asks for.
//!
//! A node says so again and again, as its row goes with the node when that is deregistered. Rows
//! that are old are of nodes that died, or have no endpoint any more.

use crate::catalog::Catalog;
use crate::entities::ingest_nodes::{self, NodeState};
use crate::entities::node_endpoints::{self as endpoints, Model};
use crate::error::CatalogError;
use crate::time::UtcTime;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ActiveValue, ColumnTrait, EntityTrait, QueryFilter, QueryOrder};
use std::collections::HashSet;

/// Age from which on a row counts for nothing: six times the interval in which nodes renew theirs,
/// as their clocks differ.
const AGE_MAX_MICROS: i64 = 120 * 1_000_000;

/// Endpoints of nodes.
#[derive(Clone, Copy, Debug)]
pub struct NodeEndpoints<'a>(&'a Catalog);

impl<'a> NodeEndpoints<'a> {
    /// Returns a handle to the endpoints in a catalog.
    #[must_use]
    pub const fn new(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }
}

impl NodeEndpoints<'_> {
    /// Writes the endpoint of a registered node, in place of the one before.
    ///
    /// # Errors
    ///
    /// Any database error; one is that there is no such node.
    pub async fn advertise(self, name: &str, url: &str, token: &str) -> Result<(), CatalogError> {
        let row = endpoints::ActiveModel {
            name: ActiveValue::Set(name.to_owned()),
            url: ActiveValue::Set(url.to_owned()),
            token: ActiveValue::Set(token.to_owned()),
            advertised_at: ActiveValue::Set(self.0.now()),
        };
        let mut again = OnConflict::column(endpoints::Column::Name);
        again.update_columns([
            endpoints::Column::Url,
            endpoints::Column::Token,
            endpoints::Column::AdvertisedAt,
        ]);
        let written = endpoints::Entity::insert(row)
            .on_conflict(again)
            .exec_without_returning(&self.0.writer)
            .await;
        written.map(drop).map_err(|error| self.0.error(&error))
    }

    /// Lists the endpoints of nodes that have not stopped, by name, without rows that are old.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list(self) -> Result<Vec<Model>, CatalogError> {
        let UtcTime(now) = self.0.now();
        let since = UtcTime(now.saturating_sub(AGE_MAX_MICROS));
        let found = endpoints::Entity::find()
            .filter(endpoints::Column::AdvertisedAt.gte(since))
            .order_by_asc(endpoints::Column::Name)
            .all(&self.0.db)
            .await;
        let mut found = found.map_err(|error| self.0.error(&error))?;
        let stopped = ingest_nodes::Entity::find()
            .filter(ingest_nodes::Column::State.eq(NodeState::Stopped))
            .all(&self.0.db)
            .await;
        let stopped = stopped.map_err(|error| self.0.error(&error))?;
        let stopped: HashSet<String> = stopped.into_iter().map(|node| node.name).collect();
        found.retain(|endpoint| !stopped.contains(&endpoint.name));
        Ok(found)
    }
}
