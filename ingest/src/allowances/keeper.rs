//! The task that speaks with the catalog.

use super::Shared;
use super::ledger::Ledger;
use crate::metrics;
use millrace_catalog::{Catalog, LogPlace, SliceDecision, SliceStand};
use millrace_pipeline::{Pipeline, Position, Tally};
use millrace_rows::TeamId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, timeout};

/// How often the catalog hears what was counted.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long the catalog may take.
const CATALOG_TIMEOUT: Duration = Duration::from_secs(3);
/// The same when the process is about to end.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the catalog is left alone after it failed.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// So long after the catalog was last heard, nothing is admitted: it counts what a node holds for twice
/// as long.
const SILENCE_MAX: Duration = Duration::from_secs(10);

type Stands = BTreeMap<TeamId, SliceStand>;
type Decisions = BTreeMap<TeamId, Option<SliceDecision>>;

/// The keeper while it runs.
#[derive(Debug)]
pub struct RunningAllowances {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl RunningAllowances {
    pub(super) const fn new(stop: watch::Sender<bool>, task: JoinHandle<()>) -> Self {
        Self { stop, task }
    }

    /// Waits until the keeper ends, which it does not by itself: no import would be counted or admitted any
    /// more. Nothing is to be asked of it after that.
    pub async fn failed(&mut self) -> String {
        match (&mut self.task).await {
            Err(error) => format!("imports are no longer counted: {error}"),
            Ok(()) => "imports are no longer counted".to_owned(),
        }
    }

    /// Tells the catalog what was counted to the last, and gives the rest back. To be called when no
    /// request is under way any more and all commits have ended; before the shippers end.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        if self.task.await.is_err() {
            tracing::error!("the keeper of imports panicked");
        }
    }

    /// Ends as a process that is killed does.
    #[cfg(test)]
    pub(super) async fn abort(self) {
        self.task.abort();
        assert!(self.task.await.is_err());
    }
}

/// Keeps the slices of this node.
pub struct Keeper {
    shared: Arc<Shared>,
    catalog: Catalog,
    pipeline: Pipeline,
    node: String,
    /// Counted before the start, by project.
    counted_before: BTreeMap<TeamId, i64>,
    ledgers: BTreeMap<TeamId, Ledger>,
    heard_at: Instant,
    kept_from: Position,
    is_failing: bool,
}

impl Keeper {
    pub fn new(shared: Arc<Shared>, catalog: Catalog, pipeline: Pipeline, node: String) -> Self {
        Self {
            shared,
            catalog,
            pipeline,
            node,
            counted_before: BTreeMap::new(),
            ledgers: BTreeMap::new(),
            heard_at: Instant::now(),
            kept_from: Position::FIRST,
            is_failing: false,
        }
    }

