//! Ports that nothing listens on.

use std::net::TcpListener;

/// Finds ports that are free now.
pub(super) fn free_ports(count: usize) -> Vec<u16> {
    let free = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    // Held together, so that each is another one.
    let free: Vec<TcpListener> = free.collect();
    let port_of = |free: &TcpListener| free.local_addr().expect("a bound port").port();
    free.iter().map(port_of).collect()
}
