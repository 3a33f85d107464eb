//! Worker that checks proxy records periodically, beside the API.
//!
//! A check reads what servers of strangers answer, so each has a task of its own: a panic in it is
//! an unanswered check. One of the worker itself ends the API, as nobody would check any more.

use super::{HttpsProbe, Progress, ProxyCheck, check};
use crate::dns::DnsError;
use crate::services::Services;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::{TryStreamExt, stream};
use millrace_catalog::{Catalog, CatalogError, ProxyRecord, ProxyStatus};
use millrace_organizations::ProxyRecords;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_rustls::rustls::Error as TlsError;
use tokio_util::task::AbortOnDropHandle;

/// Interval at which due records are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Most checks at a time. Each begins as soon as its record is claimed, so the slowest ends long
/// before its claim lapses.
const CHECKS_MAX: usize = 16;
/// Message of a record that could not be checked. It is always the same, as texts that differ
/// from try to try would fill the activity log. The cause may be the domain's nameservers or ours.
const UNANSWERED: &str = "The nameserver gave no answer about this domain. If that goes on, check \
                          that the nameservers of the domain answer.";

/// Check of a domain, and of the target that its CNAME record should have.
type Checker =
    Box<dyn Fn(String, String) -> BoxFuture<'static, Result<ProxyCheck, DnsError>> + Send + Sync>;

/// Checks the records of all organizations.
pub struct ProxyCheckWorker {
    catalog: Catalog,
    checker: Checker,
}

impl ProxyCheckWorker {
    /// Creates a worker; reads the system's certificate authorities.
    ///
    /// # Errors
    ///
    /// The authority of the probe's options is no certificate.
    pub fn new(services: &Services) -> Result<Self, TlsError> {
        let (dns, probe) = (services.dns.clone(), HttpsProbe::new(&services.probe)?);
        let checker = move |domain: String, target: String| {
            let (dns, probe) = (dns.clone(), probe.clone());
            async move { check(&dns, &probe, &domain, &target).await }.boxed()
        };
        Ok(Self {
            catalog: services.catalog.clone(),
            checker: Box::new(checker),
        })
    }

    /// Checks due records until it is dropped. Claims that it leaves behind lapse.
    pub async fn run(self) -> Infallible {
        let mut every = tokio::time::interval(LOOK_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            if let Err(error) = self.check_due().await {
                tracing::warn!(%error, "cannot read which proxy records are due");
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
            let claimed = ProxyRecords::new(&self.catalog).claim_due(1).await?.pop();
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
        let checking = AbortOnDropHandle::new(tokio::spawn((self.checker)(domain, target_cname)));
        let (status, message) = match checking.await {
            Ok(Ok(found)) => (Some(status(found.progress)), found.message),
            Ok(Err(error)) => {
                tracing::info!(%id, %error, "a proxy record could not be checked");
                (None, Some(UNANSWERED.to_owned()))
            }
            Err(error) => {
                tracing::error!(%id, %error, "the check of a proxy record failed by a bug");
                (None, Some(UNANSWERED.to_owned()))
            }
        };
        let kept = ProxyRecords::new(&self.catalog).record_check(id, status, message);
        if let Err(error) = kept.await {
            tracing::warn!(%id, %error, "the result of a check of a proxy record is lost");
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

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_catalog::Actor;
    use millrace_catalog::testing::{DatabaseKind, TestDatabase};
    use millrace_organizations::{BootstrapOptions, bootstrap};

    #[tokio::test]
    async fn a_check_that_panics_is_unanswered_and_the_others_are_made() {
        let database = TestDatabase::of(DatabaseKind::Sqlite).await;
        let catalog = Catalog::open(database.url()).await.unwrap();
        let made = bootstrap(&catalog, BootstrapOptions::default()).await;
        let organization_id = made.unwrap().unwrap().organization_id;
        let actor = Actor::system();
        let worker = ProxyCheckWorker {
            catalog: catalog.clone(),
            checker: Box::new(|domain, _| {
                async move {
                    assert_ne!(domain, "bad.example", "a mistake of ours");
                    let progress = Progress::Valid;
                    let message = None;
                    Ok(ProxyCheck { progress, message })
                }
                .boxed()
            }),
        };
        let mut records = Vec::new();
        for domain in ["good.example", "bad.example", "another.example"] {
            let created = ProxyRecords::new(&catalog).create(
                &actor,
                organization_id,
                domain,
                "proxy.example",
            );
            records.push(created.await.unwrap().record);
        }
        worker.check_due().await.unwrap();
        for created in records {
            let found = ProxyRecords::new(&catalog)
                .get(organization_id, created.id)
                .await;
            let found = found.unwrap().unwrap().record;
            let (status, message) = match found.domain.as_str() {
                "bad.example" => (created.status, Some(UNANSWERED.to_owned())),
                _ => (ProxyStatus::Valid, None),
            };
            assert_eq!((found.status, found.message), (status, message));
            assert!(found.check_at > created.check_at, "it is tried again later");
        }
    }
}
