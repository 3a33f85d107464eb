//! Mixpanel's raw export API: some days at a time, as compressed lines.
//!
//! The API allows 60 requests an hour and three a second.

use super::gzip::GzipLines;
use super::range::{ExportRange, RangeUnit, TimeFormats};
use super::rate_limit::{RateLimit, RateLimiter};
use super::{ExportSettingsError, base_url, receive, refused, send, with_path};
use crate::{Export, FetchError, Part, Transfer};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use reqwest::{StatusCode, Url};
use std::fmt;
use std::io::Write;
use xxhash_rust::xxh3::xxh3_64;

/// Settings of an export from Mixpanel.
#[derive(Clone, Debug)]
pub struct MixpanelSettings {
    /// URL of the service, such as [`MixpanelExport::URL_US`].
    pub url: String,
    /// Credentials of the requests.
    pub credentials: MixpanelCredentials,
    /// First day, `YYYY-MM-DD`: in UTC, or in the project's zone if it was created before 2023.
    pub from: String,
    /// Last day.
    pub until: String,
    /// Days of a part: more take fewer of the hour's requests, and lose more when a transfer
    /// breaks off.
    pub days_per_part: u32,
    /// Most requests in a second and in an hour.
    pub rate_limit: RateLimit,
}

/// Credentials for Mixpanel.
#[derive(Clone)]
pub enum MixpanelCredentials {
    /// A service account, which may read several projects.
    ServiceAccount {
        /// Name of the account.
        username: String,
        /// Secret of the account.
        secret: String,
        /// Project to export.
        project_id: u64,
    },
    /// Secret of one project.
    ProjectSecret(String),
}

impl fmt::Debug for MixpanelCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServiceAccount { username, .. } => write!(f, "ServiceAccount({username})"),
            Self::ProjectSecret(_) => f.write_str("ProjectSecret"),
        }
    }
}

/// Export from Mixpanel.
#[derive(Debug)]
pub struct MixpanelExport {
    url: Url,
    credentials: MixpanelCredentials,
    days: ExportRange,
    limiter: RateLimiter,
}

impl MixpanelExport {
    /// URL for projects whose data is in the United States.
    pub const URL_US: &str = "https://data.mixpanel.com";
    /// URL for projects whose data is in the European Union.
    pub const URL_EU: &str = "https://data-eu.mixpanel.com";
    /// URL for projects whose data is in India.
    pub const URL_IN: &str = "https://data-in.mixpanel.com";
    /// Default rate limit, which is the service's.
    pub const RATE_LIMIT: RateLimit = RateLimit {
        per_second: 3,
        per_hour: 60,
    };

    /// Creates an export.
    ///
    /// # Errors
    /// A setting is invalid.
    pub fn new(settings: MixpanelSettings) -> Result<Self, ExportSettingsError> {
        let (from, until) = (&settings.from, &settings.until);
        Ok(Self {
            days: ExportRange::new(from, until, RangeUnit::Day, settings.days_per_part)?,
            url: base_url(&settings.url)?,
            credentials: settings.credentials,
            limiter: RateLimiter::new(settings.rate_limit),
        })
    }

    fn part_url(&self, part: &Part) -> Url {
        let mut url = with_path(&self.url, "/api/2.0/export");
        let mut query = url.query_pairs_mut();
        query
            .append_pair("from_date", &part.from)
            .append_pair("to_date", &part.until);
        query.append_pair("time_in_ms", "true");
        if let MixpanelCredentials::ServiceAccount { project_id, .. } = &self.credentials {
            query.append_pair("project_id", &project_id.to_string());
        }
        drop(query);
        url
    }
}

#[async_trait::async_trait]
impl Export for MixpanelExport {
    fn source(&self) -> String {
        let project = match &self.credentials {
            MixpanelCredentials::ServiceAccount { project_id, .. } => project_id.to_string(),
            // The secret identifies the project; its hash does not reveal it.
            MixpanelCredentials::ProjectSecret(secret) => {
                format!("of secret {:016x}", xxh3_64(secret.as_bytes()))
            }
        };
        format!("Mixpanel at {}, project {project}", self.url)
    }

    fn parts(&self) -> Vec<Part> {
        let formats = TimeFormats {
            request: "%Y-%m-%d",
            name: "%Y-%m-%d",
        };
        self.days.parts("mixpanel", "ndjson.gz", formats)
    }

    fn parallel(&self) -> usize {
        4
    }

    async fn fetch(
        &self,
        transfer: &Transfer,
        part: &Part,
        _begun_bytes: u64,
        into: &mut (dyn Write + Send),
    ) -> Result<(), FetchError> {
        self.limiter.acquire().await;
        let credentials = match &self.credentials {
            MixpanelCredentials::ServiceAccount {
                username, secret, ..
            } => (&**username, &**secret),
            MixpanelCredentials::ProjectSecret(secret) => (&**secret, ""),
        };
        let (user, password) = credentials;
        let request = transfer
            .http
            .get(self.part_url(part))
            .basic_auth(user, Some(password))
            .header(ACCEPT_ENCODING, "gzip");
        let response = send(transfer, request).await?;
        if response.status() != StatusCode::OK {
            return Err(refused(transfer, response, "Check the days and the project.").await);
        }
        let encoding = response.headers().get(CONTENT_ENCODING);
        let is_compressed = encoding.is_some_and(|encoding| encoding == "gzip");
        let mut lines = GzipLines::new(into, is_compressed);
        receive(transfer, response, |bytes| lines.write(bytes)).await?;
        lines.finish()
    }
}
