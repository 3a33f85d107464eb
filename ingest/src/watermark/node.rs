//! A node and the catalog: registered before it takes a request, heard of every second, and taken
//! leave of when nothing is left in its log.
//!
//! Nothing waits for the catalog but the start. A catalog that is away leaves the published watermark
//! where it was, so exports wait, and nobody else does.

use super::{Arrivals, advance};
use crate::metrics;
use millrace_catalog::{Catalog, IngestNode, NodeStarts, Published, RegisterError, UtcTime};
use millrace_pipeline::Pipeline;
use millrace_rows::{Clock, Micros, shown};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, timeout};

/// How often the watermark advances, and is published.
const EVERY: Duration = Duration::from_secs(1);
/// How often a node is heard of whose watermark stands still.
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(10);
/// How long the catalog may take for one statement.
const CATALOG_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait before the catalog is told once more that a node has ended.
const DEREGISTER_PAUSE: Duration = Duration::from_millis(200);

/// A node that counts, and does not run yet: exports wait for it.
#[derive(Debug)]
pub struct Node {
    record: Record,
    arrivals: Arrivals,
    floor: Option<Micros>,
}

/// A node whose watermark advances.
pub struct RunningNode {
    record: Record,
    arrivals: Arrivals,
    pipeline: Pipeline,
    clock: Arc<dyn Clock>,
    watermark: watch::Receiver<Option<Micros>>,
    /// None ends by itself; one that does says why.
    tasks: JoinSet<String>,
}

/// Its place in the catalog.
#[derive(Clone, Debug)]
struct Record {
    catalog: Catalog,
    name: String,
    host: String,
    starts: NodeStarts,
}

// === impl Node ===

impl Node {
    /// Makes a node count. To be called before it takes a request: a window could be exported
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
        let record = Record {
            catalog,
            name,
            host,
            starts,
        };
        let floor = record.register().await?;
        Ok(Self {
            arrivals: Arrivals::new(floor),
            record,
            floor,
        })
    }

    /// What the server's requests are counted in.
    #[must_use]
    pub fn arrivals(&self) -> Arrivals {
        self.arrivals.clone()
    }

    /// Advances the watermark and publishes it, on the runtime of the caller.
    #[must_use]
    pub fn run(self, pipeline: Pipeline, clock: Arc<dyn Clock>) -> RunningNode {
        let Self {
            record,
            arrivals,
            floor,
        } = self;
        let (sender, watermark) = watch::channel(None);
        let mut tasks = JoinSet::new();
        let advancing = advance(
            arrivals.clone(),
            pipeline.clone(),
            Arc::clone(&clock),
            floor,
            EVERY,
            sender,
        );
        tasks.spawn(async move {
            advancing.await;
            "the watermark stands still".to_owned()
        });
        let publisher = Publisher {
            record: record.clone(),
            arrivals: arrivals.clone(),
            clock: Arc::clone(&clock),
            watermark: watermark.clone(),
            is_failing: false,
        };
        tasks.spawn(publisher.run());
        RunningNode {
            record,
            arrivals,
            pipeline,
            clock,
            watermark,
            tasks,
        }
    }
}

// === impl RunningNode ===

impl RunningNode {
    /// How far it is; `None` until that is known.
    #[must_use]
    pub fn watermark(&self) -> watch::Receiver<Option<Micros>> {
        self.watermark.clone()
    }

    /// Waits until the node can go on no more, and says why: a task of it panicked, so that exports would wait for
    /// it for ever, or another start has taken its name.
    pub async fn failed(&mut self) -> String {
        match self.tasks.join_next().await {
            Some(Ok(reason)) => reason,
            Some(Err(error)) => format!("the watermark stands still: {error}"),
            None => "the watermark stands still".to_owned(),
        }
    }

