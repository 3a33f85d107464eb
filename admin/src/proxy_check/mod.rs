//! How far a reverse proxy's domain is: the alias first, then HTTPS through it.
//!
//! | Module | Holds |
//! |---|---|
//! | `probe` | [`HttpsProbe`]: one HTTPS request with a certificate that is checked |
//! | `rounds` | [`ProxyRounds`]: all records, again and again |

mod probe;
mod rounds;

pub use probe::{HttpsProbe, ProbeError, ProbeOptions};
pub use rounds::ProxyRounds;

use crate::dns::{Dns, DnsError};

/// How far a domain is. Each includes the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Progress {
    /// Its alias is missing or leads elsewhere.
    Waiting,
    /// The alias is right; HTTPS does not work yet.
    Issuing,
    /// HTTPS answers with a certificate for the domain.
    Valid,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyCheck {
    /// How far it is.
    pub progress: Progress,
    /// What is missing and what to do; nothing once all is well.
    pub message: Option<String>,
}

/// Looks how far `domain` is on its way to being an alias of `target` that answers HTTPS. Both are
/// in the form that [`domain_name::normalized`](crate::domain_name::normalized) gives.
///
/// # Errors
///
/// The nameserver does not answer, so nothing is known.
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
        Some(_) => Ok(through(dns, probe, domain).await),
    }
}

async fn through(dns: &Dns, probe: &HttpsProbe, domain: &str) -> ProxyCheck {
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
