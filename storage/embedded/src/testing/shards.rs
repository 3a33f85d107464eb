//! Engines that are the shards of one cluster.

use super::free_ports::free_ports;
use super::{ProcessSettings, TestEngine};

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
