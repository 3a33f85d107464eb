//! Listeners without TLS that other machines can reach: a warning at the start.

use crate::config::{Config, Engine};
use crate::serve::Parts;
use std::net::SocketAddr;

/// Listener without TLS.
struct PlainListener {
    /// Setting of its address.
    setting: &'static str,
    address: SocketAddr,
    /// True if `tls_cert` would give it TLS.
    can_have_tls: bool,
}

/// Warns of the listeners of a server, once for all of them.
pub fn warn_of(config: &Config, parts: Parts) {
    warn(&listeners(config, parts));
}

/// Warns of the listener of an engine by itself.
pub fn warn_of_engine(address: SocketAddr) {
    warn(&[PlainListener {
        setting: "clickhouse_addr",
        address,
        can_have_tls: false,
    }]);
}

fn warn(listeners: &[PlainListener]) {
    if let Some(warning) = warning(listeners) {
        tracing::warn!("{warning}");
    }
}

fn listeners(config: &Config, parts: Parts) -> Vec<PlainListener> {
    let ours = [
        ("ingest_addr", config.ingest_addr, parts.ingest),
        ("admin_addr", config.admin_addr, parts.admin),
        ("health_addr", config.health_addr, true),
    ];
    let ours = ours
        .into_iter()
        .filter(|(_, _, is_here)| *is_here && config.tls_files.is_none());
    let ours = ours.map(|(setting, address, _)| (setting, address, true));
    let engine = match &config.engine {
        Engine::Embedded { listen, .. } => Some(("clickhouse_addr", *listen, false)),
        Engine::Server { .. } => None,
    };
    let node = config
        .node_addr
        .map(|address| ("node_addr", address, false));
    let others = engine.into_iter().chain(node).filter(|_| parts.ingest);
    let all = ours.chain(others);
    all.map(|(setting, address, can_have_tls)| PlainListener {
        setting,
        address,
        can_have_tls,
    })
    .collect()
}

/// Text of the warning; `None` if all listeners are of this machine alone.
fn warning(listeners: &[PlainListener]) -> Option<String> {
    let reachable = listeners
        .iter()
        .filter(|listener| !listener.address.ip().to_canonical().is_loopback());
    let reachable: Vec<&PlainListener> = reachable.collect();
    if reachable.is_empty() {
        return None;
    }
    let names = reachable
        .iter()
        .map(|listener| format!("{} {}", listener.setting, listener.address));
    let names: Vec<String> = names.collect();
    let advice = match reachable.iter().any(|listener| listener.can_have_tls) {
        true => "give tls_cert and tls_key, or let a proxy with TLS alone reach them",
        false => "let nobody but your own machines reach them",
    };
    Some(format!(
        "other machines can reach {} without TLS, so keys and events can be read on their way: \
         {advice}",
        names.join(" and ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Addresses, with whether they can have TLS, and parts of the warning.
    type Case<'a> = (&'a [(&'a str, bool)], Option<(&'a str, &'a str)>);

    #[test]
    fn listeners_of_loopback_need_no_warning_and_others_get_one_with_advice() {
        let table: [Case<'_>; 5] = [
            (&[], None),
            (&[("127.0.0.1:1", true), ("[::1]:2", true)], None),
            (&[("[::ffff:127.0.0.2]:1", false)], None),
            (
                &[
                    ("0.0.0.0:1", true),
                    ("127.0.0.1:2", true),
                    ("[::]:3", false),
                ],
                Some(("reach s 0.0.0.0:1 and s [::]:3 without", "tls_cert")),
            ),
            (
                &[("192.0.2.1:1", false)],
                Some(("reach s 192.0.2.1:1 without", "your own machines")),
            ),
        ];
        for (given, expected) in table {
            let listeners = given.iter().map(|(address, can_have_tls)| PlainListener {
                setting: "s",
                address: address.parse().unwrap(),
                can_have_tls: *can_have_tls,
            });
            let text = warning(&listeners.collect::<Vec<_>>());
            assert_eq!(text.is_some(), expected.is_some(), "{given:?}");
            if let (Some(text), Some((names, advice))) = (text, expected) {
                assert!(text.contains(names) && text.contains(advice), "{text}");
            }
        }
    }
}
