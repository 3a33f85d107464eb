//! Start of the parts of a process, one step after the other.
//!
//! 1. Catalog and credentials, as everything else needs them.
//! 2. Health checks and metrics: a start that takes long can be watched.
//! 3. The organization API.
//! 4. Ingestion, then the engine: events are accepted while ClickHouse comes up.
//! 5. Credentials with the addresses of this start, and the workers that need ClickHouse.

use super::Parts;
use super::running::RunningServer;
use crate::admin::{Admin, IngestEnds};
use crate::background_parts::BackgroundParts;
use crate::config::{Config, Engine};
use crate::credentials::{Banner, Credentials};
use crate::ingest::{AcceptingIngest, Ingest};
use crate::live_endpoint::AdvertisedEndpoint;
use crate::signals::StopSignal;
use crate::start_without_catalog::WithoutCatalog;
use crate::{
    bootstrap, catalog_identity, clickhouse_sync, clickhouse_watch, connect, engine,
    key_fingerprint, output, plain_listeners, preflight, sign_in_link,
};
use anyhow::Context;
use millrace_admin::IngestUrl;
use millrace_catalog::{Actor, Catalog};
use millrace_embedded::Supervisor;
use millrace_ingest::keys::Keys;
use millrace_ingest::{HealthServer, MetricsSource, Readiness};
use millrace_live::{LiveFeed, LiveHub, LiveTap};
use millrace_organizations::BootstrapOptions;
use millrace_tls::ServerTls;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

/// Starts all parts; `None` if a stop was requested meanwhile, and then everything under way is
/// finished.
///
/// # Errors
/// When a part cannot start. A node that has accepted no events is deregistered.
pub async fn start(
    config: &Config,
    parts: Parts,
    metrics: MetricsSource,
    tls: Option<ServerTls>,
    stop: &StopSignal,
) -> anyhow::Result<Option<RunningServer>> {
    let opened = tokio::select! {
        opened = OpenedState::open(config, parts) => opened?,
        () = stop.received() => return Ok(None),
    };
    let mut startup = Startup::begin(config, parts, opened, metrics, tls)?;
    startup.start_api()?;
    if !startup.start_ingestion(stop).await? {
        startup.cancel(stop).await?;
        return Ok(None);
    }
    startup.finish(stop).await.map(Some)
}

/// Catalog and credentials.
struct OpenedState {
    catalog: Catalog,
    credentials: Credentials,
    credentials_path: PathBuf,
    is_first_start: bool,
    /// Stand-in for the catalog while that is away.
    without_catalog: Option<WithoutCatalog>,
}

impl OpenedState {
    async fn open(config: &Config, parts: Parts) -> anyhow::Result<Self> {
        let credentials_path = config.credentials_path();
        let kept = Credentials::load(&credentials_path)?;
        let is_kept = kept.is_some();
        let mut credentials = kept.unwrap_or_default();
        let catalog = match connect::catalog_or_create(config).await {
            Ok(catalog) => catalog,
            Err(error) => {
                // The keys of a first start would be lost.
                let opened = match is_kept {
                    true => WithoutCatalog::open(config, parts, &error).await?,
                    false => None,
                };
                let without_catalog = opened.ok_or(error)?;
                return Ok(Self {
                    catalog: without_catalog.catalog.clone(),
                    credentials,
                    credentials_path,
                    is_first_start: false,
                    without_catalog: Some(without_catalog),
                });
            }
        };
        // Before the catalog is filled: a refused one stays empty.
        connect::require_own_rows(config).await?;
        if parts.admin {
            key_fingerprint::require_same(config, &catalog).await?;
        }
        catalog_identity::keep(config, &catalog).await?;
        let is_first_start =
            bootstrap::run(&catalog, &config.data_dir, is_kept, &mut credentials).await?;
        Ok(Self {
            catalog,
            credentials,
            credentials_path,
            is_first_start,
            without_catalog: None,
        })
    }
}

/// A start under way, with the parts that are up.
struct Startup<'a> {
    config: &'a Config,
    parts: Parts,
    opened: OpenedState,
    /// Certificate of the listeners, if they have TLS.
    tls: Option<ServerTls>,
    readiness: Readiness,
    health: HealthServer,
    keys: Keys,
    /// Feed of the live stream, if ingestion runs here.
    live_feed: Option<LiveFeed>,
    /// Address of ingestion, for the API.
    ingest_url: IngestUrl,
    /// Ends of the live stream, until ingestion has them.
    live_ends: Option<(LiveTap, LiveHub)>,
    admin: Option<Admin>,
    ingest: Option<Ingest>,
    live_endpoint: Option<AdvertisedEndpoint>,
    engine: Option<Supervisor>,
}

impl<'a> Startup<'a> {
    /// Starts health checks and metrics.
    fn begin(
        config: &'a Config,
        parts: Parts,
        mut opened: OpenedState,
        metrics: MetricsSource,
        tls: Option<ServerTls>,
    ) -> anyhow::Result<Self> {
        plain_listeners::warn_of(config, parts);
        if let Some(tls) = tls.clone() {
            tokio::spawn(tls.watch());
        }
        let readiness = Readiness::new();
        let probed = readiness.clone();
        let health = HealthServer::start(config.health_addr, probed, metrics, tls.clone())
            .with_context(|| preflight::cannot_listen(config.health_addr, "--health-addr"))?;
        opened.credentials.health_url = config.listener_url(health.addr());
        let keys = Keys::new(opened.catalog.clone());
        if let Some(without_catalog) = &mut opened.without_catalog {
            without_catalog.begin(&keys, &readiness);
        }
        let (tap, feed, hub) = millrace_live::live();
        Ok(Self {
            config,
            parts,
            opened,
            tls,
            readiness,
            health,
            keys,
            live_feed: parts.ingest.then_some(feed),
            ingest_url: IngestUrl::default(),
            live_ends: Some((tap, hub)),
            admin: None,
            ingest: None,
            live_endpoint: None,
            engine: None,
        })
    }

