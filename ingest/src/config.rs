//! Configuration of the server: where to listen, and its limits.

use crate::trace::Tracer;
use ipnet::IpNet;
use millrace_parse::Limits;
use millrace_tls::{HandshakeLimits, ServerTls};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Bytes of a mebibyte.
const MIB: usize = 1 << 20;

/// Address, threads and limits of the server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Address to listen on; port 0 takes a free one.
    pub addr: SocketAddr,
    /// Threads, each with a runtime and connections of its own. At least 1.
    pub workers: usize,
    /// Limits of requests and connections.
    pub limits: HttpLimits,
    /// Peers whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Time for which connections are still accepted once readiness has fallen: as long as a load
    /// balancer takes to notice.
    pub drain: Duration,
    /// Time that the shutdown may take after that before connections are cut.
    pub grace: Duration,
    /// Certificate of the listener; `None`: it speaks plain HTTP.
    pub tls: Option<ServerTls>,
    /// Called on each thread of the [offload pool](crate::offload) as it starts: the place to lower
    /// its priority.
    pub on_offload_thread: fn(),
    /// Decides which requests are traced.
    pub tracer: Tracer,
}

impl ServerConfig {
    /// Default configuration of the contract on `addr`, with one worker.
    #[must_use]
    pub fn on(addr: SocketAddr) -> Self {
        Self {
            addr,
            workers: 1,
            limits: HttpLimits::default(),
            trusted_proxies: Vec::new(),
            drain: Duration::ZERO,
            grace: Duration::from_secs(20),
            tls: None,
            on_offload_thread: || {},
            tracer: Tracer::default(),
        }
    }

    /// Returns true if the `X-Forwarded-For` of `peer` is believed.
    #[must_use]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.trusted_proxies.iter().any(|net| net.contains(&peer))
    }
}

/// Limits of requests and connections; the defaults are the contract's.
#[derive(Clone, Debug)]
pub struct HttpLimits {
    /// Bytes of a body as sent; past it 413.
    pub body_bytes_max: usize,
    /// Bytes of a body after decompression; past it 413.
    pub decoded_bytes_max: usize,
    /// Bytes of a request's head; past it 431.
    pub header_bytes_max: usize,
    /// Time from a head's first byte to its last; past it 408. Also the time for which a new
    /// connection may stay silent.
    pub header_timeout: Duration,
    /// Longest pause within a body; past it 408.
    pub body_stall_timeout: Duration,
    /// Slowest speed of a body, in bytes a second, in each window of `body_stall_timeout`; below it
    /// 408. Without this limit, a byte now and then would hold a connection, and the bytes that
    /// came before.
    pub body_bytes_per_second_min: usize,
    /// Longest time from a body's first byte to its last; past it 408, however steadily it comes.
    /// At the lowest speed that is 300 KiB, which is more than SDKs send at once; a body of 20 MiB
    /// has to come at 35 kB a second.
    pub body_timeout: Duration,
    /// Time for which a body may hold the watermark back, whether it keeps coming or not. The
    /// `created_at` of a body that takes longer is the time of its last byte.
    pub body_hold: Duration,
    /// Time after which a body that is not complete counts as slow: slow bodies have a part of the
    /// budget of bytes.
    pub body_slow_after: Duration,
    /// Longest pause within a body, and time for the rest of a head, once the process stops; past
    /// it 503. Nobody listens during a stop, so a silent client must not make it longer.
    pub stop_stall_timeout: Duration,
    /// Time in which a client has to read `body_bytes_per_second_min` of a response for each second
    /// of it, while the response waits for that; past it the connection is closed. As the kernel
    /// tells of some ten kilobytes at once, these have to be read in it in any case.
    pub write_timeout: Duration,
    /// Time for which a connection may wait for its next request.
    pub idle_timeout: Duration,
    /// Time of a TLS handshake, past which the connection is closed, and number of handshakes of a
    /// core at once, past which the oldest is ended.
    pub handshakes: HandshakeLimits,
    /// Open connections of the process; past it 503.
    pub connections_max: usize,
    /// Open connections of one address that is not a trusted proxy; past it 503.
    pub connections_per_address_max: usize,
    /// Bytes in memory of all bodies, as sent and decoded, and of responses above 4 KiB; past it
    /// 503.
    pub in_flight_bytes_max: usize,
    /// Bytes of bodies that wait in the fair queue of one core; past it 503, and past half of it
    /// 503 for projects that hold more than their share.
    pub waiting_bytes_max: usize,
    /// Limits of the parser.
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
            body_hold: Duration::from_millis(500),
            body_slow_after: Duration::from_secs(2),
            stop_stall_timeout: Duration::from_secs(1),
            write_timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(75),
            handshakes: HandshakeLimits::default(),
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
