//! Figures and settings of a run, as names and values.

use super::units::latency_text;
use crate::digits::{counted, grouped};
use crate::plan::{Compression, Plan};
use crate::report::mebibytes;
use crate::summary::{Load, Percentiles, Summary};
use crate::tls::Trust;

/// A name with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// Name of the figure or setting.
    pub name: String,
    /// Value with its unit.
    pub value: String,
}

fn fact(name: &str, value: impl Into<String>) -> Fact {
    Fact {
        name: name.to_owned(),
        value: value.into(),
    }
}

/// Most important figures of a run, four per row.
#[must_use]
pub fn headline(summary: &Summary) -> Vec<Fact> {
    let latency = &summary.latency;
    let sent = summary.wire_bytes_per_second / 1e6;
    let mut facts = vec![
        fact("events/s", grouped(summary.events_per_second)),
        fact("requests/s", grouped(summary.requests_per_second)),
        fact("sent", format!("{sent:.1} MB/s")),
        fact(
            "failed requests",
            grouped(summary.run.failed_requests as f64),
        ),
        fact("latency p50", latency_text(latency.p50_us)),
        fact("latency p99", latency_text(latency.p99_us)),
        fact("latency p99.9", latency_text(latency.p999_us)),
        fact("slowest", latency_text(latency.max_us)),
    ];
    if let Some(server) = &summary.server {
        let memory = mebibytes(server.rss_bytes_max);
        facts.extend([
            fact("server's CPU", format!("{:.2} cores", server.cores)),
            fact(
                "events per core-second",
                grouped(server.events_per_core_second),
            ),
            fact("server's memory, most", format!("{memory:.1} MiB")),
            fact(
                "generator's CPU",
                format!("{:.2} cores", summary.generator.cores),
            ),
        ]);
    }
    facts
}

/// Summary of the plan in one line.
#[must_use]
pub fn sentence(plan: &Plan) -> String {
    format!(
        "{}, {}, {}",
        plan.mode,
        counted(plan.connections.into(), "connection"),
        plan.sizes_text()
    )
}

/// All settings of the plan.
#[must_use]
pub fn plan(plan: &Plan) -> Vec<Fact> {
    let length = match plan.requests_max {
        Some(requests) => counted(requests, "request"),
        None => format!(
            "{} after {} of warm-up",
            humantime::format_duration(plan.duration),
            humantime::format_duration(plan.warm_up)
        ),
    };
    let tls = match (plan.url.starts_with("https:"), &plan.trust) {
        (false, _) => "no".to_owned(),
        (true, Trust { insecure: true, .. }) => "yes, any certificate".to_owned(),
        (true, Trust { ca: Some(ca), .. }) => format!("yes, authorities of {}", ca.display()),
        (true, _) => "yes, the system's authorities".to_owned(),
    };
    let compression = match plan.compression {
        Compression::None => "none".to_owned(),
        Compression::Gzip => format!("gzip, level {}", plan.compression_level),
        Compression::Zstd => format!("zstd, level {}", plan.compression_level),
    };
    let pin: Vec<_> = plan.pin.iter().map(usize::to_string).collect();
    let pinned = match pin.as_slice() {
        [] => "not pinned".to_owned(),
        cpus => format!("pinned to CPU {}", cpus.join(", ")),
    };
    let threads = counted(plan.threads as u64, "thread");
    vec![
        fact("Target", &plan.url),
        fact("TLS", tls),
        fact("Projects", plan.keys.projects().to_string()),
        fact("Mode", plan.mode.to_string()),
        fact("Length", length),
        fact("Connections", plan.connections.to_string()),
        fact("Form", format!("{:?}", plan.api)),
        fact("Size", plan.sizes_text()),
        fact("Shape of events", format!("{:?}", plan.event_shape)),
        fact("Compression", compression),
        fact(
            "Historical",
            format!("{:.0} %", plan.historical_share * 100.0),
        ),
        fact(
            "Timeout",
            humantime::format_duration(plan.timeout).to_string(),
        ),
        fact("Generator", format!("{threads}, {pinned}")),
    ]
}

/// Requests and events of the run, by outcome.
#[must_use]
pub fn counts(summary: &Summary) -> Vec<Fact> {
    let window = &summary.window;
    let mut facts = vec![
        fact(
            "Acknowledged in the window",
            format!(
                "{} in {} in {:.2} s",
                counted(window.acknowledged_events, "event"),
                counted(window.acknowledged_requests, "request"),
                summary.window_seconds
            ),
        ),
        fact(
            "With the warm-up",
            counted(summary.run.acknowledged_events, "event"),
        ),
        fact("Generator", load(&summary.generator)),
    ];
    facts.extend(
        summary
            .server
            .as_ref()
            .map(|server| fact("Server", load(server))),
    );
    if summary.run.unsent_requests > 0 {
        let unsent = counted(summary.run.unsent_requests, "request");
        facts.push(fact("Due and not sent", unsent));
    }
    for (reason, count) in &summary.failures {
        facts.push(fact(&format!("Failed: {reason}"), grouped(*count as f64)));
    }
    facts.extend(
        summary
            .first_failure
            .as_ref()
            .map(|first| fact("First failure", first)),
    );
    facts
}

fn load(load: &Load) -> String {
    format!(
        "{:.2} cores, {} events per core-second, {:.1} MiB (most {:.1})",
        load.cores,
        grouped(load.events_per_core_second),
        mebibytes(load.rss_bytes),
        mebibytes(load.rss_bytes_max)
    )
}

/// Percentiles in milliseconds, in the order of a table's columns after the name.
#[must_use]
pub fn percentiles(name: &str, times: &Percentiles) -> Vec<String> {
    let micros = [
        times.p50_us,
        times.p75_us,
        times.p90_us,
        times.p95_us,
        times.p99_us,
        times.p999_us,
        times.p9999_us,
        times.max_us,
    ];
    let values = micros.into_iter().map(|us| format!("{:.3}", us / 1000.0));
    std::iter::once(name.to_owned()).chain(values).collect()
}
