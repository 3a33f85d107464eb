//! Endpoints of nodes, where each serves its live stream.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};
use std::fmt;

/// Endpoint of a node that has one.
#[derive(Clone, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "node_endpoints")]
pub struct Model {
    /// Name of the node.
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    /// URL by which other processes reach it, without a slash at its end.
    pub url: String,
    /// Token that it asks for; a new one at each start.
    pub token: String,
    /// Time at which the node last said so, by its own clock.
    pub advertised_at: UtcTime,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeEndpoint")
            .field("name", &self.name)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// Reached by names, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
