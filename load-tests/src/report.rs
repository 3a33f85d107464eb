//! Text of a summary.

use crate::api::Api;
use crate::digits::{counted, grouped};
use crate::event_shape::EventShape;
use crate::plan::Compression;
use crate::summary::{Load, Percentiles, Summary};
use std::fmt;

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_plan(f)?;
        writeln!(f)?;
        writeln!(f, "events/s      {}", grouped(self.events_per_second))?;
        writeln!(
            f,
            "requests/s    {}    {:.1} MB/s as sent",
            grouped(self.requests_per_second),
            self.wire_bytes_per_second / 1e6
        )?;
        writeln!(
            f,
            "acknowledged  {} in {} in {:.2} s; with warm-up {}",
            counted(self.window.acknowledged_events, "event"),
            counted(self.window.acknowledged_requests, "request"),
            self.window_seconds,
            counted(self.run.acknowledged_events, "event")
        )?;
        let failed = counted(self.run.failed_requests, "request");
        writeln!(f, "failed        {failed}")?;
        for (reason, count) in &self.failures {
            writeln!(f, "    {count} x {reason}")?;
        }
        if let Some(first) = &self.first_failure {
            writeln!(f, "    first: {first}")?;
        }
        if let Some(shortfall) = self.shortfall() {
            let unsent = counted(self.run.unsent_requests, "request");
            writeln!(f, "not sent      {unsent}")?;
            writeln!(f, "    {shortfall}")?;
        }
        writeln!(f)?;
        write_percentiles(f, "latency", &self.latency)?;
        if self.plan.mode.is_open() {
            write_percentiles(f, "send lag", &self.send_lag)?;
        }
        writeln!(f)?;
        write_load(f, "generator", &self.generator)?;
        match &self.server {
            Some(server) => write_load(f, "server", server),
            None => Ok(()),
        }
    }
}

impl Summary {
    fn write_plan(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.plan;
        write!(
            f,
            "run {}: {}, {}, {}, {}",
            self.run_id,
            plan.mode,
            counted(plan.connections.into(), "connection"),
            counted(plan.threads as u64, "thread"),
            plan.sizes_text()
        )?;
        if plan.api != Api::Batch {
            write!(f, ", {:?}", plan.api)?;
        }
        if plan.event_shape != EventShape::Visits {
            write!(f, ", {:?}", plan.event_shape)?;
        }
        if plan.url.starts_with("https:") {
            f.write_str(", TLS")?;
        }
        if plan.keys.projects() > 1 {
            let projects = counted(plan.keys.projects() as u64, "project");
            write!(f, ", {projects} in turn")?;
        }
        if plan.compression != Compression::None {
            write!(f, ", {:?}", plan.compression)?;
        }
        if plan.historical_share > 0.0 {
            write!(f, ", {:.0} % historical", plan.historical_share * 100.0)?;
        }
        writeln!(f)
    }
}

fn write_percentiles(f: &mut fmt::Formatter<'_>, name: &str, p: &Percentiles) -> fmt::Result {
    writeln!(f, "{name:<13} (ms)")?;
    for (label, micros) in [
        ("p50", p.p50_us),
        ("p75", p.p75_us),
        ("p90", p.p90_us),
        ("p95", p.p95_us),
        ("p99", p.p99_us),
        ("p99.9", p.p999_us),
        ("p99.99", p.p9999_us),
        ("max", p.max_us),
    ] {
        writeln!(f, "    {label:<8} {:>10.3}", micros / 1000.0)?;
    }
    Ok(())
}

fn write_load(f: &mut fmt::Formatter<'_>, name: &str, load: &Load) -> fmt::Result {
    writeln!(
        f,
        "{name:<13} {:.2} cores, {} events per core-second, {:.1} MiB (most {:.1})",
        load.cores,
        grouped(load.events_per_core_second),
        mebibytes(load.rss_bytes),
        mebibytes(load.rss_bytes_max),
    )
}

/// Bytes in MiB.
#[must_use]
pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        for (value, text) in [
            (0.0, "0"),
            (999.6, "1 000"),
            (12_345.0, "12 345"),
            (1_234_567.0, "1 234 567"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(grouped(value), text);
        }
    }
}
