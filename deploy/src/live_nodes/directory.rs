//! Directory of the endpoints of other nodes, and the way to reach them.

use crate::config::Config;
use crate::data_dir;
use millrace_catalog::{Catalog, NodeEndpoint, NodeEndpoints};
use millrace_import::send;
use millrace_rows::RareLog;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Instant;

/// Directory of the endpoints of other nodes, and the way to reach them.
#[derive(Debug)]
pub(super) struct Directory {
    catalog: Catalog,
    data_dir: PathBuf,
    /// True if the node of the data folder is this process.
    is_own_here: bool,
    client: OnceLock<Option<reqwest::Client>>,
    failures: RareLog,
}

impl Directory {
    /// Directory of the nodes in a catalog. `is_own_here` is true if the node of the data folder is
    /// this process.
    pub(super) fn new(config: &Config, catalog: Catalog, is_own_here: bool) -> Self {
        Self {
            catalog,
            data_dir: config.data_dir.clone(),
            is_own_here,
            client: OnceLock::new(),
            failures: RareLog::default(),
        }
    }

    /// Endpoints of other nodes; `None` if the catalog does not answer.
    pub(super) async fn others(&self) -> Option<Vec<NodeEndpoint>> {
        let listed = NodeEndpoints::new(&self.catalog).list().await;
        let mut others = match listed {
            Ok(others) => others,
            Err(error) => {
                self.log(&error.to_string());
                return None;
            }
        };
        if self.is_own_here {
            match data_dir::node_name(&self.data_dir) {
                Ok(own) => others.retain(|node| node.name != own),
                Err(error) => self.log(&format!("{error:#}")),
            }
        }
        Some(others)
    }

    /// HTTP client for other nodes; `None` if there can be none.
    pub(super) fn client(&self) -> Option<&reqwest::Client> {
        let client = self.client.get_or_init(|| match send::client() {
            Ok(client) => Some(client),
            Err(error) => {
                self.log(&format!("{error:#}"));
                None
            }
        });
        client.as_ref()
    }

    fn log(&self, cause: &str) {
        if self.failures.is_due(cause, Instant::now()) {
            tracing::warn!(cause, "other nodes cannot be watched");
        }
    }
}
