//! The organization API as a part of the process: on a thread, a runtime and a connection to the
//! catalog of its own, so that nothing it does holds events up.

use crate::config::Config;
use crate::open;
use anyhow::{Context, anyhow};
use millrace_admin::dns::Dns;
use millrace_admin::mail::Outbox;
use millrace_admin::{ApiConfig, Services};
use millrace_catalog::Catalog;
use std::net::{SocketAddr, TcpListener};
use tokio::sync::{oneshot, watch};

/// Threads for requests: a second one, so that a long answer does not hold up the others.
const THREADS: usize = 2;

/// The running API; it ends with the process, or when it is stopped.
#[derive(Debug)]
pub struct Admin {
    addr: SocketAddr,
    stop: watch::Sender<bool>,
    ended: oneshot::Receiver<anyhow::Result<()>>,
}

impl Admin {
    /// Listens, and starts the API's thread. The catalog must be migrated.
    ///
    /// # Errors
    /// When the address cannot be listened on, or the system has no room for a thread.
    pub fn start(config: &Config) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(config.admin_addr)?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let (end, ended) = oneshot::channel();
        let config = config.clone();
        std::thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || {
                let outcome = serve(&config, listener, stopped);
                if let Err(error) = &outcome {
                    tracing::error!(error = format!("{error:#}"), "the admin API ended");
                }
                // Nobody waits for it where ingestion goes on.
                drop(end.send(outcome));
            })?;
        Ok(Self { addr, stop, ended })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Waits until it ends by itself: never, unless something is wrong.
    ///
    /// # Errors
    /// What is wrong.
    pub async fn ended(&mut self) -> anyhow::Result<()> {
        let outcome = (&mut self.ended).await;
        outcome.unwrap_or_else(|_| Err(anyhow!("the admin API panicked")))
    }

    /// Lets it finish what is in flight.
    ///
    /// # Errors
    /// As [`Admin::ended`].
    pub async fn stop(mut self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        self.ended().await
    }
}

fn serve(
    config: &Config,
    listener: TcpListener,
    mut stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("admin")
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = runtime.block_on(async {
        let services = services(config, open::catalog(config).await?);
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let stop = async move { drop(stopped.wait_for(|stop| *stop).await) };
        millrace_admin::serve(listener, services, stop)
            .await
            .context("the admin API stopped")
    });
    runtime.shutdown_background();
    outcome
}

/// What the API works with, as configured.
fn services(config: &Config, catalog: Catalog) -> Services {
    let mut services = Services::new(catalog);
    services.config = ApiConfig {
        public_url: config.admin_public_url.clone(),
        trusted_proxies: config.trusted_proxies.clone(),
        requests_per_minute_max: config.admin_requests_per_minute_max,
        requests_per_hour_max: config.admin_requests_per_hour_max,
        ..ApiConfig::default()
    };
    services.outbox = config.mail.clone().map(Outbox::new);
    if config.dns_nameserver.is_some() {
        services.dns = Dns::new(config.dns_nameserver);
    }
    services
}
