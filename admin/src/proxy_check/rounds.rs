//! The checks of proxy records, again and again, beside the API.

use super::{HttpsProbe, Progress, check};
use crate::dns::Dns;
use crate::services::Services;
use futures_util::{TryStreamExt, stream};
use millrace_catalog::{Catalog, CatalogError, ProxyRecord, ProxyStatus};
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_rustls::rustls::Error as TlsError;

/// How often it is looked which records are due.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Checks at a time. Each begins as soon as it is claimed, so the slowest ends long before its
/// claim does.
const CHECKS_MAX: usize = 16;
/// What a record says that could not be checked. Whether the domain's nameservers or ours are the
/// cause cannot be told, and what differs from try to try would fill the log of activities.
const UNANSWERED: &str = "The nameserver gave no answer about this domain. If that goes on, see \
                          that the nameservers of the domain answer.";

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

    /// Checks all records that are due. As soon as one is done the next begins, so that slow ones
    /// hold up few.
    ///
    /// # Errors
    ///
    /// What the database says; what was being checked then is due again when its claim lapses. What
    /// is found and cannot be kept is in the log only.
    pub async fn round(&self) -> Result<(), CatalogError> {
        // Claims and checks run side by side: either may wait for what the other has locked.
        let due = stream::try_unfold((), |()| async {
            let claimed = self.catalog.claim_due_proxy_records(1).await?.pop();
            Ok(claimed.map(|record| (record, ())))
        });
        due.try_for_each_concurrent(CHECKS_MAX, |record| async {
            self.look_at(record).await;
            Ok(())
        })
        .await
    }

    async fn look_at(&self, record: ProxyRecord) {
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
