//! Client of a server's metrics in Prometheus' text format.

use crate::target::Target;
use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the metrics of the server with this health URL.
///
/// # Errors
/// No response within five seconds.
pub fn read(health_url: &str) -> Result<String> {
    let authority = Target::parse(health_url)?.authority;
    let mut stream =
        TcpStream::connect(&authority).context("cannot connect to the health server")?;
    stream.set_read_timeout(Some(TIMEOUT)).context("timeout")?;
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
    )
    .context("request")?;
    let mut text = String::new();
    stream.read_to_string(&mut text).context("answer")?;
    Ok(text)
}

/// Sum over a metric's lines that contain `label`, such as `lane="live"`; `""` matches all.
#[must_use]
pub fn sum(text: &str, name: &str, label: &str) -> f64 {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        if !rest.starts_with(['{', ' ']) || !rest.contains(label) {
            return None;
        }
        rest.rsplit_once(' ')?.1.parse::<f64>().ok()
    };
    text.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_the_sum_over_the_lines_with_its_label() {
        let metrics = "# TYPE a_total counter\na_total{lane=\"live\"} 5\na_total{lane=\"h\"} 2\n\
                       a_total_more 100\nb 1.5\n";
        for (name, label, expected) in [
            ("a_total", "", 7.0),
            ("a_total", "lane=\"live\"", 5.0),
            ("a_total", "lane=\"none\"", 0.0),
            ("b", "", 1.5),
            ("c", "", 0.0),
        ] {
            assert_eq!(sum(metrics, name, label), expected, "{name} {label}");
        }
    }
}
