//! Engines that are the shards of one cluster.

use super::free_ports::free_ports;
use super::{ProcessSettings, TestEngine};

impl TestEngine {
    /// Starts so many new engines, each a shard of one cluster, in its order.
    #[must_use]
    pub fn start_shards(count: usize) -> Vec<Self> {
        let order: Vec<usize> = (0..count).collect();
        Self::start_shards_in_orders(&vec![order.as_slice(); count])
    }

    /// Starts a new engine for each of these orders, in which it knows the shards by the numbers of
    /// their engines.
    #[must_use]
    pub fn start_shards_in_orders(orders: &[&[usize]]) -> Vec<Self> {
        let ports = free_ports(orders.len());
        let address = |number: &usize| {
            let port = ports.get(*number).expect("a number of an engine");
            format!("127.0.0.1:{port}")
        };
        let engines = ports.iter().zip(orders).map(|(port, order)| {
            let shards: Vec<String> = order.iter().map(address).collect();
            let settings = ProcessSettings {
                memory_bytes_max: 1 << 30,
                native_port: Some(*port),
                shards: shards.join(","),
                ..ProcessSettings::default()
            };
            Self::start_with(settings, None)
        });
        engines.collect()
    }
}
