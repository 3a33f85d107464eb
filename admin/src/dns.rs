//! DNS lookups: the TXT proof of a domain, CNAME aliases, addresses.
//!
//! Nothing is cached here, as people correct their records and ask again; the nameserver caches.
//! Names are always absolute: no search list of the machine applies.

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, RecordType};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use thiserror::Error;
use tokio::time::timeout;

/// Label of the TXT record that proves a domain.
const CHALLENGE_LABEL: &str = "_millrace-challenge";
/// Longest wait for an answer before the query is sent again.
const TRY_TIMEOUT: Duration = Duration::from_secs(2);
/// Number of times that a query is sent again.
const RETRIES: usize = 2;

/// Failure to get an answer. That a name or record does not exist is an answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DnsError {
    /// Neither the option nor the system names a nameserver.
    #[error("no nameserver is known: {0}")]
    NoNameserver(String),
    /// The nameserver cannot be reached or reports a failure of its own.
    #[error("the nameserver did not answer: {0}")]
    Failed(String),
    /// Every try took too long.
    #[error("the nameserver did not answer in time")]
    TimedOut,
}

/// Result of looking for the TXT record that proves a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A record equals the challenge.
    Found,
    /// There are records, but none equals the challenge.
    Different,
    /// There is no record.
    Missing,
}

/// DNS client of one nameserver, or of the system's.
#[derive(Clone, Debug)]
pub struct Dns {
    resolver: Result<TokioResolver, DnsError>,
    deadline: Duration,
}

impl Dns {
    /// Creates a client of `nameserver`, or of the system's.
    #[must_use]
    pub fn new(nameserver: Option<SocketAddr>) -> Self {
        Self::with_timeout(nameserver, TRY_TIMEOUT)
    }

    /// Creates a client with another timeout for each try.
    #[must_use]
    pub fn with_timeout(nameserver: Option<SocketAddr>, try_timeout: Duration) -> Self {
        let resolver = resolver(nameserver, try_timeout);
        Self {
            resolver: resolver.map_err(|error| DnsError::NoNameserver(error.to_string())),
            // Time for the tries by UDP, and for one by TCP when an answer is too long for UDP.
            deadline: try_timeout * 4,
        }
    }

    /// Looks for the TXT record that proves `domain` by equalling `challenge`. `domain` is in the
    /// form that [`domain_name::normalized`](crate::domain_name::normalized) gives. The strings of
    /// a record are joined, as providers split them where they like.
    ///
    /// # Errors
    ///
    /// The nameserver gave no answer.
    pub async fn proof(&self, domain: &str, challenge: &str) -> Result<Proof, DnsError> {
        let name = format!("{CHALLENGE_LABEL}.{domain}");
        let records = self.lookup(&name, RecordType::TXT, |data| match data {
            RData::TXT(text) => Some(text.txt_data.concat()),
            _ => None,
        });
        let records = records.await?;
        Ok(if records.is_empty() {
            Proof::Missing
        } else if records.iter().any(|record| record == challenge.as_bytes()) {
            Proof::Found
        } else {
            Proof::Different
        })
    }

    /// Target of the CNAME record of `domain`, if there is one; lower case, no dot at the end.
    ///
    /// # Errors
    ///
    /// The nameserver gave no answer.
    pub async fn alias(&self, domain: &str) -> Result<Option<String>, DnsError> {
        let targets = self.lookup(domain, RecordType::CNAME, |data| match data {
            RData::CNAME(target) => Some(target.0.to_ascii()),
            _ => None,
        });
        let target = targets.await?.into_iter().next();
        Ok(target.map(|name| name.trim_end_matches('.').to_ascii_lowercase()))
    }

    /// Addresses of `domain`, IPv4 first.
    ///
    /// # Errors
    ///
    /// The nameserver gave no answer.
    pub async fn addresses(&self, domain: &str) -> Result<Vec<IpAddr>, DnsError> {
        let of = |data: &RData| data.ip_addr();
        let mut addresses = self.lookup(domain, RecordType::A, of).await?;
        addresses.extend(self.lookup(domain, RecordType::AAAA, of).await?);
        Ok(addresses)
    }

    /// Looks up the records of one type and maps them by `pick`; aliases are followed.
    async fn lookup<T>(
        &self,
        domain: &str,
        kind: RecordType,
        pick: impl Fn(&RData) -> Option<T>,
    ) -> Result<Vec<T>, DnsError> {
        let resolver = self.resolver.as_ref().map_err(Clone::clone)?;
        let asked = resolver.lookup(format!("{domain}."), kind);
        match timeout(self.deadline, asked).await {
            Ok(Ok(found)) => {
                let records = found.answers().iter();
                Ok(records.filter_map(|record| pick(&record.data)).collect())
            }
            Ok(Err(error)) if error.is_no_records_found() => Ok(Vec::new()),
            Ok(Err(NetError::Timeout)) | Err(_) => Err(DnsError::TimedOut),
            Ok(Err(error)) => Err(DnsError::Failed(error.to_string())),
        }
    }
}

fn resolver(
    nameserver: Option<SocketAddr>,
    try_timeout: Duration,
) -> Result<TokioResolver, NetError> {
    let mut builder = match nameserver {
        None => TokioResolver::builder_tokio()?,
        Some(address) => {
            let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
            let connections = connections.map(|mut connection| {
                connection.port = address.port();
                connection
            });
            let server = NameServerConfig::new(address.ip(), true, connections.into());
            let config = ResolverConfig::from_name_servers(vec![server]);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        }
    };
    let options: &mut ResolverOpts = builder.options_mut();
    options.timeout = try_timeout;
    options.attempts = RETRIES;
    options.cache_size = 0;
    builder.build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::UdpSocket;

    #[test]
    fn a_lookup_is_given_up_after_eight_seconds() {
        let dns = Dns::new(Some(([127, 0, 0, 1], 53).into()));
        assert_eq!((TRY_TIMEOUT.as_secs(), RETRIES), (2, 2));
        assert_eq!(dns.deadline.as_secs(), 8);
    }

    #[tokio::test]
    async fn a_nameserver_that_does_not_answer_is_asked_three_times_at_most() {
        let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let dns = Dns::with_timeout(silent.local_addr().ok(), Duration::from_millis(50));
        let answer = dns.proof("silent.example", "x").await;
        assert_eq!(answer, Err(DnsError::TimedOut));
        let (mut asked, mut question) = (0, [0; 512]);
        while silent.try_recv_from(&mut question).is_ok() {
            asked += 1;
        }
        assert!((1..=3).contains(&asked), "{asked}");
    }
}
