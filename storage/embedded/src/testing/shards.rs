//! Engines that are the shards of one cluster.

use super::{ProcessSettings, TestEngine};
use std::net::TcpListener;

impl TestEngine {
    /// Starts so many new engines, each a shard of one cluster, in its order.
    #[must_use]
    pub fn start_shards(count: usize) -> Vec<Self> {
        let ports = free_ports(count);
        let address = |port: &u16| format!("127.0.0.1:{port}");
        let shards = ports.iter().map(address).collect::<Vec<_>>().join(",");
        let settings = ports.iter().map(|port| ProcessSettings {
            memory_bytes_max: 1 << 30,
            native_port: Some(*port),
            shards: shards.clone(),
            ..ProcessSettings::default()
        });
        settings
            .map(|settings| Self::start_with(settings, None))
            .collect()
    }
}

/// Finds ports that are free now.
pub(super) fn free_ports(count: usize) -> Vec<u16> {
    let free = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    // Held together, so that each is another one.
    let free: Vec<TcpListener> = free.collect();
    let port_of = |free: &TcpListener| free.local_addr().expect("a bound port").port();
    free.iter().map(port_of).collect()
}
