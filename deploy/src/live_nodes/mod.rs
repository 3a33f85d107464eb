//! Live streams of all nodes: of ingestion in this process, and of other processes by their
//! endpoints.
//!
//! | Module | Does |
//! |---|---|
//! | `merge` | one stream of those of all nodes, sampled once more, with their numbers together |
//! | `node_stream` | stream of another node, which is asked again when it ends |
//! | `lines` | messages by lines of JSON |

mod lines;
mod merge;
mod node_stream;

use crate::config::Config;
use crate::data_dir;
use async_trait::async_trait;
use merge::Merge;
use millrace_admin::live_source::LiveSource;
use millrace_catalog::{Catalog, NodeEndpoint, NodeEndpoints};
use millrace_import::send;
use millrace_live::{LiveFeed, LiveMessage, WatchRefused, WatchRequest};
use millrace_rows::RareLog;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio::sync::mpsc;

/// Live streams of all nodes.
#[derive(Debug)]
pub struct LiveNodes {
    /// Stream of ingestion in this process.
    own: Option<LiveFeed>,
    directory: Arc<Directory>,
}

/// Directory of the endpoints of other nodes, and the way to reach them.
#[derive(Debug)]
struct Directory {
    catalog: Catalog,
    data_dir: PathBuf,
    /// True if the node of the data folder is this process.
    is_own_here: bool,
    client: OnceLock<Option<reqwest::Client>>,
    failures: RareLog,
}

impl LiveNodes {
    /// Streams of the nodes in a catalog; `own` is that of this process.
    #[must_use]
    pub fn new(config: &Config, catalog: Catalog, own: Option<LiveFeed>) -> Self {
        let directory = Directory {
            catalog,
            data_dir: config.data_dir.clone(),
            is_own_here: own.is_some(),
            client: OnceLock::new(),
            failures: RareLog::default(),
        };
        Self {
            own,
            directory: Arc::new(directory),
        }
    }
}

#[async_trait]
impl LiveSource for LiveNodes {
    async fn watch(
        &self,
        request: WatchRequest,
    ) -> Result<mpsc::Receiver<LiveMessage>, WatchRefused> {
        let own = match &self.own {
            Some(feed) => Some(feed.watch(request.clone()).await?),
            None => None,
        };
        let others = self.directory.others().await;
        if own.is_none() && others.is_empty() {
            return Err(WatchRefused::Unavailable);
        }
        let (merge, messages) = Merge::new(Arc::clone(&self.directory), request);
        // Ends when nobody reads the messages any more.
        tokio::spawn(merge.run(own, others));
        Ok(messages)
    }
}

impl Directory {
    /// Endpoints of other nodes; none if the catalog does not answer.
    async fn others(&self) -> Vec<NodeEndpoint> {
        let listed = NodeEndpoints::new(&self.catalog).list().await;
        let mut others = listed.unwrap_or_else(|error| {
            self.log(&error.to_string());
            Vec::new()
        });
        if self.is_own_here {
            match data_dir::node_name(&self.data_dir) {
                Ok(own) => others.retain(|node| node.name != own),
                Err(error) => self.log(&format!("{error:#}")),
            }
        }
        others
    }

    /// HTTP client for other nodes; `None` if there can be none.
    fn client(&self) -> Option<&reqwest::Client> {
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
