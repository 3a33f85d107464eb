//! Checks of the domains of managed reverse proxies: first the CNAME record, then HTTPS.
//!
//! | Module | Holds |
//! |---|---|
//! | `probe` | [`HttpsProbe`]: an HTTPS request that validates the certificate |
//! | `worker` | [`ProxyCheckWorker`]: checks all records periodically |

mod probe;
mod worker;

pub use probe::{HttpsProbe, ProbeError, ProbeOptions};
pub use worker::ProxyCheckWorker;

use crate::dns::{Dns, DnsError};

/// Progress of a domain. Each state includes the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// The CNAME record is missing or leads elsewhere.
    Waiting,
    /// The CNAME record is right; HTTPS does not work yet.
    Issuing,
    /// HTTPS works, with a certificate for the domain.
    Valid,
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyCheck {
    /// Progress of the domain.
    pub progress: Progress,
    /// Missing step and how to do it; `None` once everything works.
    pub message: Option<String>,
}

/// Checks that `domain` is an alias of `target` and answers HTTPS. Both are in the form that
/// [`domain_name::normalized`](crate::domain_name::normalized) gives.
///
/// # Errors
///
/// The nameserver does not answer, so the progress is unknown.
pub async fn check(
    dns: &Dns,
    probe: &HttpsProbe,
    domain: &str,
    target: &str,
) -> Result<ProxyCheck, DnsError> {
    let waiting = |message| ProxyCheck {
        progress: Progress::Waiting,
        message: Some(message),
    };
    match dns.alias(domain).await? {
        None => Ok(waiting(format!(
            "{domain} has no CNAME record; add one that leads to {target}."
        ))),
        Some(found) if found != target => Ok(waiting(format!(
            "The CNAME record of {domain} leads to {found}; let it lead to {target}."
        ))),
        Some(_) => Ok(check_https(dns, probe, domain).await),
    }
}

async fn check_https(dns: &Dns, probe: &HttpsProbe, domain: &str) -> ProxyCheck {
    match probe.status(dns, domain).await {
        Ok(_) => ProxyCheck {
            progress: Progress::Valid,
            message: None,
        },
        Err(error) => ProxyCheck {
            progress: Progress::Issuing,
            message: Some(format!(
                "The CNAME record is right; https://{domain}/ does not work yet: {error}."
            )),
        },
    }
}
