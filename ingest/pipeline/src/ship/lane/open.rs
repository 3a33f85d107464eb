//! Opens a lane's shipper from its checkpoint, if there is one.

use super::state::{BootId, Phase, Reading, UnshippedRows};
use super::{ShipError, Shipper};
use crate::LaneOutput;
use crate::ship::attribution::StoredCounts;
use crate::ship::backoff::RetryBackoff;
use crate::ship::checkpoint::Checkpoint;
use crate::ship::dead_letters::DeadLetters;
use crate::ship::execute::{DamagedPlaces, InsertContext};
use crate::ship::options::ShipOptions;
use crate::ship::plan::Plan;
use crate::ship::retries::Retries;
use crate::ship::sink::Sink;
use metrics::{counter, gauge};
use millrace_log::{FrameSection, LogHandle};
use millrace_rows::Clock;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

impl<K: Sink> Shipper<K> {
    pub(super) async fn open(
        options: ShipOptions,
        output: LaneOutput,
        sink: K,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ShipError> {
        let log = output.log;
        let random = || Uuid::new_v4().as_fields().0;
        let start_mark = random();
        let loaded = load_plan(&options, &log, start_mark).await?;
        let is_new = loaded.is_none();
        let plan = loaded.unwrap_or_else(|| {
            let (start, opened_at) = (log.start(), log.opened_at());
            Plan::new(options.limits, random(), start_mark, start, opened_at)
        });
        let lane = output.lane.name();
        // A counter that appears with its first count does not increase.
        counter!("millrace_insert_rows_dead_lettered_total", "lane" => lane).increment(0);
        let (retries, failing) = Retries::new(options.limits.in_flight_max);
        let prefix = format!("{}-{:08x}-{lane}", options.node, plan.salt());
        let mut shipper = Self {
            context: Arc::new(InsertContext {
                lane,
                node: options.node,
                prefix,
                log: log.clone(),
                insert_format: options.insert_format,
                filled_columns: options.filled_columns,
                sink,
                dead_letters: DeadLetters::new(&options.dead_letters_dir, plan.salt()),
                retries,
                stored_counts: StoredCounts::default(),
                damaged_places: DamagedPlaces::default(),
            }),
            reader: Some(log.reader(plan.read_to())),
            plan,
            phase: Phase::Running,
            reading: Reading::Behind,
            unshipped: UnshippedRows::before(log.opened_at()),
            boot_id: BootId::unknown(),
            clock,
            started: Instant::now(),
            synced: output.synced,
            stored_low: log.start(),
            shipped: output.shipped,
            updates_shipped: output.updates_shipped,
            updates_wanted: output.updates_wanted,
            tasks: JoinSet::new(),
            failing,
            backoff: RetryBackoff::new(),
            paused_until: Instant::now(),
            targets: HashSet::new(),
            oldest: gauge!("millrace_shipping_lag_seconds", "lane" => lane),
        };
        if is_new {
            // Persisted at once, not only before the first batch: after a restart in between, all
            // rows would be suspect, and be looked up and sent section by section.
            shipper.persist_checkpoint().await?;
        }
        Ok(shipper)
    }
}

/// Loads the plan of the checkpoint; `None` if there is none.
async fn load_plan(
    options: &ShipOptions,
    log: &LogHandle,
    start_mark: u32,
) -> Result<Option<Plan<FrameSection>>, ShipError> {
    let to_load = log.clone();
    let loaded = tokio::task::spawn_blocking(move || to_load.load_checkpoint())
        .await
        .map_err(|error| ShipError::Checkpoint(error.to_string()))?
        .map_err(|error| ShipError::Checkpoint(error.to_string()))?;
    let Some(bytes) = loaded.filter(|bytes| !bytes.is_empty()) else {
        return Ok(None);
    };
    let checkpoint =
        Checkpoint::from_bytes(&bytes).map_err(|error| ShipError::Checkpoint(error.to_string()))?;
    let opened_at = log.opened_at();
    Ok(Some(Plan::restore(
        options.limits,
        checkpoint,
        start_mark,
        opened_at,
    )))
}
