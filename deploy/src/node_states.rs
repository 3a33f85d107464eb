//! Metrics of the states of nodes: a dead node reports nothing itself.

use metrics::{Unit, describe_gauge, gauge};
use millrace_catalog::{Liveness, NodeStatus};
use std::collections::BTreeSet;

const NODE_STATE: &str = "millrace_node_state";
const NODE_UNHEARD: &str = "millrace_node_unheard_seconds";
const NODE_LOG_BYTES: &str = "millrace_node_log_bytes";

/// Nodes and their hosts, as of the last look.
pub type SeenNodes = BTreeSet<(String, String)>;

/// Describes the metrics.
pub fn describe() {
    describe_gauge!(
        NODE_STATE,
        "1 for the state that a node has, by state: starting, running, silent (not heard of for 15 s), lost (2 min), \
         stopped"
    );
    describe_gauge!(
        NODE_UNHEARD,
        Unit::Seconds,
        "Time since a node was last heard of; 0 once it has stopped"
    );
    describe_gauge!(
        NODE_LOG_BYTES,
        Unit::Bytes,
        "Bytes in a node's log that are not in ClickHouse, as the node last said"
    );
}

/// Sets the gauges of all nodes, and those of nodes that are gone, or have moved, to 0.
pub fn update(nodes: &[NodeStatus], before: &SeenNodes) -> SeenNodes {
    let mut seen = SeenNodes::new();
    for status in nodes {
        let at = (status.node.name.clone(), status.node.host.clone());
        set(
            &at,
            Some(status.liveness()),
            status.unheard_seconds(),
            status.log_bytes(),
        );
        seen.insert(at);
    }
    for gone in before.difference(&seen) {
        set(gone, None, 0, 0);
    }
    seen
}

fn set(at: &(String, String), state: Option<Liveness>, unheard_seconds: i64, log_bytes: u64) {
    let (node, host) = at;
    for known in Liveness::ALL {
        let is_it = f64::from(u8::from(state == Some(known)));
        let (node, host) = (node.clone(), host.clone());
        gauge!(NODE_STATE, "node" => node, "host" => host, "state" => known.name()).set(is_it);
    }
    for (name, value) in [
        (NODE_UNHEARD, unheard_seconds as f64),
        (NODE_LOG_BYTES, log_bytes as f64),
    ] {
        gauge!(name, "node" => node.clone(), "host" => host.clone()).set(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics_exporter_prometheus::PrometheusBuilder;
    use millrace_catalog::{IngestNode, NodeState, UtcTime};

    fn status(host: &str, unheard_seconds: i64) -> NodeStatus {
        NodeStatus {
            node: IngestNode {
                name: "n".to_owned(),
                host: host.to_owned(),
                state: NodeState::Running,
                watermark: None,
                updates_watermark: None,
                published_at: UtcTime(0),
                started_at: UtcTime(0),
                start_count: 0,
                start_id: String::new(),
            },
            report: None,
            unheard_micros: unheard_seconds * 1_000_000,
        }
    }

    #[test]
    fn a_node_has_one_state_and_none_on_a_host_that_it_left() {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || {
            let seen = update(&[status("old", 0)], &SeenNodes::new());
            update(&[status("new", 130)], &seen);
        });
        let rendered = recorder.handle().render();
        let told = |host: &str, state: &str, value: u8| {
            format!("{NODE_STATE}{{node=\"n\",host=\"{host}\",state=\"{state}\"}} {value}\n")
        };
        for line in [
            told("old", "running", 0),
            told("new", "running", 0),
            told("new", "lost", 1),
            format!("{NODE_UNHEARD}{{node=\"n\",host=\"new\"}} 130\n"),
        ] {
            assert!(rendered.contains(&line), "{line}: {rendered}");
        }
    }
}
