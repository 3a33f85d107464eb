//! Nameserver (dnslib) with a zone that the test gives.

use super::PythonServer;
use millrace_admin::dns::Dns;
use std::net::SocketAddr;
use std::time::Duration;

/// A running nameserver.
pub struct DnsServer {
    server: PythonServer,
}

impl DnsServer {
    /// Starts a nameserver with these lines of a zone file; `dns.py` says which names are special.
    pub async fn start(zone: &str) -> Self {
        Self {
            server: PythonServer::start("dns.py", &[zone]).await,
        }
    }

    /// Adds a record, in the format of zone files.
    pub async fn add(&mut self, record: &str) {
        assert_eq!(self.server.tell(record).await, "added");
    }

    /// Address of the nameserver.
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.server.port).into()
    }

    /// Client of this nameserver, with the default timeout.
    pub fn client(&self) -> Dns {
        Dns::new(Some(self.address()))
    }

    /// Client of this nameserver with a short timeout, for tests of unanswered queries.
    pub fn impatient_client(&self) -> Dns {
        Dns::with_timeout(Some(self.address()), Duration::from_millis(20))
    }
}
