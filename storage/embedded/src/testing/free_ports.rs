//! Ports that nothing listens on.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::TcpListener;
use std::ops::Range;

/// Ports below those that Linux gives to sockets that ask for any: of those, another socket could
/// take one between its choice and the start of its engine.
const PORTS: Range<u16> = 10_000..32_768;
/// Tries to find a port, of which few are used.
const TRIES: usize = 100;

/// Finds ports that are free now.
pub(super) fn free_ports(count: usize) -> Vec<u16> {
    let free = (0..count).map(|_| bound().expect("a free port"));
    // Held together, so that each is another one.
    let free: Vec<TcpListener> = free.collect();
    let port_of = |free: &TcpListener| free.local_addr().expect("a bound port").port();
    free.iter().map(port_of).collect()
}

fn bound() -> Option<TcpListener> {
    let random = || RandomState::new().build_hasher().finish();
    let port = || PORTS.start + (random() % u64::from(PORTS.end - PORTS.start)) as u16;
    (0..TRIES).find_map(|_| TcpListener::bind(("127.0.0.1", port())).ok())
}
