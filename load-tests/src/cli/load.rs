//! Rate and length of a load.

use clap::Args;
use humantime::Duration;
use millrace_load::stages::Stage;
use millrace_load::{Mode, Plan};

/// Rate and length of a load.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadArgs {
    /// Open loop: events due per second, whatever the server does. Without it: closed loop.
    #[arg(long, value_name = "EVENTS/S")]
    pub rate: Option<f64>,
    /// Open loop whose rate changes: `TIME:RATE` or `TIME:FROM..TO` in events/s, one after another,
    /// such as 30s:1000,2m:1000..20000,30s:20000. The warm-up has the first rate.
    #[arg(long, value_name = "STAGE,…", value_delimiter = ',', value_parser = Stage::parse)]
    #[arg(conflicts_with_all = ["rate", "duration", "requests"])]
    pub stage: Vec<Stage>,
    /// Connections, opened before the run and kept.
    #[arg(short, long, value_name = "N", default_value_t = 16)]
    pub connections: u16,
    /// Length of the measured window, such as 500ms, 30s or 2m.
    #[arg(short, long, value_name = "TIME", default_value = "10s")]
    pub duration: Duration,
    /// Length of the warm-up before the window, which is not measured.
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub warm_up: Duration,
    /// Send exactly this many requests instead, all measured.
    #[arg(long, value_name = "N", conflicts_with_all = ["duration", "warm_up"])]
    pub requests: Option<u64>,
    /// Time to begin at, such as 2026-11-30T12:00:00Z, so that several generators begin together.
    #[arg(long, value_name = "TIME", value_parser = start_at)]
    pub start_at: Option<std::time::Duration>,
    /// Longest wait for a response; after it the request has failed.
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub timeout: Duration,
    /// Threads that share the connections.
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// CPUs to pin the threads to, in turn.
    #[arg(long, value_name = "CPU,…", value_delimiter = ',')]
    pub pin: Vec<usize>,
}

impl LoadArgs {
    /// Plan with the rate and the length of the options.
    pub fn apply(&self, mut plan: Plan) -> Plan {
        plan.mode = match self.rate {
            Some(events_per_second) => Mode::Open { events_per_second },
            None => Mode::Closed,
        };
        plan.connections = self.connections;
        plan.threads = self.threads;
        plan.pin.clone_from(&self.pin);
        plan.warm_up = self.warm_up.into();
        plan.duration = self.duration.into();
        plan.timeout = self.timeout.into();
        match self.requests {
            Some(requests) => plan.with_requests(requests),
            None if !self.stage.is_empty() => plan.with_stages(self.stage.clone()),
            None => plan,
        }
    }
}

/// Parses a time of day with its date; returns it as the time since 1970.
fn start_at(text: &str) -> Result<std::time::Duration, String> {
    let time = text
        .parse::<jiff::Timestamp>()
        .map_err(|error| format!("{text:?} is not a time such as 2026-11-30T12:00:00Z: {error}"))?;
    let millis = u64::try_from(time.as_millisecond());
    millis
        .map(std::time::Duration::from_millis)
        .map_err(|_| format!("{text:?} is before 1970"))
}
