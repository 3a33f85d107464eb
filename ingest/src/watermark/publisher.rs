//! Task that publishes a node's watermarks, reports on the node, and registers it again where the
//! catalog does not know it any more.

use super::node_record::{NodeRecord, Registered, Registering};
use super::node_watermarks::NodeWatermarks;
use super::outage_hold::OutageHold;
use super::request_epochs::RequestEpochs;
use crate::metrics;
use millrace_catalog::{
    IngestNode, NodeReport, NodeReports, Nodes, Published, RegisterError, Watermarks,
};
use millrace_pipeline::Pipeline;
use millrace_pipeline::panic_point::{PanicPoint, pass};
use millrace_rows::{Clock, Micros, shown};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// Longest wait for a watermark that advances.
const EVERY: Duration = Duration::from_secs(1);
/// Pause between two publications.
const PUBLISH_PAUSE: Duration = Duration::from_millis(500);
/// Interval in which a node is heard of whose watermark stands still.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(5);
/// Interval of reports on the node: a third of the time after which it counts as silent.
const REPORT_EVERY: Duration = Duration::from_secs(5);
/// Time that the catalog may take for one statement.
const CATALOG_TIMEOUT: Duration = Duration::from_secs(5);

/// Task that publishes the watermark.
pub(super) struct Publisher {
    record: NodeRecord,
    request_epochs: RequestEpochs,
    pipeline: Pipeline,
    clock: Arc<dyn Clock>,
    watermarks: watch::Receiver<NodeWatermarks>,
    /// True if the last try failed, which is logged once.
    is_failing: bool,
    hold: OutageHold,
    /// Time of the last report.
    reported_at: Option<Instant>,
}

impl Publisher {
    pub(super) fn new(
        record: NodeRecord,
        request_epochs: RequestEpochs,
        pipeline: Pipeline,
        clock: Arc<dyn Clock>,
        watermarks: watch::Receiver<NodeWatermarks>,
    ) -> Self {
        Self {
            record,
            request_epochs,
            pipeline,
            clock,
            watermarks,
            is_failing: false,
            hold: OutageHold::default(),
            reported_at: None,
        }
    }

    /// Registers the node, if that is still to be done, and publishes until another start has taken
    /// the name; returns which, or why the node may not be registered.
    pub(super) async fn run(mut self, registering: Option<Registering>) -> String {
        if let Some(registering) = registering {
            match registering.await {
                Ok(registered) => self.registered(registered),
                Err(reason) => return reason,
            }
        }
        let started = self.clock.now();
        let mut published = (None, Instant::now());
        let mut seen = None;
        loop {
            let last = if self.hold.holds() { seen } else { published.0 };
            seen = self.next_watermarks(last).await;
            let all = self.watermarks.borrow().all();
            metrics::watermark_age(self.clock.now(), all.unwrap_or(started));
            let watermarks = seen.filter(|_| !self.hold.holds());
            let (before, at) = published;
            if watermarks == before && at.elapsed() < HEARTBEAT_EVERY {
                continue;
            }
            match self.publish(watermarks).await {
                Ok(true) => {
                    published = (watermarks, Instant::now());
                    self.report().await;
                }
                Ok(false) => {}
                Err(other) => return taken_by(&self.record.name, &other),
            }
            tokio::time::sleep(PUBLISH_PAUSE).await;
        }
    }

    /// Goes on as a registered node that started without the catalog.
    fn registered(&mut self, registered: Registered) {
        if let Some(min_created_at) = registered.min_created_at {
            self.request_epochs
                .raise_min_created_at(Micros(min_created_at.0));
        }
        // Set here only.
        let _ = self.record.starts.set(registered.starts);
        // Others may have started without it as well.
        self.hold.begin();
    }

    /// Waits until person updates are further than they were, so that persons wait for no tick, and
    /// a second at most; returns what there is to publish.
    async fn next_watermarks(&mut self, last: Option<Watermarks>) -> Option<Watermarks> {
        let last = last.map(|watermarks| watermarks.updates);
        let advanced = self.watermarks.wait_for(|watermarks| {
            let known = watermarks.known();
            known.map(|watermarks| watermarks.updates) > last
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
        let begun = Instant::now();
        let is_published = match timeout(CATALOG_TIMEOUT, self.try_to_publish(watermarks)).await {
            Ok(Ok(is_published)) => is_published,
            Ok(Err(RegisterError::Taken(other))) => return Err(other),
            Ok(Err(RegisterError::Catalog(error))) => {
                return Ok(self.failed(begun, &error.to_string()));
            }
            Err(_) => return Ok(self.failed(begun, "it does not answer")),
        };
        self.hold.answered();
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
        let Some(starts) = starts.get() else {
            return Ok(false);
        };
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
        if let Some(min_created_at) = self.record.register(starts).await? {
            self.request_epochs.raise_min_created_at(min_created_at);
        }
        Ok(false)
    }

    /// Reports on the node, if the last report is old enough. A failure is made good by the next.
    async fn report(&mut self) {
        let is_due = self
            .reported_at
            .is_none_or(|at| at.elapsed() >= REPORT_EVERY);
        if !is_due {
            return;
        }
        let log_bytes = match self.pipeline.is_all_shipped() {
            true => 0,
            false => self.pipeline.log_bytes_used(),
        };
        let report = NodeReport {
            address: self.record.address.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            log_bytes,
        };
        let reports = NodeReports::new(&self.record.catalog);
        let reported = reports.report(&self.record.name, &report);
        match timeout(CATALOG_TIMEOUT, reported).await {
            Ok(Ok(())) => self.reported_at = Some(Instant::now()),
            Ok(Err(error)) => tracing::debug!(%error, "the node could not report"),
            Err(_) => tracing::debug!("the node could not report: the catalog does not answer"),
        }
    }

    fn failed(&mut self, begun: Instant, reason: &str) -> bool {
        self.hold.failed(begun);
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
