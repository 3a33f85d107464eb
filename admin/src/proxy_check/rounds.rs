//! The checks of proxy records, again and again, beside the API.

use super::{HttpsProbe, Progress, check};
use crate::dns::Dns;
use crate::services::Services;
use futures_util::future::join_all;
use millrace_catalog::{Catalog, CatalogError, ProxyRecord, ProxyStatus};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_rustls::rustls::Error as TlsError;

/// How often it is looked which records are due.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Checks at a time. So many are claimed at once; the slowest ends long before its claim does.
const CHECKS_MAX: u64 = 16;

/// Checks the records of all organizations.
pub struct ProxyRounds {
    catalog: Catalog,
    dns: Dns,
    probe: HttpsProbe,
}

impl ProxyRounds {
    /// Reads the system's certificate authorities.
    ///
    /// # Errors
    ///
    /// The authority of the probe's options is no certificate.
    pub fn new(services: &Services) -> Result<Self, TlsError> {
        Ok(Self {
            catalog: services.catalog.clone(),
            dns: services.dns.clone(),
            probe: HttpsProbe::new(&services.probe)?,
        })
    }

    /// Makes round after round. Dropped at any point, it leaves claims behind that lapse.
    pub async fn run(self) -> Infallible {
        let mut every = tokio::time::interval(LOOK_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            if let Err(error) = self.round().await {
                tracing::warn!(%error, "cannot look which proxy records are due");
            }
        }
    }

    /// Checks all records that are due, and those that become due meanwhile.
    ///
    /// # Errors
    ///
    /// What the database says. A single check that comes to nothing is in the log only: its record
    /// is due again when its claim lapses.
    pub async fn round(&self) -> Result<(), CatalogError> {
        loop {
            let due = self.catalog.claim_due_proxy_records(CHECKS_MAX).await?;
            if due.is_empty() {
                return Ok(());
            }
            join_all(due.into_iter().map(|record| self.look_at(record))).await;
        }
    }

    async fn look_at(&self, record: ProxyRecord) {
        let ProxyRecord {
            id,
            domain,
            target_cname,
            ..
        } = record;
        let found = match check(&self.dns, &self.probe, &domain, &target_cname).await {
            Ok(found) => found,
            Err(error) => {
                tracing::info!(%id, %error, "a proxy record could not be checked");
                return;
            }
        };
        let status = match found.progress {
            Progress::Waiting => ProxyStatus::Waiting,
            Progress::Issuing => ProxyStatus::Issuing,
            Progress::Valid => ProxyStatus::Valid,
        };
        let kept = self.catalog.record_proxy_check(id, status, found.message);
        if let Err(error) = kept.await {
            tracing::warn!(%id, %error, "what a check of a proxy record found is lost");
        }
    }
}
