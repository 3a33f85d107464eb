//! Amplitude's export API: some hours at a time, as a zip of compressed lines.
//!
//! Hours are those in which Amplitude received the events. One response has 4 GB at most.

use super::range::{ExportRange, RangeUnit, TimeFormats};
use super::rate_limit::{RateLimit, RateLimiter};
use super::zip::ZipValidator;
use super::{ExportSettingsError, base_url, receive, refused, send, with_path};
use crate::{Export, FetchError, Part, Transfer};
use reqwest::{StatusCode, Url};
use std::fmt;
use std::io::Write;

/// Settings of an export from Amplitude.
#[derive(Clone)]
pub struct AmplitudeSettings {
    /// URL of the service, such as [`AmplitudeExport::URL_US`].
    pub url: String,
    /// API key of the project.
    pub api_key: String,
    /// Secret key of the project.
    pub secret_key: String,
    /// First day, `YYYY-MM-DD`, in UTC.
    pub from: String,
    /// Last day, `YYYY-MM-DD`, in UTC.
    pub until: String,
    /// Hours of a part: more mean fewer requests, of which the largest may be refused.
    pub hours_per_part: u32,
    /// Most requests in a second and in an hour.
    pub rate_limit: RateLimit,
}

impl fmt::Debug for AmplitudeSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "AmplitudeSettings({}, {} to {})",
            self.url, self.from, self.until
        )
    }
}

/// Export from Amplitude.
pub struct AmplitudeExport {
    url: Url,
    api_key: String,
    secret_key: String,
    hours: ExportRange,
    limiter: RateLimiter,
}

impl AmplitudeExport {
    /// URL for projects whose data is in the United States.
    pub const URL_US: &str = "https://amplitude.com";
    /// URL for projects whose data is in the European Union.
    pub const URL_EU: &str = "https://analytics.eu.amplitude.com";
    /// Default rate limit, below what the service allows, as more gains nothing.
    pub const RATE_LIMIT: RateLimit = RateLimit {
        per_second: 4,
        per_hour: 4 * 3_600,
    };

    /// Creates an export.
    ///
    /// # Errors
    /// A setting is invalid.
    pub fn new(settings: AmplitudeSettings) -> Result<Self, ExportSettingsError> {
        let (from, until) = (&settings.from, &settings.until);
        Ok(Self {
            hours: ExportRange::new(from, until, RangeUnit::Hour, settings.hours_per_part)?,
            url: base_url(&settings.url)?,
            api_key: settings.api_key,
            secret_key: settings.secret_key,
            limiter: RateLimiter::new(settings.rate_limit),
        })
    }
}

#[async_trait::async_trait]
impl Export for AmplitudeExport {
    fn source(&self) -> String {
        format!("Amplitude at {}, API key {}", self.url, self.api_key)
    }

    fn parts(&self) -> Vec<Part> {
        let formats = TimeFormats {
            request: "%Y%m%dT%H",
            name: "%Y-%m-%dT%H",
        };
        self.hours.parts("amplitude", "zip", formats)
    }

    fn parallel(&self) -> usize {
        2
    }

    async fn fetch(
        &self,
        transfer: &Transfer,
        part: &Part,
        _begun_bytes: u64,
        into: &mut (dyn Write + Send),
    ) -> Result<(), FetchError> {
        self.limiter.acquire().await;
        let mut url = with_path(&self.url, "/api/2/export");
        url.query_pairs_mut()
            .append_pair("start", &part.from)
            .append_pair("end", &part.until);
        let request = transfer
            .http
            .get(url)
            .basic_auth(&self.api_key, Some(&self.secret_key));
        let response = send(transfer, request).await?;
        match response.status() {
            StatusCode::OK => {}
            // Nothing was received in these hours.
            StatusCode::NOT_FOUND => return Ok(()),
            StatusCode::BAD_REQUEST => {
                let hint = "If the part has more than 4 GB, fetch fewer hours in a part; an hour \
                            of more than 4 GB can only be had by Amplitude's export to S3.";
                return Err(refused(transfer, response, hint).await);
            }
            _ => return Err(refused(transfer, response, "Check the hours and the project.").await),
        }
        let mut archive = ZipValidator::new(into);
        receive(transfer, response, |bytes| archive.write(bytes)).await?;
        archive.finish()
    }
}
