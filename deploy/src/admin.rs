//! The organization API as a part of the process: on a thread, a runtime and a connection to the
//! catalog of its own, so that nothing it does holds events up.

use crate::cleanup;
use crate::clickhouse_sync;
use crate::config::{Config, Engine};
use crate::connect;
use crate::live_nodes::LiveNodes;
use crate::nodes;
use crate::plugin_source::SourceProcesses;
use crate::project_queries::Queries;
use crate::property_columns;
use crate::rejected_events::RejectedEventStore;
use crate::secret_key;
use crate::stats::{self, StatsStore};
use crate::thread_priority::lower_priority;
use anyhow::{Context, anyhow};
use millrace_admin::dns::Dns;
use millrace_admin::mail::Outbox;
use millrace_admin::plugin_catalogue::PluginCatalogue;
use millrace_admin::{ApiConfig, IngestUrl, KeyCache, Services};
use millrace_catalog::Catalog;
use millrace_exports::SecretKey;
use millrace_ingest::Readiness;
use millrace_ingest::keys::Keys;
use millrace_live::LiveFeed;
use millrace_tls::ServerTls;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Interval and timeout of the health check of the catalog.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
const CHECK_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause between attempts to open the catalog.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// Threads for requests: a second one, so that a long response does not delay the others.
const THREADS: usize = 2;

/// Running organization API; it ends with the process, or when it is stopped.
#[derive(Debug)]
pub struct Admin {
    addr: SocketAddr,
    /// True if the catalog answered the last health check.
    catalog_answers: Arc<AtomicBool>,
    stop: watch::Sender<bool>,
    /// Stops the cleanup, the making of property columns and the counting of events, which only
    /// leaders do; the API goes on.
    stop_cleanup: CancellationToken,
    ended: oneshot::Receiver<anyhow::Result<()>>,
}

/// Ends of ingestion in this process.
pub struct IngestEnds {
    /// Key cache, which learns of every change before the response.
    pub keys: Keys,
    /// Live stream.
    pub live: LiveFeed,
    /// Address of ingestion, once it accepts events.
    pub url: IngestUrl,
}

/// State for health checks that the API's thread writes.
struct Probes {
    catalog_answers: Arc<AtomicBool>,
    readiness: Readiness,
}

impl Admin {
    /// Listens, and starts the API's thread. The catalog must be migrated. `ingest` has the ends of
    /// ingestion, if that runs in this process, `tls` the certificate, if the listener has TLS.
    /// `readiness` gets the list of nodes.
    ///
    /// # Errors
    /// When the address is in use, or the thread cannot be started.
    pub fn start(
        config: &Config,
        ingest: Option<IngestEnds>,
        tls: Option<ServerTls>,
        readiness: Readiness,
    ) -> anyhow::Result<Self> {
        let secret_key = secret_key::find(config)?;
        let listener = TcpListener::bind(config.admin_addr)?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let (end, ended) = oneshot::channel();
        let catalog_answers = Arc::new(AtomicBool::new(true));
        let probes = Probes {
            catalog_answers: catalog_answers.clone(),
            readiness,
        };
        let stop_cleanup = CancellationToken::new();
        let cleanup_stopped = stop_cleanup.clone();
        let config = config.clone();
        std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || {
                // Threads that are started from here inherit the priority.
                lower_priority();
                let (probes, cleanup_stopped) = (&probes, &cleanup_stopped);
                let outcome = serve(
                    &config,
                    secret_key,
                    ingest,
                    (listener, tls),
                    probes,
                    stopped,
                    cleanup_stopped,
                );
                // Nobody waits for the outcome if the process ends otherwise.
                drop(end.send(outcome));
            })?;
        Ok(Self {
            addr,
            catalog_answers,
            stop,
            stop_cleanup,
            ended,
        })
    }

    /// Address of the listener.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Readiness condition: nothing can be answered without the catalog.
    pub fn failure(&self) -> impl Fn() -> Option<String> + Send + Sync + 'static {
        let answers = self.catalog_answers.clone();
        move || {
            let failed = !answers.load(Ordering::Acquire);
            failed.then(|| "the catalog cannot be reached".to_owned())
        }
    }

    /// Guard that stops the cleanup and the counting when it is dropped: they lead no more.
    pub fn stop_cleanup_on_drop(&self) -> DropGuard {
        self.stop_cleanup.clone().drop_guard()
    }

    async fn ended(&mut self) -> anyhow::Result<()> {
        let outcome = (&mut self.ended).await;
        outcome.unwrap_or_else(|_| Err(anyhow!("the admin API panicked")))
    }

    /// Waits until the API ends by itself, which only a failure causes; returns the reason.
    pub async fn failed(&mut self) -> anyhow::Error {
        match self.ended().await {
            Ok(()) => anyhow!("the admin API ended by itself"),
            Err(error) => error,
        }
    }

    /// Stops the API once it has finished what is in flight.
    ///
    /// # Errors
    /// When the API failed.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        self.ended().await
    }
}

