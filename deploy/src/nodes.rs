//! Watch of nodes that exports wait for, as metrics and log lines: a dead node reports nothing
//! itself.

use crate::node_list::{NodeList, behind_seconds};
use crate::node_states::{self, SeenNodes};
use metrics::{Unit, describe_gauge, gauge};
use millrace_catalog::{Catalog, CatalogError, IngestNode, NodeReports, NodeStatus, UtcTime};
use millrace_ingest::Readiness;
use millrace_rows::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

const NODE_WATERMARK_AGE: &str = "millrace_node_watermark_age_seconds";

/// Interval and timeout of reading the nodes.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
const CHECK_TIMEOUT: Duration = Duration::from_secs(3);
/// Age of a watermark from which on a node is reported to hold up exports.
const LATE_SECONDS: i64 = 300;

/// Reads the nodes at once and then periodically, for ever. The health listener has the list of the
/// last time.
pub async fn watch(catalog: &Catalog, readiness: &Readiness) -> Infallible {
    node_states::describe();
    describe_gauge!(
        NODE_WATERMARK_AGE,
        Unit::Seconds,
        "Time by which a node holds up exports: the age of its watermark; 0 when nothing waits"
    );
    let mut every = tokio::time::interval(CHECK_INTERVAL);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut late, mut states) = (NodeHealth::new(), SeenNodes::new());
    loop {
        every.tick().await;
        let Ok(Ok((statuses, list))) = tokio::time::timeout(CHECK_TIMEOUT, read(catalog)).await
        else {
            continue;
        };
        states = node_states::update(&statuses, &states);
        let nodes: Vec<IngestNode> = statuses.into_iter().map(|status| status.node).collect();
        late = update(SystemClock.now().into(), &nodes, late);
        // Serializing strings and numbers does not fail.
        readiness.set_nodes(serde_json::to_vec(&list).unwrap_or_default());
    }
}

async fn read(catalog: &Catalog) -> Result<(Vec<NodeStatus>, NodeList), CatalogError> {
    let statuses = NodeReports::new(catalog).list().await?;
    let list = NodeList::of(catalog, &statuses).await?;
    Ok((statuses, list))
}

/// Host of each node, and true if the node was late, as of the last look.
type NodeHealth = BTreeMap<String, (String, bool)>;

/// Sets the gauges and logs changes.
fn update(now: UtcTime, nodes: &[IngestNode], mut before: NodeHealth) -> NodeHealth {
    let mut seen = NodeHealth::new();
    for node in nodes {
        let (name, host) = (&node.name, &node.host);
        let seconds = behind_seconds(node, now);
        set_age(name, host, seconds as f64);
        let was = before.remove(name);
        let was_late = was.as_ref().is_some_and(|(_, is_late)| *is_late);
        if let Some((elsewhere, _)) = was.filter(|(was_on, _)| was_on != host) {
            // The node has moved: its gauge on the old host is void.
            set_age(name, &elsewhere, 0.0);
        }
        let is_late = seconds > LATE_SECONDS;
        if is_late && !was_late {
            tracing::warn!(
                node = name,
                host,
                seconds,
                heard_of = %node.published_at,
                "exports wait for this node: start it, or if its log is lost, `millrace nodes deregister`"
            );
        } else if was_late && !is_late {
            tracing::info!(
                node = name,
                host,
                "exports do not wait for this node any more"
            );
        }
        seen.insert(name.clone(), (host.clone(), is_late));
    }
    for (name, (host, _)) in before {
        set_age(&name, &host, 0.0);
    }
    seen
}

fn set_age(name: &str, host: &str, seconds: f64) {
    gauge!(NODE_WATERMARK_AGE, "node" => name.to_owned(), "host" => host.to_owned()).set(seconds);
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics_exporter_prometheus::PrometheusBuilder;
    use millrace_catalog::NodeState;

    fn node(state: NodeState, watermark: Option<i64>, started_at: i64) -> IngestNode {
        let micros = |seconds: i64| UtcTime(seconds * 1_000_000);
        IngestNode {
            name: "n".to_owned(),
            host: "h".to_owned(),
            state,
            watermark: watermark.map(micros),
            updates_watermark: None,
            published_at: micros(0),
            started_at: micros(started_at),
            start_count: 0,
            start_id: String::new(),
        }
    }

    #[test]
    fn exports_wait_for_running_and_starting_nodes() {
        let table = [
            (node(NodeState::Running, Some(900), 10), 100),
            (node(NodeState::Running, Some(1_100), 10), 0),
            (node(NodeState::Starting, None, 10), 990),
            (node(NodeState::Starting, Some(900), 990), 10),
            (node(NodeState::Stopped, Some(900), 10), 0),
        ];
        for (node, seconds) in table {
            assert_eq!(
                behind_seconds(&node, UtcTime(1_000_000_000)),
                seconds,
                "{node:?}"
            );
        }
    }

    #[test]
    fn a_node_is_late_until_it_goes_on_or_is_deregistered() {
        let now = UtcTime(1_000_000_000);
        let late = update(
            now,
            &[node(NodeState::Running, Some(1), 0)],
            NodeHealth::new(),
        );
        assert!(late["n"].1);
        let well = update(now, &[node(NodeState::Running, Some(999), 0)], late.clone());
        assert!(!well["n"].1);
        assert!(update(now, &[], late).is_empty());
    }

    #[test]
    fn a_node_that_moved_has_no_lag_on_its_old_host() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let now = UtcTime(1_000_000_000);
        let late = node(NodeState::Running, Some(1), 0);
        let moved = IngestNode {
            host: "elsewhere".to_owned(),
            ..node(NodeState::Running, Some(999), 0)
        };
        metrics::with_local_recorder(&recorder, || {
            let seen = update(now, &[late], NodeHealth::new());
            update(now, &[moved], seen);
        });
        let rendered = recorder.handle().render();
        let gauge = |host: &str, seconds: u32| {
            format!("{NODE_WATERMARK_AGE}{{node=\"n\",host=\"{host}\"}} {seconds}\n")
        };
        assert!(rendered.contains(&gauge("h", 0)), "{rendered}");
        assert!(rendered.contains(&gauge("elsewhere", 1)), "{rendered}");
    }
}
