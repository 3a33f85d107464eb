//! Start of a node while its catalog in PostgreSQL is away: with the keys of the table in its data
//! folder, and registered once the catalog is back.
//!
//! Exports wait for a node that they waited for before: one that was killed, or could not
//! deregister. One that had stopped is not waited for until it is registered. While PostgreSQL is
//! away from all, no export goes on, and the others hold their watermarks for as long as it takes
//! to register. If it is away from this node alone, exports may pass what the node accepts; then
//! the log says for which time a backfill is needed.
//!
//! The backlog is shipped at once if this folder had the last start itself. Otherwise it might be a
//! copy, and is shipped once that is known.

use crate::catalog_identity;
use crate::config::Config;
use crate::key_table::KeyTable;
use crate::node_registration::{AttemptError, HeldNode, RETRY_PAUSE, Registration, host_name};
use crate::serve::Parts;
use crate::{connect, key_fingerprint};
use anyhow::bail;
use millrace_catalog::{Catalog, CatalogError, UtcTime};
use millrace_clickhouse::RowOwner;
use millrace_ingest::watermark::{Node, Registered};
use millrace_ingest::{Readiness, keys::Keys};
use millrace_rows::{Clock, Micros, RareLog, SystemClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, UNIX_EPOCH};
use tokio::sync::watch;
use uuid::Uuid;

/// Means of a start while the catalog is away.
pub struct WithoutCatalog {
    /// Catalog that will be back.
    pub catalog: Catalog,
    id: Uuid,
    table: KeyTable,
    is_registered: Arc<AtomicBool>,
    parts: Parts,
}

impl WithoutCatalog {
    /// Opens what is needed, after `error` was got for the catalog; `None` if that is no case for
    /// it: the catalog is not away, or the folder has no table of its keys.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub async fn open(
        config: &Config,
        parts: Parts,
        error: &anyhow::Error,
    ) -> anyhow::Result<Option<Self>> {
        let catalog_error = error.downcast_ref::<CatalogError>();
        let is_away = matches!(catalog_error, Some(CatalogError::Unreachable { .. }));
        if !is_away || !parts.ingest || config.database_url.starts_with("sqlite:") {
            return Ok(None);
        }
        let Some(id) = catalog_identity::kept_id(&config.data_dir)? else {
            return Ok(None);
        };
        let table = KeyTable::load(&config.data_dir, id).unwrap_or_else(|damage| {
            tracing::warn!("{damage:#}");
            None
        });
        let Some(table) = table else {
            return Ok(None);
        };
        let catalog = Catalog::open_later(&config.database_url, id).await?;
        config.row_owner.set(RowOwner {
            catalog_id: id,
            has_events: true,
        });
        tracing::error!(
            keys = table.keys.len(),
            age_seconds = table.age().as_secs(),
            "the catalog is away; events are accepted with the project keys that it had, those that are newer are \
             unknown, and the node registers once it is back: {error:#}"
        );
        Ok(Some(Self {
            catalog,
            id,
            table,
            is_registered: Arc::default(),
            parts,
        }))
    }

    /// Hands the keys over to the cache, and has the health listener tell their age until the node
    /// is registered.
    pub fn begin(&mut self, keys: &Keys, readiness: &Readiness) {
        keys.preload(std::mem::take(&mut self.table.keys));
        let (confirmed_at, is_registered) = (self.table.confirmed_at, self.is_registered.clone());
        readiness.observe("key_table", move || {
            if is_registered.load(Ordering::Acquire) {
                return None;
            }
            let age = confirmed_at.elapsed().unwrap_or_default().as_secs();
            Some(format!(
                "the catalog is away since this process started; it works with the project keys of {age} s ago"
            ))
        });
    }

    /// Makes the node, which registers while it runs.
    ///
    /// # Errors
    /// When the record of its starts cannot be read.
    pub fn node(self, config: &Config, name: &str) -> anyhow::Result<HeldNode> {
        let registration = Registration::new(config, &self.catalog, name)?;
        let confirmed_at = self.table.confirmed_at.duration_since(UNIX_EPOCH);
        let confirmed_at = confirmed_at.map_or(0, |at| at.as_micros());
        let confirmed_at = Micros(i64::try_from(confirmed_at).unwrap_or(0));
        // It published watermarks until then.
        let min_created_at = SystemClock.now().max(confirmed_at);
        let (released, hold) = watch::channel(registration.is_restart_in_place());
        let is_held = !*hold.borrow();
        let catalog = self.catalog.clone();
        let registering = Returning {
            away: self,
            config: config.clone(),
            registration,
            released,
            since: min_created_at.into(),
        };
        let node = Node::unregistered(
            catalog,
            name.to_owned(),
            host_name(),
            min_created_at,
            Box::pin(registering.register()),
        );
        Ok((node, is_held.then_some(hold)))
    }
}

