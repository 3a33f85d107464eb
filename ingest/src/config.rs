//! What the server is told: where to listen and how much is too much.

use ipnet::IpNet;
use millrace_parse::Limits;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// One mebibyte.
const MIB: usize = 1 << 20;

/// Where and how to serve.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The address to listen on; port 0 takes a free one.
    pub addr: SocketAddr,
    /// Threads, each with a runtime and connections of its own. At least 1.
    pub workers: usize,
    /// How much is too much.
    pub limits: HttpLimits,
    /// Peers whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// How long connections are still taken once readiness has fallen: as long as a load balancer
    /// takes to notice.
    pub drain: Duration,
    /// How long the end may take after that before connections are cut.
    pub grace: Duration,
}

impl ServerConfig {
    /// The contract's defaults on `addr`, with one worker.
    #[must_use]
    pub fn on(addr: SocketAddr) -> Self {
        Self {
            addr,
            workers: 1,
            limits: HttpLimits::default(),
            trusted_proxies: Vec::new(),
            drain: Duration::ZERO,
            grace: Duration::from_secs(20),
        }
    }

    /// Whether `peer` may say in `X-Forwarded-For` whom it speaks for.
    #[must_use]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.trusted_proxies.iter().any(|net| net.contains(&peer))
    }
}

/// How much is too much; the defaults are the contract's.
#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// Bytes of a body as sent; past it 413.
    pub body_bytes_max: usize,
    /// Bytes of a body after decompression; past it 413.
    pub decoded_bytes_max: usize,
    /// Bytes of a request's head; past it 431.
    pub header_bytes_max: usize,
    /// From a head's first byte to its last; past it 408. Also how long a new connection may
    /// stay silent.
    pub header_timeout: Duration,
    /// Longest pause within a body; past it 408.
    pub body_stall_timeout: Duration,
    /// Slowest speed of a body, in bytes a second, in each window of `body_stall_timeout`;
    /// below it 408. Without it, a byte now and then holds a connection and what came before.
    pub body_bytes_per_second_min: usize,
    /// Longest time from a body's first byte to its last; past it 408, however steadily it comes. At the lowest speed
    /// that is 300 KiB, which is more than SDKs send at once; a body of 20 MiB has to come at 35 kB a second.
    pub body_timeout: Duration,
    /// How long a body may hold the watermark back, whether it keeps coming or not. One that takes
    /// longer arrives when it is there, as far as `created_at` is concerned.
    pub body_hold: Duration,
    /// How long a connection may wait for its next request.
    pub idle_timeout: Duration,
    /// Open connections of the process; past it 503.
    pub connections_max: usize,
    /// Open connections of one address that is not a trusted proxy; past it 503.
    pub connections_per_address_max: usize,
    /// Bytes of all bodies in memory, as sent and decoded; past it 503.
    pub in_flight_bytes_max: usize,
    /// Bytes of bodies that wait for their turn on one core; past it 503, and past half of it for
    /// those that hold more than their share.
    pub waiting_bytes_max: usize,
    /// What the parser refuses.
    pub parse: Limits,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            body_bytes_max: 20 * MIB,
            decoded_bytes_max: 100 * MIB,
            header_bytes_max: 64 << 10,
            header_timeout: Duration::from_secs(10),
            body_stall_timeout: Duration::from_secs(20),
            body_bytes_per_second_min: 512,
            body_timeout: Duration::from_secs(600),
            body_hold: Duration::from_secs(2),
            idle_timeout: Duration::from_secs(75),
            connections_max: 10_000,
            connections_per_address_max: 2_000,
            in_flight_bytes_max: 1024 * MIB,
            waiting_bytes_max: 128 * MIB,
            parse: Limits::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_trusted_by_its_network_in_either_spelling() {
        let mut config = ServerConfig::on(SocketAddr::from(([127, 0, 0, 1], 0)));
        config.trusted_proxies = vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        let table = [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("11.0.0.1", false),
            ("::1", true),
            ("::2", false),
        ];
        for (peer, trusted) in table {
            assert_eq!(config.trusts(peer.parse().unwrap()), trusted, "{peer}");
        }
    }
}
