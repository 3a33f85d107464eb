//! State of the process that all cores share.

use crate::admission::budget::Budget;
use crate::admission::month_limiter::MonthLimiter;
use crate::admission::response_budget::ResponseBudget;
use crate::config::ServerConfig;
use crate::connection::limits::ConnectionLimiter;
use crate::import_quota::ImportQuota;
use crate::keys::Keys;
use crate::offload::OffloadPool;
use crate::readiness::Readiness;
use crate::request_dedup::RequestDedupCache;
use crate::watermark::RequestEpochs;
use millrace_live::LiveTap;
use millrace_pipeline::Pipeline;
use millrace_rows::Clock;
use std::sync::Arc;

/// Dependencies of the server.
#[derive(Clone)]
pub struct Deps {
    /// Project keys.
    pub keys: Keys,
    /// Import quotas of all projects.
    pub import_quota: ImportQuota,
    /// Pipeline that writes rows to the log.
    pub pipeline: Pipeline,
    /// Clock that tells the time of day.
    pub clock: Arc<dyn Clock>,
    /// Readiness of the process.
    pub readiness: Readiness,
    /// Requests under way, by epoch.
    pub request_epochs: RequestEpochs,
    /// Tap of the live stream.
    pub live: LiveTap,
}

/// State of the process that all cores share.
pub struct ProcessState {
    pub config: ServerConfig,
    pub deps: Deps,
    pub budget: Arc<Budget>,
    pub response_budget: ResponseBudget,
    pub connection_limiter: Arc<ConnectionLimiter>,
    pub request_dedup: RequestDedupCache,
    /// Threads for work that would block a core.
    pub offload_pool: Arc<OffloadPool>,
    pub month_limiter: MonthLimiter,
}

// === impl ProcessState ===

impl ProcessState {
    /// Returns the state of a process that has served nothing yet.
    pub fn new(config: ServerConfig, deps: Deps) -> Self {
        let limits = &config.limits;
        let budget = Budget::new(limits.in_flight_bytes_max);
        Self {
            response_budget: ResponseBudget::new(Arc::clone(&budget), limits.in_flight_bytes_max),
            budget,
            connection_limiter: ConnectionLimiter::new(
                limits.connections_max,
                limits.connections_per_address_max,
            ),
            request_dedup: RequestDedupCache::new(),
            offload_pool: Arc::new(OffloadPool::new(config.workers, limits)),
            month_limiter: MonthLimiter::default(),
            config,
            deps,
        }
    }
}

#[cfg(test)]
pub mod testing {
    use super::{Deps, ImportQuota, Keys, Readiness, RequestEpochs};
    use millrace_catalog::Catalog;
    use millrace_catalog::testing::TestDatabase;
    use millrace_live::LiveTap;
    use millrace_pipeline::{Ack, Pipeline, PipelineOptions, Running};
    use millrace_rows::{Clock, SystemClock};
    use std::path::Path;
    use std::sync::Arc;

    /// Dependencies with an empty catalog and an empty log in a folder, and the log's threads.
    pub async fn deps(dir: &Path) -> (Deps, Running) {
        let file = dir.join("catalog.db");
        TestDatabase::write_sqlite(&file).await;
        let url = format!("sqlite://{}", file.display());
        let catalog = Catalog::open(&url).await.unwrap();
        let options = PipelineOptions {
            log_dir: dir.join("log"),
            log_bytes_max: 64 << 20,
            segment_bytes: 1 << 20,
            queue_requests_max: 8,
            queue_bytes_max: 1 << 20,
            insert_bytes_max: PipelineOptions::INSERT_BYTES_MAX,
            ack: Ack::Disk,
        };
        let (pipeline, running) = Pipeline::start(&options).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (import_quota, _) =
            ImportQuota::start(catalog.clone(), "node".to_owned(), Arc::clone(&clock));
        let deps = Deps {
            keys: Keys::new(catalog),
            import_quota,
            pipeline,
            clock,
            readiness: Readiness::new(),
            request_epochs: RequestEpochs::new(None),
            live: LiveTap::default(),
        };
        (deps, running)
    }
}
