//! A nameserver (dnslib) with a zone of the test's.

use super::PythonServer;
use millrace_admin::dns::Dns;
use std::net::SocketAddr;
use std::time::Duration;

/// A running nameserver.
pub struct DnsServer {
    server: PythonServer,
}

impl DnsServer {
    /// Serves these lines of a zone file; `dns.py` says which names are special.
    pub async fn start(zone: &str) -> Self {
        Self {
            server: PythonServer::start("dns.py", &[zone]).await,
        }
    }

    /// Adds a record, in the format of zone files.
    pub async fn add(&mut self, record: &str) {
        assert_eq!(self.server.tell(record).await, "added");
    }

    /// What `dns_nameserver` takes.
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.server.port).into()
    }

    /// Asks it, with the usual patience.
    pub fn client(&self) -> Dns {
        Dns::new(Some(self.address()))
    }

    /// Asks it without much patience, to see what silence comes to.
    pub fn impatient_client(&self) -> Dns {
        Dns::with_timeout(Some(self.address()), Duration::from_millis(20))
    }
}
