//! Amplitude's export API: some hours at a time, as a zip of compressed lines.
//!
//! Hours are those in which Amplitude received the events. One answer has 4 GB at most.

use super::pace::{Gate, Pace};
use super::range::{Range, Unit, Writing};
use super::zip::Archive;
use super::{ExportSettingsError, ask, base_url, below, receive, refused};
use crate::{Export, FetchError, Part, Transfer};
use reqwest::{StatusCode, Url};
use std::fmt;
use std::io::Write;

/// What is asked for, and where.
#[derive(Clone)]
pub struct AmplitudeSettings {
    /// The service, such as [`AmplitudeExport::URL_US`].
    pub url: String,
    /// The project's key.
    pub api_key: String,
    /// The project's secret.
    pub secret_key: String,
    /// The first day, `YYYY-MM-DD`, in UTC.
    pub from: String,
    /// The last day.
    pub until: String,
    /// Hours of a part: more are fewer requests, of which the largest may be refused.
    pub hours_per_part: u32,
    /// How often the service is asked.
    pub pace: Pace,
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

/// The API.
pub struct AmplitudeExport {
    url: Url,
    api_key: String,
    secret_key: String,
    hours: Range,
    gate: Gate,
}

impl AmplitudeExport {
    /// Projects whose data is in the United States.
    pub const URL_US: &str = "https://amplitude.com";
    /// Projects whose data is in the European Union.
    pub const URL_EU: &str = "https://analytics.eu.amplitude.com";
    /// Slower than the service allows, as nothing is gained by more.
    pub const PACE: Pace = Pace {
        per_second: 4,
        per_hour: 4 * 3_600,
    };

    /// An export by its settings.
    ///
    /// # Errors
    /// When a setting cannot be had.
    pub fn new(settings: AmplitudeSettings) -> Result<Self, ExportSettingsError> {
        let (from, until) = (&settings.from, &settings.until);
        Ok(Self {
            hours: Range::new(from, until, Unit::Hour, settings.hours_per_part)?,
            url: base_url(&settings.url)?,
            api_key: settings.api_key,
            secret_key: settings.secret_key,
            gate: Gate::new(settings.pace),
        })
    }
}

#[async_trait::async_trait]
impl Export for AmplitudeExport {
    fn source(&self) -> String {
        format!("Amplitude at {}, API key {}", self.url, self.api_key)
    }

    fn parts(&self) -> Vec<Part> {
        let writing = Writing {
            request: "%Y%m%dT%H",
            name: "%Y-%m-%dT%H",
        };
        self.hours.parts("amplitude", "zip", writing)
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
        self.gate.pass().await;
        let mut url = below(&self.url, "/api/2/export");
        url.query_pairs_mut()
            .append_pair("start", &part.from)
            .append_pair("end", &part.until);
        let request = transfer
            .http
            .get(url)
            .basic_auth(&self.api_key, Some(&self.secret_key));
        let response = ask(transfer, request).await?;
        match response.status() {
            StatusCode::OK => {}
            // Nothing was received in these hours.
            StatusCode::NOT_FOUND => return Ok(()),
            StatusCode::BAD_REQUEST => {
                let hint = "If the part has more than 4 GB, take fewer hours for one; an hour that has more is only \
                            to be had by Amplitude's export to S3.";
                return Err(refused(transfer, response, hint).await);
            }
            _ => return Err(refused(transfer, response, "Check the hours and the project.").await),
        }
        let mut archive = Archive::new(into);
        receive(transfer, response, |bytes| archive.take(bytes)).await?;
        archive.finish()
    }
}