    /// Runs until it is told to stop.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        while let Err(reason) = self.resume().await {
            self.failed(&reason);
            for team in self.shared.all() {
                team.turn_away();
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY_PAUSE) => {}
                _ = stop.wait_for(|stops| *stops) => return,
            }
        }
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_look = tokio::select! {
                _ = looks.tick() => true,
                () = self.shared.wake.notified() => false,
                _ = stop.wait_for(|stops| *stops) => break,
            };
            if !self.round(is_look).await {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
        self.farewell().await;
    }

    /// Counts what an earlier process left uncounted, and gives back what it held.
    async fn resume(&mut self) -> Result<(), String> {
        let counted_to = self.pipeline.tally().counted_to;
        let started = self.catalog.start_historical_node(&self.node);
        let legacy = answered(timeout(CATALOG_TIMEOUT, started).await)?;
        let mut counted = legacy.counted;
        if let Some(place) = legacy.counted_to {
            let (pipeline, from) = (self.pipeline.clone(), position(place));
            let recounted = tokio::task::spawn_blocking(move || pipeline.recount(from));
            let recounted = recounted.await.map_err(|error| error.to_string())?;
            for (team_id, events) in recounted.map_err(|error| error.to_string())? {
                let events = i64::try_from(events).unwrap_or(i64::MAX);
                *counted.entry(team_id).or_default() += events;
            }
        }
        let stand = |counted: i64| SliceStand {
            counted,
            ..SliceStand::default()
        };
        let stands = counted.iter().map(|(id, counted)| (*id, stand(*counted)));
        self.exchange(counted_to, &stands.collect(), CATALOG_TIMEOUT)
            .await?;
        self.counted_before = counted;
        self.keep_from(counted_to).await
    }

    /// Says to the catalog what there is to say, and takes what it gives. False if it does not answer.
    async fn round(&mut self, is_look: bool) -> bool {
        self.meet_new_teams();
        if self.heard_at.elapsed() > SILENCE_MAX {
            self.ledgers.values_mut().for_each(Ledger::give_up);
        }
        let tally = self.pipeline.tally();
        let mut stands = Stands::new();
        for (id, ledger) in &mut self.ledgers {
            if let Some(stand) = ledger.look(counted(&tally, *id), is_look) {
                stands.insert(*id, stand);
            }
        }
        let outcome = match stands.is_empty() {
            // All is counted that there is.
            true => self.keep_from(tally.counted_to).await,
            false => self.speak(&tally, &stands).await,
        };
        let held = self.ledgers.iter();
        let held = held.map(|(id, ledger)| ledger.held(counted(&tally, *id)));
        metrics::historical_held(held.sum());
        outcome.inspect_err(|reason| self.failed(reason)).is_ok()
    }

    async fn speak(&mut self, tally: &Tally, stands: &Stands) -> Result<(), String> {
        let said = self.exchange(tally.counted_to, stands, CATALOG_TIMEOUT);
        let decisions = match said.await {
            Ok(decisions) => decisions,
            Err(reason) => {
                for id in stands.keys() {
                    let ledger = self.ledgers.get_mut(id);
                    ledger.into_iter().for_each(Ledger::unheard);
                }
                return Err(reason);
            }
        };
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("imports are taken and counted again");
        }
        for (id, decision) in decisions {
            let ledger = self.ledgers.get_mut(&id);
            if ledger.is_some_and(|it| it.heard(counted(tally, id), decision)) {
                self.shared.wake.notify_one();
            }
        }
        self.keep_from(tally.counted_to).await
    }

    /// Says all that was counted, and gives all back.
    async fn farewell(&mut self) {
        let tally = self.pipeline.tally();
        let mut stands = Stands::new();
        for (id, ledger) in &mut self.ledgers {
            if let Some(stand) = ledger.close(counted(&tally, *id)) {
                stands.insert(*id, stand);
            }
        }
        if stands.is_empty() {
            return;
        }
        let said = self
            .exchange(tally.counted_to, &stands, FAREWELL_TIMEOUT)
            .await;
        if let Err(reason) = said {
            tracing::warn!(
                "the next start counts the last imported events, as the catalog was not told: {reason}"
            );
            return;
        }
        if let Err(reason) = self.keep_from(tally.counted_to).await {
            tracing::warn!("the log of imports cannot be released: {reason}");
        }
    }

    fn meet_new_teams(&mut self) {
        for team in self.shared.all() {
            let before = self.counted_before.get(&team.id()).copied();
            self.ledgers
                .entry(team.id())
                .or_insert_with(|| Ledger::new(team, before.unwrap_or_default()));
        }
    }

    async fn exchange(
        &mut self,
        counted_to: Position,
        stands: &Stands,
        time: Duration,
    ) -> Result<Decisions, String> {
        let exchange =
            self.catalog
                .exchange_historical_slices(&self.node, place(counted_to), stands);
        let decisions = answered(timeout(time, exchange).await)?;
        self.heard_at = Instant::now();
        Ok(decisions)
    }

    /// Lets go of the log that is counted.
    async fn keep_from(&mut self, position: Position) -> Result<(), String> {
        if position == self.kept_from {
            return Ok(());
        }
        let pipeline = self.pipeline.clone();
        let kept =
            tokio::task::spawn_blocking(move || pipeline.keep_historical_from(position)).await;
        kept.map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())?;
        self.kept_from = position;
        Ok(())
    }

    fn failed(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::error!("imports wait for the catalog: {reason}");
        }
    }
}

fn answered<T, E: ToString>(
    answer: Result<Result<T, E>, tokio::time::error::Elapsed>,
) -> Result<T, String> {
    match answer {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err("it does not answer".to_owned()),
    }
}

fn counted(tally: &Tally, id: TeamId) -> i64 {
    let counted = tally.events.get(&id).copied().unwrap_or_default();
    i64::try_from(counted).unwrap_or(i64::MAX)
}

const fn place(position: Position) -> LogPlace {
    LogPlace {
        segment: position.segment,
        offset: position.offset,
    }
}

const fn position(place: LogPlace) -> Position {
    Position {
        segment: place.segment,
        offset: place.offset,
    }
}
