//! Registration of a node with the catalog: before it takes a request; it publishes its watermarks
//! every second, and deregisters once its log is empty.
//!
//! Only the start waits for the catalog. While the catalog is unreachable, the published watermark
//! stays where it was, so exports wait, and nothing else does.

use super::advance::advance;
use super::node_watermarks::NodeWatermarks;
use super::request_epochs::RequestEpochs;
use crate::metrics;
use millrace_catalog::{
    Catalog, IngestNode, NodeStarts, Nodes, Published, RegisterError, UtcTime, Watermarks,
};
use millrace_pipeline::Pipeline;
use millrace_pipeline::panic_point::{PanicPoint, pass};
use millrace_rows::{Clock, Micros, shown};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// Interval in which the watermark advances, and is published.
const EVERY: Duration = Duration::from_secs(1);
/// Pause between two publications.
const PUBLISH_PAUSE: Duration = Duration::from_millis(500);
/// Interval in which a node is heard of whose watermark stands still.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(10);
/// Time that the catalog may take for one statement.
const CATALOG_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause before the catalog is told once more that a node has ended.
const DEREGISTER_PAUSE: Duration = Duration::from_millis(200);

/// Registered node that does not run yet: exports wait for it.
#[derive(Debug)]
pub struct Node {
    record: NodeRecord,
    request_epochs: RequestEpochs,
    min_created_at: Option<Micros>,
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

/// Record of the node in the catalog.
#[derive(Clone, Debug)]
struct NodeRecord {
    catalog: Catalog,
    name: String,
    host: String,
    starts: NodeStarts,
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
        let record = NodeRecord {
            catalog,
            name,
            host,
            starts,
        };
        let min_created_at = record.register().await?;
        Ok(Self {
            request_epochs: RequestEpochs::new(min_created_at),
            record,
            min_created_at,
        })
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
        let publisher = Publisher {
            record: record.clone(),
            request_epochs: request_epochs.clone(),
            clock: Arc::clone(&clock),
            watermarks: watermarks.clone(),
            is_failing: false,
        };
        tasks.spawn(publisher.run());
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
    /// busy disk others write to it first.
    pub async fn stop(mut self, time: Duration) {
        // A watermark published after the deregistration would undo it.
        self.tasks.shutdown().await;
        let NodeRecord {
            catalog,
            name,
            starts,
            ..
        } = &self.record;
        if !self.pipeline.is_all_shipped() {
            tracing::warn!(
                node = name,
                "exports wait for this node until it has started again and shipped the rest"
            );
            return;
        }
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
        if timeout(time, telling).await.is_err() {
            tracing::warn!(
                node = name,
                "exports wait for this node until it starts again: its watermark could not be written to the catalog: {reason}"
            );
        }
    }
}

// === impl Record ===

impl NodeRecord {
    async fn register(&self) -> Result<Option<Micros>, RegisterError> {
        let Self {
            catalog,
            name,
            host,
            starts,
        } = self;
        let registered = Nodes::new(catalog).register(name, host, starts);
        Ok(registered
            .await?
            .map(|UtcTime(min_created_at)| Micros(min_created_at)))
    }
}

/// Task that publishes the watermark.
struct Publisher {
    record: NodeRecord,
    request_epochs: RequestEpochs,
    clock: Arc<dyn Clock>,
    watermarks: watch::Receiver<NodeWatermarks>,
    /// True if the last try failed, which is logged once.
    is_failing: bool,
}

impl Publisher {
    /// Publishes until another start has taken the name; returns which.
    async fn run(mut self) -> String {
        let started = self.clock.now();
        let mut published = (None, Instant::now());
        loop {
            let watermarks = self.next_watermarks(published.0).await;
            let all = self.watermarks.borrow().all();
            metrics::watermark_age(self.clock.now(), all.unwrap_or(started));
            let (before, at) = published;
            if watermarks == before && at.elapsed() < HEARTBEAT_EVERY {
                continue;
            }
            match self.publish(watermarks).await {
                Ok(true) => published = (watermarks, Instant::now()),
                Ok(false) => {}
                Err(other) => return taken_by(&self.record.name, &other),
            }
            tokio::time::sleep(PUBLISH_PAUSE).await;
        }
    }

    /// Waits until person updates are further than was published, so that persons wait for no tick,
    /// and a second at most; returns what there is to publish.
    async fn next_watermarks(&mut self, published: Option<Watermarks>) -> Option<Watermarks> {
        let published = published.map(|watermarks| watermarks.updates);
        let advanced = self.watermarks.wait_for(|watermarks| {
            let known = watermarks.known();
            known.map(|watermarks| watermarks.updates) > published
        });
        let has_ended = timeout(EVERY, advanced).await.is_ok_and(|it| it.is_err());
        if has_ended {
            // Nobody advances them any more. The process ends for that.
            tokio::time::sleep(EVERY).await;
        }
        self.watermarks.borrow().known()
    }

    /// Publishes the watermarks; returns false if it has to be published again, an error if another
    /// start has taken the name.
    async fn publish(&mut self, watermarks: Option<Watermarks>) -> Result<bool, Box<IngestNode>> {
        let is_published = match timeout(CATALOG_TIMEOUT, self.try_to_publish(watermarks)).await {
            Ok(Ok(is_published)) => is_published,
            Ok(Err(RegisterError::Taken(other))) => return Err(other),
            Ok(Err(RegisterError::Catalog(error))) => return Ok(self.failed(&error.to_string())),
            Err(_) => return Ok(self.failed("it does not answer")),
        };
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("the catalog knows this node's watermark again");
        }
        pass(PanicPoint::WatermarkPublished);
        Ok(is_published)
    }

    async fn try_to_publish(&self, watermarks: Option<Watermarks>) -> Result<bool, RegisterError> {
        let NodeRecord {
            catalog,
            name,
            starts,
            ..
        } = &self.record;
        let publishing = Nodes::new(catalog).publish(name, starts, watermarks);
        match publishing.await? {
            Published::Done => return Ok(true),
            Published::Taken(other) => return Err(RegisterError::Taken(other)),
            Published::Unnoted => {}
            // The node was deregistered while it lives: windows may have run that it wrote into.
            Published::Unknown => tracing::error!(
                node = name,
                "the catalog has forgotten this node, or stopped it, though it runs; it registers \
                 again. Events that it accepted meanwhile may be missing from exports: run a \
                 backfill for that time"
            ),
        }
        self.register_again().await?;
        Ok(false)
    }

    async fn register_again(&self) -> Result<(), RegisterError> {
        if let Some(min_created_at) = self.record.register().await? {
            self.request_epochs.raise_min_created_at(min_created_at);
        }
        Ok(())
    }

    fn failed(&mut self, reason: &str) -> bool {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(
                "exports wait: this node's watermark cannot be written to the catalog: {reason}"
            );
        }
        false
    }
}

/// Reason that a node ends with once another start has its name: two processes would publish
/// different watermarks of one node.
fn taken_by(name: &str, other: &IngestNode) -> String {
    let (host, at) = (shown(&other.host), other.started_at);
    format!(
        "another copy of this data folder was started on {host} at {at}, and has the name of this node ({name}): only one \
         may run. Stop that one, or delete the file `node` of one of the two folders while it is stopped, which makes \
         it a node of its own"
    )
}
