//! What handlers work with, and how the API is set up.

use crate::dns::Dns;
use crate::key_cache::KeyCache;
use crate::mail::Outbox;
use crate::plugin_catalogue::PluginCatalogue;
use crate::proxy_check::ProbeOptions;
use ipnet::IpNet;
use millrace_catalog::{Catalog, SecretKey};
use std::path::PathBuf;
use std::time::Duration;

/// How the API is set up; [`ApiConfig::default`] suits a service without proxies.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// Where clients reach the API, without a slash at the end; `None`: where they say they did.
    pub public_url: Option<String>,
    /// Peers whose `X-Forwarded-For`, `-Host` and `-Proto` are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Requests that a key may make in a minute; 0: any number.
    pub requests_per_minute_max: u32,
    /// Requests that a key may make in an hour; 0: any number.
    pub requests_per_hour_max: u32,
    /// All keys of a user together may make so many times what one may; 0: any number.
    pub requests_per_user_factor: u32,
    /// Wrong keys that an address may present in a minute; 0: any number. Right keys are served
    /// all the same.
    pub wrong_keys_per_minute_max: u32,
    /// How long a client may take nothing of its answer before it is cut off.
    pub write_timeout: Duration,
    /// The domain below which our reverse proxies answer.
    pub proxy_base_name: String,
    /// The folder that exports to files stay in; `None`: there are no such exports.
    pub export_root: Option<PathBuf>,
    /// Whether exports may go to private networks.
    pub allow_private_destinations: bool,
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self {
            public_url: None,
            trusted_proxies: Vec::new(),
            requests_per_minute_max: 480,
            requests_per_hour_max: 4_800,
            requests_per_user_factor: 4,
            wrong_keys_per_minute_max: 30,
            write_timeout: Duration::from_secs(30),
            proxy_base_name: "proxy.localhost".to_owned(),
            export_root: None,
            allow_private_destinations: false,
        }
    }
}

/// What handlers work with. A new collaborator is a field here with a default in
/// [`Services::new`]; handlers reach it as `context.services.<field>`.
#[derive(Clone, Debug)]
pub struct Services {
    /// Where everything is kept.
    pub catalog: Catalog,
    /// What secrets of destinations are encrypted with.
    pub secret_key: SecretKey,
    /// How the API is set up.
    pub config: ApiConfig,
    /// Sends mail; `None`: nothing is sent.
    pub outbox: Option<Outbox>,
    /// Proves domains; the system's nameservers unless another one is given.
    pub dns: Dns,
    /// How the domains of proxy records are probed.
    pub probe: ProbeOptions,
    /// Plugins that can be installed.
    pub plugin_catalogue: PluginCatalogue,
    /// Ingestion in the same process, which has to know of changes before they are answered.
    pub key_cache: KeyCache,
}

impl Services {
    /// A catalog and the key of its secrets; everything else as it is without configuration.
    #[must_use]
    pub fn new(catalog: Catalog, secret_key: SecretKey) -> Self {
        Self {
            catalog,
            secret_key,
            config: ApiConfig::default(),
            outbox: None,
            dns: Dns::new(None),
            probe: ProbeOptions::default(),
            plugin_catalogue: PluginCatalogue::default(),
            key_cache: KeyCache::default(),
        }
    }
}