/// Return of the catalog, which is waited for.
struct Returning {
    away: WithoutCatalog,
    config: Config,
    registration: Registration,
    /// Told once the backlog may be shipped.
    released: watch::Sender<bool>,
    /// Time of the first event that was accepted without the catalog, at the earliest.
    since: UtcTime,
}

impl Returning {
    /// Registers the node as soon as the catalog is back; an error is why the node must end.
    async fn register(mut self) -> Result<Registered, String> {
        let failures = RareLog::default();
        loop {
            match self.attempt().await {
                Ok(Ok(registered)) => {
                    self.registered(&registered);
                    return Ok(registered);
                }
                Ok(Err(reason)) if failures.is_due(&reason, Instant::now()) => {
                    tracing::warn!("the node is not registered yet: {reason}");
                }
                Ok(Err(_)) => {}
                Err(error) => return Err(format!("{error:#}")),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Tries once; the inner error is a reason to try again.
    async fn attempt(&mut self) -> anyhow::Result<Result<Registered, String>> {
        if let Err(reason) = self.check().await? {
            return Ok(Err(reason));
        }
        Ok(match self.registration.attempt().await? {
            Ok(registered) => Ok(registered),
            Err(AttemptError::OtherMayRun) => Err("another process had its name".to_owned()),
            Err(error) => Err(error.to_string()),
        })
    }

    /// Checks all that a start with the catalog checks: which catalog it is, its schema, and the
    /// key of secrets. The inner error is a reason to try again.
    async fn check(&self) -> anyhow::Result<Result<(), String>> {
        let catalog = match connect::catalog(&self.config).await {
            Ok(catalog) => catalog,
            Err(error) if is_transient(&error) => return Ok(Err(format!("{error:#}"))),
            Err(error) => return Err(error),
        };
        let checked = self.check_opened(&catalog).await;
        // Its pools would hold their connections until they are dropped.
        let _ = catalog.close().await;
        match checked {
            Err(error) if is_transient(&error) => Ok(Err(format!("{error:#}"))),
            checked => checked.map(Ok),
        }
    }

    async fn check_opened(&self, catalog: &Catalog) -> anyhow::Result<()> {
        let id = catalog.id().await?;
        if id != self.away.id {
            bail!(
                "{} is another catalog (id {id}) than the one of this data folder (id {}); start again",
                catalog.location(),
                self.away.id
            );
        }
        if self.away.parts.admin {
            key_fingerprint::require_same(&self.config, catalog).await?;
        }
        catalog_identity::keep(&self.config, catalog).await
    }

    /// Ends what a start without the catalog holds up, and tells what exports may have passed.
    fn registered(&mut self, registered: &Registered) {
        self.away.is_registered.store(true, Ordering::Release);
        let passed = registered.min_created_at;
        match passed.filter(|passed| !self.registration.counted && *passed > self.since) {
            Some(until) => tracing::error!(
                since = %self.since,
                %until,
                "the node is registered. Exports and persons went on without it: they may lack events that it accepted \
                 in this time, so run a backfill for it"
            ),
            None => tracing::info!("the catalog is back: the node is registered"),
        }
        if !*self.released.borrow() {
            let hold = std::mem::take(&mut self.registration.hold);
            hold.release(self.away.catalog.clone(), self.released.clone());
        }
    }
}

/// Returns true for failures that may pass: of the network, or of the database.
fn is_transient(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<CatalogError>();
    error.is_some_and(|error| {
        !matches!(
            error,
            CatalogError::NewerSchema { .. }
                | CatalogError::OlderSchema { .. }
                | CatalogError::Missing { .. }
        )
    })
}
