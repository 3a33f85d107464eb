//! Worker that checks proxy records periodically, beside the API.

use super::{HttpsProbe, Progress, check};
use crate::dns::Dns;
use crate::services::Services;
use futures_util::{TryStreamExt, stream};
use millrace_catalog::{Catalog, CatalogError, ProxyRecord, ProxyStatus};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_rustls::rustls::Error as TlsError;

/// Interval at which due records are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Most checks at a time. Each begins as soon as its record is claimed, so the slowest ends long
/// before its claim lapses.
const CHECKS_MAX: usize = 16;
/// Message of a record that could not be checked. It is always the same, as texts that differ
/// from try to try would fill the activity log. The cause may be the domain's nameservers or ours.
const UNANSWERED: &str = "The nameserver gave no answer about this domain. If that goes on, see \
                          that the nameservers of the domain answer.";

/// Checks the records of all organizations.
pub struct ProxyCheckWorker {
    catalog: Catalog,
    dns: Dns,
    probe: HttpsProbe,
}

impl ProxyCheckWorker {
    /// Creates a worker; reads the system's certificate authorities.
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

    /// Checks due records until it is dropped. Claims that it leaves behind lapse.
    pub async fn run(self) -> Infallible {
        let mut every = tokio::time::interval(LOOK_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            if let Err(error) = self.check_due().await {
                tracing::warn!(%error, "cannot look which proxy records are due");
            }
        }
    }

    /// Checks all records that are due. As soon as one check is done the next begins, so that slow
    /// ones delay few others.
    ///
    /// # Errors
    ///
    /// The catalog failed; records that were being checked are due again when their claims lapse. A
    /// result that cannot be kept is only logged.
    pub async fn check_due(&self) -> Result<(), CatalogError> {
        // Claims and checks run concurrently: either may wait for rows that the other has locked.
        let due = stream::try_unfold((), |()| async {
            let claimed = self.catalog.claim_due_proxy_records(1).await?.pop();
            Ok(claimed.map(|record| (record, ())))
        });
        due.try_for_each_concurrent(CHECKS_MAX, |record| async {
            self.check(record).await;
            Ok(())
        })
        .await
    }

    async fn check(&self, record: ProxyRecord) {
        let ProxyRecord {
            id,
            domain,
            target_cname,
            ..
        } = record;
        let (status, message) = match check(&self.dns, &self.probe, &domain, &target_cname).await {
            Ok(found) => (Some(status(found.progress)), found.message),
            Err(error) => {
                tracing::info!(%id, %error, "a proxy record could not be checked");
                (None, Some(UNANSWERED.to_owned()))
            }
        };
        let kept = self.catalog.record_proxy_check(id, status, message);
        if let Err(error) = kept.await {
            tracing::warn!(%id, %error, "what a check of a proxy record found is lost");
        }
    }
}

fn status(progress: Progress) -> ProxyStatus {
    match progress {
        Progress::Waiting => ProxyStatus::Waiting,
        Progress::Issuing => ProxyStatus::Issuing,
        Progress::Valid => ProxyStatus::Valid,
    }
}
