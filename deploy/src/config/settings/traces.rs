//! Settings of traces.

use super::values::ratio;
use clap::Args;

/// Settings of traces.
#[derive(Args, Clone, Debug)]
pub struct TraceSettings {
    /// URL of an OpenTelemetry collector that traces of requests with events are sent to, such as
    /// `http://127.0.0.1:4318`; no traces without
    ///
    /// They go to `/v1/traces` below it, by OTLP over HTTP in JSON. Their ids are those of the
    /// requests, as `X-Request-Id` has them.
    #[arg(long, global = true, env = "MILLRACE_OTLP_URL", value_name = "URL")]
    pub otlp_url: Option<String>,
    /// Share of the requests that are traced, from 0 to 1
    #[arg(
        long,
        global = true,
        env = "MILLRACE_OTLP_SAMPLING_RATIO",
        value_parser = ratio,
        value_name = "RATIO",
        default_value = "0.001"
    )]
    pub otlp_sampling_ratio: f64,
}
