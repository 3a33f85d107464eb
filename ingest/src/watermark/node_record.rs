//! Record of a node in the catalog, and its registration there.

use millrace_catalog::{Catalog, NodeStarts, Nodes, RegisterError, UtcTime};
use millrace_rows::Micros;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

/// Registration that is made while the node runs; an error is why the node must end.
pub type Registering = Pin<Box<dyn Future<Output = Result<Registered, String>> + Send>>;

/// Registration of a node.
#[derive(Clone, Debug)]
pub struct Registered {
    /// Starts that the node's folder knows, with the one that is registered.
    pub starts: NodeStarts,
    /// Time before which the node must make no row; `None` when no node has ever published a
    /// watermark.
    pub min_created_at: Option<UtcTime>,
}

/// Record of the node in the catalog.
#[derive(Clone, Debug)]
pub(super) struct NodeRecord {
    pub(super) catalog: Catalog,
    pub(super) name: String,
    pub(super) host: String,
    /// Address for reports, at which the node accepts events.
    pub(super) address: String,
    /// Starts of the node, once it is registered. Clones share it.
    pub(super) starts: Arc<OnceLock<NodeStarts>>,
}

impl NodeRecord {
    pub(super) async fn register(
        &self,
        starts: &NodeStarts,
    ) -> Result<Option<Micros>, RegisterError> {
        let Self {
            catalog,
            name,
            host,
            ..
        } = self;
        let registered = Nodes::new(catalog).register(name, host, starts);
        Ok(registered
            .await?
            .map(|UtcTime(min_created_at)| Micros(min_created_at)))
    }
}
