//! Registration of a node with the catalog, before it takes a request, and its end once its log is
//! empty.
//!
//! A node may start while the catalog is away, and registers later ([`Node::unregistered`]). While
//! the catalog is unreachable, the published watermark stays where it was, so exports wait, and
//! nothing else does.

use super::advance::advance;
use super::node_record::{NodeRecord, Registered, Registering};
use super::node_watermarks::NodeWatermarks;
use super::publisher::Publisher;
use super::request_epochs::RequestEpochs;
use millrace_catalog::{Catalog, NodeStarts, Nodes, RegisterError};
use millrace_pipeline::Pipeline;
use millrace_rows::{Clock, Micros};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Interval in which the watermark advances.
const EVERY: Duration = Duration::from_secs(1);
/// Longest time in which an attempt to register is taken back.
const TAKE_BACK_TIME_MAX: Duration = Duration::from_secs(1);
/// Pause before the catalog is told once more that a node has ended.
const DEREGISTER_PAUSE: Duration = Duration::from_millis(200);

/// Node that does not run yet: exports wait for it, once it is registered.
pub struct Node {
    record: NodeRecord,
    request_epochs: RequestEpochs,
    min_created_at: Option<Micros>,
    /// Registration that is still to be made.
    registering: Option<Registering>,
}

/// Running node, whose watermark advances.
pub struct RunningNode {
    record: NodeRecord,
    request_epochs: RequestEpochs,
    pipeline: Pipeline,
    clock: Arc<dyn Clock>,
    watermarks: watch::Receiver<NodeWatermarks>,
    /// Tasks of the node. None ends by itself; one that does returns the reason.
    tasks: JoinSet<String>,
}

// === impl Node ===

impl Node {
    /// Registers a node. To be called before it takes a request: a window could be exported
    /// otherwise that it still writes into.
    ///
    /// # Errors
    /// When the catalog does not have it, or another start has the name; then it must take none.
    pub async fn register(
        catalog: Catalog,
        name: String,
        host: String,
        starts: NodeStarts,
    ) -> Result<Self, RegisterError> {
        let registered = Nodes::new(&catalog).register(&name, &host, &starts);
        let min_created_at = registered.await?;
        let registered = Registered {
            starts,
            min_created_at,
        };
        Ok(Self::registered(catalog, name, host, registered))
    }

    /// Node of a registration that was made.
    #[must_use]
    pub fn registered(
        catalog: Catalog,
        name: String,
        host: String,
        registered: Registered,
    ) -> Self {
        let min_created_at = registered.min_created_at.map(|at| Micros(at.0));
        let node = Self::new(catalog, name, host, min_created_at);
        // Nobody else has it yet.
        let _ = node.record.starts.set(registered.starts);
        node
    }

    /// Node that takes requests before it is registered, as the catalog is away: exports that go
    /// on without it may pass what it accepts. It makes no row before `min_created_at`, which must
    /// not be before any watermark that it published.
    #[must_use]
    pub fn unregistered(
        catalog: Catalog,
        name: String,
        host: String,
        min_created_at: Micros,
        registering: Registering,
    ) -> Self {
        Self {
            registering: Some(registering),
            ..Self::new(catalog, name, host, Some(min_created_at))
        }
    }

    fn new(catalog: Catalog, name: String, host: String, min_created_at: Option<Micros>) -> Self {
        let record = NodeRecord {
            catalog,
            name,
            host,
            address: String::new(),
            starts: Arc::default(),
        };
        Self {
            request_epochs: RequestEpochs::new(min_created_at),
            record,
            min_created_at,
            registering: None,
        }
    }

    /// Sets the address at which the node accepts events, for its reports.
    #[must_use]
    pub fn at(mut self, address: String) -> Self {
        self.record.address = address;
        self
    }

    /// Epochs that the server's requests are counted in.
    #[must_use]
    pub fn request_epochs(&self) -> RequestEpochs {
        self.request_epochs.clone()
    }

    /// Advances the watermark and publishes it, on the runtime of the caller.
    #[must_use]
    pub fn run(self, pipeline: Pipeline, clock: Arc<dyn Clock>) -> RunningNode {
        let Self {
            record,
            request_epochs,
            min_created_at,
            registering,
        } = self;
        let (sender, watermarks) = watch::channel(NodeWatermarks::default());
        let mut tasks = JoinSet::new();
        let advancing = advance(
            request_epochs.clone(),
            pipeline.clone(),
            Arc::clone(&clock),
            min_created_at,
            EVERY,
            sender,
        );
        tasks.spawn(async move {
            advancing.await;
            "the watermark stands still".to_owned()
        });
        let publisher = Publisher::new(
            record.clone(),
            request_epochs.clone(),
            pipeline.clone(),
            Arc::clone(&clock),
            watermarks.clone(),
        );
        tasks.spawn(publisher.run(registering));
        RunningNode {
            record,
            request_epochs,
            pipeline,
            clock,
            watermarks,
            tasks,
        }
    }
}

// === impl RunningNode ===

impl RunningNode {
    /// Watermarks of the node.
    #[must_use]
    pub fn watermarks(&self) -> watch::Receiver<NodeWatermarks> {
        self.watermarks.clone()
    }

    /// Waits until the node fails, and returns the reason: a task of it panicked, so that exports
    /// would wait for it for ever, or another start has taken its name.
    pub async fn failed(&mut self) -> String {
        match self.tasks.join_next().await {
            Some(Ok(reason)) => reason,
            Some(Err(error)) => format!("the watermark stands still: {error}"),
            None => "the watermark stands still".to_owned(),
        }
    }

    /// Deregisters the node, once no request is under way and shipping has ended: if nothing is
    /// left in the log, exports need not wait for it. The catalog may take `time` to hear it: on a
    /// busy disk others write to it first. Returns true if the log is empty and the catalog knows.
    pub async fn stop(mut self, time: Duration) -> bool {
        // A watermark published after the deregistration would undo it.
        self.tasks.shutdown().await;
        let NodeRecord { catalog, name, .. } = &self.record;
        if !self.pipeline.is_all_shipped() {
            tracing::warn!(
                node = name,
                "exports wait for this node until it has started again and shipped the rest"
            );
            return false;
        }
        let Some(starts) = self.record.starts.get() else {
            // An attempt to register that was cut off may have been recorded all the same.
            let taking_back = Nodes::new(catalog).take_back(name);
            let _ = timeout(time.min(TAKE_BACK_TIME_MAX), taking_back).await;
            tracing::warn!(
                node = name,
                "the catalog was away until the end of this node, whose log is empty"
            );
            return false;
        };
        let min_created_at = self.request_epochs.min_created_at();
        let min_created_at = min_created_at.unwrap_or_else(|| self.clock.now());
        let mut reason = "it does not answer".to_owned();
        let telling = async {
            while let Err(error) = Nodes::new(catalog)
                .stop(name, starts, min_created_at.into())
                .await
            {
                reason = error.to_string();
                tokio::time::sleep(DEREGISTER_PAUSE).await;
            }
        };
        let is_told = timeout(time, telling).await.is_ok();
        if !is_told {
            tracing::warn!(
                node = name,
                "exports wait for this node until it starts again: its watermark could not be written to the catalog: {reason}"
            );
        }
        is_told
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("record", &self.record)
            .finish_non_exhaustive()
    }
}