fn serve(
    config: &Config,
    secret_key: SecretKey,
    ingest: Option<IngestEnds>,
    (listener, tls): (TcpListener, Option<ServerTls>),
    probes: &Probes,
    mut stopped: watch::Receiver<bool>,
    cleanup_stopped: &CancellationToken,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("admin")
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = runtime.block_on(async {
        let Some(catalog) = catalog(config, &mut stopped).await else {
            return Ok(());
        };
        let mut services = services(config, catalog.clone(), secret_key);
        services.tls = tls;
        let mut feed = None;
        if let Some(ends) = ingest {
            services.key_cache = key_cache(ends.keys);
            services.ingest_url = ends.url;
            feed = Some(ends.live);
        }
        if let Some(url) = &config.public_url {
            services.ingest_url.set(url);
        }
        services.live = Some(Arc::new(LiveNodes::new(config, catalog.clone(), feed)));
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let stop = async move { drop(stopped.wait_for(|stop| *stop).await) };
        tokio::select! {
            served = millrace_admin::serve(listener, services, stop) => {
                served.context("the admin API stopped")
            }
            never = check_catalog(&catalog, &probes.catalog_answers) => match never {},
            never = nodes::watch(&catalog, &probes.readiness) => match never {},
            never = cleanup::run(&catalog, config.activity_log_kept, cleanup_stopped) => match never {},
            never = users_of_server(config, &catalog) => match never {},
            never = property_columns::run(config, &catalog, cleanup_stopped) => match never {},
            never = stats::run(config, &catalog, cleanup_stopped) => match never {},
        }
    });
    runtime.shutdown_background();
    outcome
}

/// Makes the users of projects on an operator's server, for ever. Those of an embedded engine are
/// made where it is supervised.
async fn users_of_server(config: &Config, catalog: &Catalog) -> Infallible {
    match config.engine {
        Engine::Embedded { .. } => std::future::pending().await,
        Engine::Server { .. } => clickhouse_sync::run(config.clone(), catalog.clone(), None).await,
    }
}

/// Opens the catalog, as soon as that is possible; `None` if the process stops before. Other parts
/// go on meanwhile.
async fn catalog(config: &Config, stopped: &mut watch::Receiver<bool>) -> Option<Catalog> {
    loop {
        match connect::catalog(config).await {
            Ok(catalog) => return Some(catalog),
            Err(error) => tracing::error!(
                "the API does not run yet, as the catalog cannot be opened: {error:#}"
            ),
        }
        let stop = stopped.wait_for(|stop| *stop);
        if tokio::time::timeout(RETRY_PAUSE, stop).await.is_ok() {
            return None;
        }
    }
}

fn key_cache(keys: Keys) -> KeyCache {
    KeyCache::new(move || {
        let keys = keys.clone();
        async move { keys.catch_up().await }
    })
}

/// Checks periodically that the catalog answers, for ever.
async fn check_catalog(catalog: &Catalog, answers: &AtomicBool) -> Infallible {
    let mut every = tokio::time::interval(CHECK_INTERVAL);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        let checked = tokio::time::timeout(CHECK_TIMEOUT, catalog.keys_version()).await;
        answers.store(matches!(checked, Ok(Ok(_))), Ordering::Release);
    }
}

/// Outbox of mails, if mail is configured.
#[must_use]
pub fn outbox(config: &Config) -> Option<Outbox> {
    config.mail.clone().map(Outbox::new)
}

/// Services of the API, as configured.
fn services(config: &Config, catalog: Catalog, secret_key: SecretKey) -> Services {
    let rejected_events = RejectedEventStore::new(config, catalog.clone());
    let mut services = Services::new(catalog.with_limits(config.limits), secret_key);
    services.source_parser = Some(Arc::new(SourceProcesses::default()));
    services.project_queries = Some(Arc::new(Queries::new(config)));
    services.rejected_events = Some(Arc::new(rejected_events));
    services.project_stats = Some(Arc::new(StatsStore::new(config)));
    services.config = ApiConfig {
        public_url: config.admin_public_url.clone(),
        trusted_proxies: config.trusted_proxies.clone(),
        requests_per_minute_max: config.admin_requests_per_minute_max,
        requests_per_hour_max: config.admin_requests_per_hour_max,
        requests_per_user_factor: config.admin_requests_per_user_factor,
        requests_per_organization_factor: config.admin_requests_per_organization_factor,
        proxy_base_name: config.proxy_base_name.clone(),
        export_root: config.export_root.clone(),
        allow_private_destinations: config.allow_private_destinations,
        ..ApiConfig::default()
    };
    services.probe.allow_private = config.allow_private_destinations;
    services.outbox = outbox(config);
    services.plugin_catalogue = PluginCatalogue::new(config.plugin_catalogue.clone());
    if config.dns_nameserver.is_some() {
        services.dns = Dns::new(config.dns_nameserver);
    }
    services
}