    /// Takes leave, once no request is under way and shipping has ended: if nothing is left in the
    /// log, nobody needs to wait for this node. The catalog may take `time` to hear it: on a busy disk
    /// others write to it first.
    pub async fn stop(mut self, time: Duration) {
        // Whatever was published after the leave would take it back.
        self.tasks.shutdown().await;
        let Record {
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
        let floor = self.arrivals.floor();
        let floor = floor.unwrap_or_else(|| self.clock.now());
        let mut reason = "it does not answer".to_owned();
        let telling = async {
            while let Err(error) = catalog.stop_ingest_node(name, starts, floor.into()).await {
                reason = error.to_string();
                tokio::time::sleep(DEREGISTER_PAUSE).await;
            }
        };
        if timeout(time, telling).await.is_err() {
            tracing::warn!(
                node = name,
                "exports wait for this node until it starts again, as the catalog was not told: {reason}"
            );
        }
    }
}

// === impl Record ===

impl Record {
    async fn register(&self) -> Result<Option<Micros>, RegisterError> {
        let Self {
            catalog,
            name,
            host,
            starts,
        } = self;
        let registered = catalog.register_ingest_node(name, host, starts);
        Ok(registered.await?.map(|UtcTime(floor)| Micros(floor)))
    }
}

/// Tells the catalog.
struct Publisher {
    record: Record,
    arrivals: Arrivals,
    clock: Arc<dyn Clock>,
    watermark: watch::Receiver<Option<Micros>>,
    /// Whether the last try failed: said once.
    is_failing: bool,
}

impl Publisher {
    /// Publishes until another start has taken the name; says which.
    async fn run(mut self) -> String {
        let started = self.clock.now();
        let mut every = tokio::time::interval(EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut published = (None, Instant::now());
        loop {
            every.tick().await;
            let watermark = *self.watermark.borrow();
            metrics::watermark_age(self.clock.now(), watermark.unwrap_or(started));
            let (before, at) = published;
            if watermark == before && at.elapsed() < SIGN_OF_LIFE_EVERY {
                continue;
            }
            match self.publish(watermark).await {
                Ok(true) => published = (watermark, Instant::now()),
                Ok(false) => {}
                Err(other) => return taken_by(&self.record.name, &other),
            }
        }
    }

    /// Says how far the node is; false if it has to be said again, an error if another start has taken the name.
    async fn publish(&mut self, watermark: Option<Micros>) -> Result<bool, Box<IngestNode>> {
        let said = match timeout(CATALOG_TIMEOUT, self.try_to_publish(watermark)).await {
            Ok(Ok(is_said)) => is_said,
            Ok(Err(RegisterError::Taken(other))) => return Err(other),
            Ok(Err(RegisterError::Catalog(error))) => return Ok(self.failed(&error.to_string())),
            Err(_) => return Ok(self.failed("it does not answer")),
        };
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("the catalog knows this node's watermark again");
        }
        Ok(said)
    }

    async fn try_to_publish(&self, watermark: Option<Micros>) -> Result<bool, RegisterError> {
        let Record {
            catalog,
            name,
            starts,
            ..
        } = &self.record;
        let publishing = catalog.publish_watermark(name, starts, watermark.map(UtcTime::from));
        match publishing.await? {
            Published::Done => return Ok(true),
            Published::Taken(other) => return Err(RegisterError::Taken(other)),
            Published::Unnoted => {}
            // Somebody had it forgotten while it lives: windows may have run that it wrote into.
            Published::Unknown => tracing::error!(
                node = name,
                "the catalog has forgotten this node, or stopped it, though it runs; it registers again. \
                 Events that it took meanwhile may be missing from exports: run a backfill for that time"
            ),
        }
        self.register_again().await?;
        Ok(false)
    }

    async fn register_again(&self) -> Result<(), RegisterError> {
        if let Some(floor) = self.record.register().await? {
            self.arrivals.raise_floor(floor);
        }
        Ok(())
    }

    fn failed(&mut self, reason: &str) -> bool {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(
                "exports wait, as the catalog cannot be told how far this node is: {reason}"
            );
        }
        false
    }
}

/// Two processes would say different things of one node: what started last has its name.
fn taken_by(name: &str, other: &IngestNode) -> String {
    let (host, at) = (shown(&other.host), other.started_at);
    format!(
        "another copy of this data folder was started on {host} at {at}, and has the name of this node ({name}): only one \
         may run. Stop that one, or delete the file `node` of one of the two folders while it is stopped, which makes \
         it a node of its own"
    )
}
