//! Live streams of all nodes: of ingestion in this process, and of other processes by their
//! endpoints.
//!
//! | Module | Does |
//! |---|---|
//! | `merge` | one stream of those of all nodes, sampled once more, with their numbers together |
//! | `second` | the sample and the numbers of one second |
//! | `directory` | endpoints of other nodes |
//! | `node_stream` | stream of another node, which is asked again when it ends |
//! | `lines` | messages by lines of JSON |

mod directory;
mod lines;
mod merge;
mod node_stream;
mod second;

use crate::config::Config;
use async_trait::async_trait;
use directory::Directory;
use merge::Merge;
use millrace_admin::live_source::LiveSource;
use millrace_catalog::Catalog;
use millrace_live::{LiveFeed, LiveMessage, WatchRefused, WatchRequest};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Live streams of all nodes.
#[derive(Debug)]
pub struct LiveNodes {
    /// Stream of ingestion in this process.
    own: Option<LiveFeed>,
    directory: Arc<Directory>,
}

impl LiveNodes {
    /// Streams of the nodes in a catalog; `own` is that of this process.
    #[must_use]
    pub fn new(config: &Config, catalog: Catalog, own: Option<LiveFeed>) -> Self {
        let directory = Directory::new(config, catalog, own.is_some());
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
        let others = self.directory.others().await.unwrap_or_default();
        if own.is_none() && others.is_empty() {
            return Err(WatchRefused::Unavailable);
        }
        let (merge, messages) = Merge::new(Arc::clone(&self.directory), request);
        // Ends when nobody reads the messages any more.
        tokio::spawn(merge.run(own, others));
        Ok(messages)
    }
}
