//! Amplitude's export API: some hours at a time, as a zip of compressed lines.
//!
//! Hours are those in which Amplitude received the events. One answer has 4 GB at most.

use super::pace::{Gate, Pace};
use super::zip::Archive;
use super::{ExportSettingsError, ask, base_url, below, days, receive, refused};
use crate::{Export, FetchError, Part};
use jiff::ToSpan as _;
use jiff::civil::DateTime;
use reqwest::{Client, StatusCode, Url};
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
    first: DateTime,
    end: DateTime,
    hours_per_part: u32,
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
        let (first, last) = days(&settings.from, &settings.until)?;
        if settings.hours_per_part == 0 {
            return Err(ExportSettingsError::EmptyParts);
        }
        Ok(Self {
            url: base_url(&settings.url)?,
            api_key: settings.api_key,
            secret_key: settings.secret_key,
            first: first.at(0, 0, 0, 0),
            end: last.at(23, 0, 0, 0),
            hours_per_part: settings.hours_per_part,
            gate: Gate::new(settings.pace),
        })
    }
}

/// An hour as the API writes it.
fn hour(at: DateTime) -> String {
    at.strftime("%Y%m%dT%H").to_string()
}

#[async_trait::async_trait]
impl Export for AmplitudeExport {
    fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut from = self.first;
        while from <= self.end {
            let until = from
                .saturating_add((i64::from(self.hours_per_part) - 1).hours())
                .min(self.end);
            let name = |at: DateTime| at.strftime("%Y-%m-%dT%H").to_string();
            let hours = if from == until {
                name(from)
            } else {
                format!("{}--{}", name(from), name(until))
            };
            parts.push(Part {
                name: format!("amplitude-{hours}.zip"),
                from: hour(from),
                until: hour(until),
            });
            match until.checked_add(1.hour()) {
                Ok(next) => from = next,
                Err(_) => break,
            }
        }
        parts
    }

    fn parallel(&self) -> usize {
        2
    }

    async fn fetch(
        &self,
        http: &Client,
        part: &Part,
        into: &mut (dyn Write + Send),
    ) -> Result<(), FetchError> {
        self.gate.pass().await;
        let mut url = below(&self.url, "/api/2/export");
        url.query_pairs_mut()
            .append_pair("start", &part.from)
            .append_pair("end", &part.until);
        let request = http
            .get(url)
            .basic_auth(&self.api_key, Some(&self.secret_key));
        let response = ask(request).await?;
        match response.status() {
            StatusCode::OK => {}
            // Nothing was received in these hours.
            StatusCode::NOT_FOUND => return Ok(()),
            StatusCode::BAD_REQUEST => {
                let hint = "If the part has more than 4 GB, take fewer hours for one; an hour that has more is only \
                            to be had by Amplitude's export to S3.";
                return Err(refused(response, hint).await);
            }
            _ => return Err(refused(response, "Check the hours and the project.").await),
        }
        let mut archive = Archive::new(into);
        receive(response, |bytes| archive.take(bytes)).await?;
        archive.finish()
    }
}
