//! Configuration of the API, and the collaborators of its handlers.

use crate::dns::Dns;
use crate::ingest_url::IngestUrl;
use crate::key_cache::KeyCache;
use crate::live_slots::LiveSlots;
use crate::live_source::LiveSource;
use crate::mail::Outbox;
use crate::plugin_catalogue::PluginCatalogue;
use crate::project_queries::ProjectQueries;
use crate::project_stats::ProjectStats;
use crate::proxy_check::ProbeOptions;
use crate::query_slots::QuerySlots;
use crate::rejected_events::RejectedEvents;
use crate::sign_in_mails::SignInMails;
use crate::stopping::Stopping;
use ipnet::IpNet;
use millrace_catalog::Catalog;
use millrace_exports::SecretKey;
use millrace_organizations::SourceParser;
use millrace_tls::ServerTls;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Configuration of the API; [`ApiConfig::default`] suits a service without proxies.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// Address at which clients reach the API, without a slash at the end; `None`: the one in their
    /// requests.
    pub public_url: Option<String>,
    /// Peers whose `X-Forwarded-For`, `-Host` and `-Proto` are trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Requests that a key may make in a minute; 0: any number.
    pub requests_per_minute_max: u32,
    /// Requests that a key may make in an hour; 0: any number.
    pub requests_per_hour_max: u32,
    /// Factor by which all keys of a user together may make more requests than one key; 0: any
    /// number.
    pub requests_per_user_factor: u32,
    /// Factor by which all members of an organization together may make more requests that concern
    /// it than one key; 0: any number.
    pub requests_per_organization_factor: u32,
    /// Wrong keys that an address may present in a minute; 0: any number. Right keys are served
    /// all the same.
    pub wrong_keys_per_minute_max: u32,
    /// Longest time until a request's head is complete, silent keep-alive included, before the
    /// client is disconnected.
    pub head_timeout: Duration,
    /// Longest time that a body may take to arrive.
    pub body_timeout: Duration,
    /// Longest time that a client may read nothing of its response before it is disconnected.
    pub write_timeout: Duration,
    /// Domain below which our reverse proxies answer.
    pub proxy_base_name: String,
    /// Folder that exports to files stay in; `None`: there are no such exports.
    pub export_root: Option<PathBuf>,
    /// True if exports may go to private networks.
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
            requests_per_organization_factor: 40,
            wrong_keys_per_minute_max: 30,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            proxy_base_name: "proxy.localhost".to_owned(),
            export_root: None,
            allow_private_destinations: false,
        }
    }
}

/// Collaborators of handlers. A new one is a field here with a default in [`Services::new`];
/// handlers reach it as `context.services.<field>`.
#[derive(Clone, Debug)]
pub struct Services {
    /// Catalog of organizations, projects, keys and exports.
    pub catalog: Catalog,
    /// Key that encrypts secrets of destinations.
    pub secret_key: SecretKey,
    /// Configuration of the API.
    pub config: ApiConfig,
    /// Certificate of the listener; `None`: it speaks plain HTTP.
    pub tls: Option<ServerTls>,
    /// Outbox for mails; `None`: nothing is sent.
    pub outbox: Option<Outbox>,
    /// DNS client; asks the system's nameservers unless another one is given.
    pub dns: Dns,
    /// Options for probing the domains of proxy records.
    pub probe: ProbeOptions,
    /// Plugins that can be installed.
    pub plugin_catalogue: PluginCatalogue,
    /// Parser of plugins' sources; `None`: none can be changed.
    pub source_parser: Option<Arc<dyn SourceParser>>,
    /// Key cache of ingestion in the same process, updated before a change is answered.
    pub key_cache: KeyCache,
    /// Runs the queries of projects; `None`: there are none.
    pub project_queries: Option<Arc<dyn ProjectQueries>>,
    /// Reads rejected events and sends them again; `None`: nobody does.
    pub rejected_events: Option<Arc<dyn RejectedEvents>>,
    /// Reads numbers of events; `None`: nobody counts.
    pub project_stats: Option<Arc<dyn ProjectStats>>,
    /// Slots of queries in ClickHouse.
    pub(crate) query_slots: QuerySlots,
    /// Address that clients send events to.
    pub ingest_url: IngestUrl,
    /// Source of live streams; `None`: there are none.
    pub live: Option<Arc<dyn LiveSource>>,
    /// Slots of these streams.
    pub(crate) live_slots: LiveSlots,
    /// Recent mails with sign-in links, which are limited.
    pub(crate) sign_in_mails: SignInMails,
    /// Stop of the server over these services.
    pub(crate) stopping: Stopping,
}

impl Services {
    /// Services over a catalog and the key of its secrets; everything else has its default.
    #[must_use]
    pub fn new(catalog: Catalog, secret_key: SecretKey) -> Self {
        Self {
            catalog,
            secret_key,
            config: ApiConfig::default(),
            tls: None,
            outbox: None,
            dns: Dns::new(None),
            probe: ProbeOptions::default(),
            plugin_catalogue: PluginCatalogue::default(),
            source_parser: None,
            key_cache: KeyCache::default(),
            project_queries: None,
            rejected_events: None,
            project_stats: None,
            query_slots: QuerySlots::default(),
            ingest_url: IngestUrl::default(),
            live: None,
            live_slots: LiveSlots::default(),
            sign_in_mails: SignInMails::default(),
            stopping: Stopping::default(),
        }
    }
}
