//! Mixpanel's raw export API: some days at a time, as compressed lines.
//!
//! It lets itself be asked 60 times an hour and three times a second.

use super::gzip::Lines;
use super::pace::{Gate, Pace};
use super::range::{Range, Unit, Writing};
use super::{ExportSettingsError, ask, base_url, below, receive, refused};
use crate::{Export, FetchError, Part, Transfer};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use reqwest::{StatusCode, Url};
use std::fmt;
use std::io::Write;
use xxhash_rust::xxh3::xxh3_64;

/// What is asked for, and where.
#[derive(Clone, Debug)]
pub struct MixpanelSettings {
    /// The service, such as [`MixpanelExport::URL_US`].
    pub url: String,
    /// Who asks.
    pub credentials: MixpanelCredentials,
    /// The first day, `YYYY-MM-DD`: in UTC, or in the project's zone if it was made before 2023.
    pub from: String,
    /// The last day.
    pub until: String,
    /// Days of a part: more spend fewer of the hour's requests, and lose more when a transfer breaks off.
    pub days_per_part: u32,
    /// How often the service is asked.
    pub pace: Pace,
}

/// Who asks.
#[derive(Clone)]
pub enum MixpanelCredentials {
    /// A service account, which may read several projects.
    ServiceAccount {
        /// Its name.
        username: String,
        /// Its secret.
        secret: String,
        /// The project to be read.
        project_id: u64,
    },
    /// The project's own secret.
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

/// The API.
#[derive(Debug)]
pub struct MixpanelExport {
    url: Url,
    credentials: MixpanelCredentials,
    days: Range,
    gate: Gate,
}

impl MixpanelExport {
    /// Projects whose data is in the United States.
    pub const URL_US: &str = "https://data.mixpanel.com";
    /// Projects whose data is in the European Union.
    pub const URL_EU: &str = "https://data-eu.mixpanel.com";
    /// Projects whose data is in India.
    pub const URL_IN: &str = "https://data-in.mixpanel.com";
    /// What the service allows.
    pub const PACE: Pace = Pace {
        per_second: 3,
        per_hour: 60,
    };

    /// An export by its settings.
    ///
    /// # Errors
    /// When a setting cannot be had.
    pub fn new(settings: MixpanelSettings) -> Result<Self, ExportSettingsError> {
        let (from, until) = (&settings.from, &settings.until);
        Ok(Self {
            days: Range::new(from, until, Unit::Day, settings.days_per_part)?,
            url: base_url(&settings.url)?,
            credentials: settings.credentials,
            gate: Gate::new(settings.pace),
        })
    }

    fn part_url(&self, part: &Part) -> Url {
        let mut url = below(&self.url, "/api/2.0/export");
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
            // A secret is a project's, and longer than can be guessed.
            MixpanelCredentials::ProjectSecret(secret) => {
                format!("of secret {:016x}", xxh3_64(secret.as_bytes()))
            }
        };
        format!("Mixpanel at {}, project {project}", self.url)
    }

    fn parts(&self) -> Vec<Part> {
        let writing = Writing {
            request: "%Y-%m-%d",
            name: "%Y-%m-%d",
        };
        self.days.parts("mixpanel", "ndjson.gz", writing)
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
        self.gate.pass().await;
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
        let response = ask(transfer, request).await?;
        if response.status() != StatusCode::OK {
            return Err(refused(transfer, response, "Check the days and the project.").await);
        }
        let encoding = response.headers().get(CONTENT_ENCODING);
        let is_compressed = encoding.is_some_and(|encoding| encoding == "gzip");
        let mut lines = Lines::new(into, is_compressed);
        receive(transfer, response, |bytes| lines.take(bytes)).await?;
        lines.finish()
    }
}
