//! Live endpoint of this node, advertised in the catalog for the API of other processes.

use crate::config::Config;
use crate::data_dir;
use anyhow::Context;
use millrace_catalog::random::random_text;
use millrace_catalog::{Catalog, NodeEndpoints};
use millrace_ingest::live_endpoint::LiveEndpoint;
use millrace_live::LiveFeed;
use millrace_rows::RareLog;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Interval in which the catalog is told: a row of it goes when the node is deregistered.
const ADVERTISE_EVERY: Duration = Duration::from_secs(20);

/// Running endpoint that the catalog knows of; it ends when this is dropped.
#[derive(Debug)]
pub struct AdvertisedEndpoint {
    _endpoint: LiveEndpoint,
    /// Task that tells the catalog.
    _advertising: JoinSet<()>,
}

impl AdvertisedEndpoint {
    /// Starts the endpoint of a registered node, if the settings have one. Events are accepted
    /// without it as well, so a failure is logged.
    pub async fn start(config: &Config, catalog: Catalog, feed: LiveFeed) -> Option<Self> {
        let addr = config.node_addr?;
        match Self::open(config, addr, catalog, feed).await {
            Ok(endpoint) => Some(endpoint),
            Err(error) => {
                tracing::error!(
                    error = format!("{error:#}"),
                    "other processes cannot watch the events of this node"
                );
                None
            }
        }
    }

    async fn open(
        config: &Config,
        addr: SocketAddr,
        catalog: Catalog,
        feed: LiveFeed,
    ) -> anyhow::Result<Self> {
        let name = data_dir::node_name(&config.data_dir)?;
        let token = random_text().context("the system gives no random bytes")?;
        let endpoint = LiveEndpoint::start(addr, token.clone(), feed).await;
        let endpoint = endpoint.with_context(|| format!("cannot listen on {addr}"))?;
        let url = config.node_url.clone();
        let url = url.unwrap_or_else(|| format!("http://{}", endpoint.addr()));
        let mut advertising = JoinSet::new();
        advertising.spawn(advertise(catalog, name, url, token));
        Ok(Self {
            _endpoint: endpoint,
            _advertising: advertising,
        })
    }
}

/// Tells the catalog of an endpoint, again and again.
async fn advertise(catalog: Catalog, name: String, url: String, token: String) {
    let failures = RareLog::default();
    let mut every = tokio::time::interval(ADVERTISE_EVERY);
    loop {
        every.tick().await;
        let told = NodeEndpoints::new(&catalog).advertise(&name, &url, &token);
        if let Err(error) = told.await
            && failures.is_due(&error.to_string(), Instant::now())
        {
            tracing::warn!(%error, "the catalog does not know where this node can be watched");
        }
    }
}
