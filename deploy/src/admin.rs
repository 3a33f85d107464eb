//! The organization API as a part of the process.

use crate::config::Config;
use anyhow::Context;
use millrace_admin::dns::Dns;
use millrace_admin::mail::Outbox;
use millrace_admin::{ApiConfig, Services};
use millrace_catalog::Catalog;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// What the API works with, as configured.
#[must_use]
pub fn services(config: &Config, catalog: Catalog) -> Services {
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

/// Serves it until `stopped` turns true.
///
/// # Errors
/// When the listener cannot accept at all.
pub async fn run(
    listener: TcpListener,
    services: Services,
    mut stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let stop = async move { drop(stopped.wait_for(|stop| *stop).await) };
    millrace_admin::serve(listener, services, stop)
        .await
        .context("the admin API stopped")
}