    /// Starts the organization API, if it runs here.
    fn start_api(&mut self) -> anyhow::Result<()> {
        if !self.parts.admin {
            return Ok(());
        }
        let config = self.config;
        let ends = self.live_feed.clone().map(|live| IngestEnds {
            keys: self.keys.clone(),
            live,
            url: self.ingest_url.clone(),
        });
        let admin = Admin::start(config, ends, self.tls.clone(), self.readiness.clone())
            .with_context(|| preflight::cannot_listen(config.admin_addr, "--admin-addr"))?;
        self.opened.credentials.admin_url = config.listener_url(admin.addr());
        // Not required beside ingestion: events come in without the API.
        if !self.parts.ingest {
            self.readiness.require("catalog", admin.failure());
        }
        self.admin = Some(admin);
        Ok(())
    }

    /// Starts ingestion and the engine that it ships to, if they run here; false if a stop was
    /// requested before.
    async fn start_ingestion(&mut self, stop: &StopSignal) -> anyhow::Result<bool> {
        let live = self.live_ends.take().filter(|_| self.parts.ingest);
        let Some(live) = live else {
            return Ok(true);
        };
        let config = self.config;
        let keys = self.keys.clone();
        let away = self.opened.without_catalog.take();
        let catalog = (&self.opened.catalog, away);
        let (tls, readiness) = (self.tls.clone(), &self.readiness);
        let accepting =
            AcceptingIngest::start(config, tls, keys, catalog, readiness, live, stop).await?;
        let Some(accepting) = accepting else {
            return Ok(false);
        };
        // Without an endpoint and without the API nobody can watch.
        if let Some(feed) = self.live_feed.take() {
            self.live_endpoint = AdvertisedEndpoint::start(config, catalog.clone(), feed).await;
        }
        // Requests are served from here on.
        let credentials = &mut self.opened.credentials;
        let own_url = || config.listener_url(accepting.addr());
        credentials.ingest_url = config.public_url.clone().unwrap_or_else(own_url);
        self.ingest_url.set(&credentials.ingest_url);
        {
            let mut starting = pin!(engine::start(config, &mut *credentials));
            let started = tokio::select! {
                started = &mut starting => started.map(Some),
                () = stop.received() => Ok(None),
            };
            let Ok(Some(engine)) = started else {
                // Deregisters the node, unless it accepted events. Before the engine ends, which
                // may take long, or be cut short by a supervisor.
                let grace = Duration::from_secs(config.grace_seconds);
                accepting.stop(grace, stop.cut_short()).await?;
                return started.map(|_| false);
            };
            self.engine = engine;
        }
        self.ingest = Some(accepting.ship(config, credentials));
        Ok(true)
    }

    /// Stops what is up, after a stop was requested.
    async fn cancel(self, stop: &StopSignal) -> anyhow::Result<()> {
        let parts = BackgroundParts {
            admin: self.admin,
            ..BackgroundParts::default()
        };
        parts.stop(stop.cut_short()).await
    }

    /// Completes the start once all addresses are known, and prints them.
    async fn finish(self, stop: &StopSignal) -> anyhow::Result<RunningServer> {
        let Self { config, opened, .. } = self;
        let mut server = RunningServer {
            ingest: self.ingest,
            background_parts: BackgroundParts {
                admin: self.admin,
                ..BackgroundParts::default()
            },
            engine: self.engine,
            health: self.health,
            live_endpoint: self.live_endpoint,
        };
        let (credentials, path) = (&opened.credentials, &opened.credentials_path);
        let stored = credentials.store(path);
        let started = stored.and_then(|()| {
            bootstrap::finish(&config.data_dir);
            server.background_parts.start_workers(config)
        });
        if let Err(error) = started {
            return Err(server.abort_start(config, error, stop).await);
        }
        if let Some(engine) = &server.engine {
            let (catalog, status) = (opened.catalog.clone(), Some(engine.status()));
            tokio::spawn(clickhouse_sync::run(config.clone(), catalog, status));
        }
        let restarter = server.engine.as_ref().map(Supervisor::restarter);
        let watched =
            clickhouse_watch::begin(config, self.parts.ingest, &self.readiness, restarter);
        let problem = watched.await;
        let sign_in_link = first_link(config, &opened).await;
        let banner = Banner {
            credentials,
            path,
            shows_personal_key: opened.is_first_start && std::io::stdout().is_terminal(),
            sign_in_link: sign_in_link.as_deref(),
            is_embedded: matches!(config.engine, Engine::Embedded { .. }),
            clickhouse_problem: problem.as_deref(),
        };
        output::print(&banner.to_string());
        Ok(server)
    }
}

/// Link that signs the owner in after the first start; `None` at later ones, or without the API.
/// Unlike the personal key it is printed wherever the output goes: it works once, and not for long.
async fn first_link(config: &Config, opened: &OpenedState) -> Option<String> {
    let own_url = &opened.credentials.admin_url;
    if !opened.is_first_start || own_url.is_empty() {
        return None;
    }
    let base_url = config.admin_public_url.as_ref().unwrap_or(own_url);
    let owner = BootstrapOptions::default().owner_email;
    let actor = Actor::system();
    let made = sign_in_link::create(&opened.catalog, &actor, base_url, &owner);
    match made.await {
        Ok(link) => Some(link.url),
        Err(error) => {
            tracing::warn!(
                "no link to sign in was created, `millrace sign-in-link` creates one: {error}"
            );
            None
        }
    }
}
