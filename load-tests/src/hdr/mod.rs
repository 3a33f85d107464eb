//! Log of HdrHistograms, in the format that HdrHistogram's tools read and write.
//!
//! A line has the latencies of an interval. Lines of one tag belong together: those without a tag
//! are the seconds of a run, those with [`LATENCY`], [`SEND_LAG`] and [`REFUSAL`] its window, with
//! as many digits as the figures have. All values are nanoseconds. Histograms of several runs can
//! be added, which percentiles cannot.

pub mod codec;

use crate::series::{Recorder, RunTiming};
use anyhow::{Context, Result, anyhow};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::{Counter, Histogram};
use std::fmt;
use std::time::Duration;

/// Tag of the latencies of the window.
pub const LATENCY: &str = "window-latency";
/// Tag of the send lags of the window.
pub const SEND_LAG: &str = "window-send-lag";
/// Tag of the times to a 503 in the window.
pub const REFUSAL: &str = "window-refusal";

/// Names of the columns, which tools that read tables want.
const LEGEND: &str =
    "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"";
/// Nanoseconds in a unit of the highest values, which are for people: milliseconds.
const NANOS_PER_MAX: f64 = 1e6;

/// Histograms of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HdrLog {
    /// Time since 1970 when the first request was due.
    pub started: Duration,
    /// Lines in order of time.
    pub lines: Vec<LogLine>,
}

/// Histogram of an interval.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    /// Kind of the values; `None` for latencies of one of the run's seconds.
    pub tag: Option<String>,
    /// Beginning of the interval since the start of the run.
    pub start: Duration,
    /// Length of the interval.
    pub length: Duration,
    /// Highest value in milliseconds.
    pub max_ms: f64,
    /// Histogram, compressed and in base64.
    encoded: String,
}

impl LogLine {
    /// Line of a histogram.
    ///
    /// # Errors
    /// The compressor failed.
    pub fn new<C: Counter>(
        tag: Option<&str>,
        (start, length): (Duration, Duration),
        histogram: &Histogram<C>,
    ) -> Result<Self> {
        Ok(Self {
            tag: tag.map(str::to_owned),
            start,
            length,
            max_ms: histogram.max() as f64 / NANOS_PER_MAX,
            encoded: BASE64_STANDARD.encode(codec::encode(histogram)?),
        })
    }

    /// Histogram of the line.
    ///
    /// # Errors
    /// The line has another format, or is damaged.
    pub fn histogram(&self) -> Result<Histogram<u64>> {
        let bytes = BASE64_STANDARD.decode(&self.encoded).context("base64")?;
        codec::decode(&bytes)
    }

    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split(',').peekable();
        let tag = fields.next_if(|field| field.starts_with("Tag="));
        let seconds = |field: Option<&str>| {
            let seconds = field?.parse::<f64>().ok()?;
            Duration::try_from_secs_f64(seconds).ok()
        };
        let line = Self {
            tag: tag.map(|tag| tag.trim_start_matches("Tag=").to_owned()),
            start: seconds(fields.next())?,
            length: seconds(fields.next())?,
            max_ms: fields.next()?.parse().ok()?,
            encoded: fields.next()?.to_owned(),
        };
        fields.next().is_none().then_some(line)
    }
}

impl HdrLog {
    /// Log of a run, with the latencies, send lags and times to a 503 of its window.
    ///
    /// # Errors
    /// The compressor failed.
    pub fn of_run(
        started: Duration,
        (timing, window_seconds): (RunTiming, f64),
        over_time: &Recorder,
        window: [&Histogram<u64>; 3],
    ) -> Result<Self> {
        let seconds = over_time.latencies(timing);
        let seconds = seconds.map(|(times, latency)| LogLine::new(None, times, latency));
        let mut lines = seconds.collect::<Result<Vec<_>>>()?;
        let length = Duration::try_from_secs_f64(window_seconds).context("window")?;
        for (tag, histogram) in [LATENCY, SEND_LAG, REFUSAL].into_iter().zip(window) {
            lines.push(LogLine::new(
                Some(tag),
                (timing.warm_up, length),
                histogram,
            )?);
        }
        Ok(Self { started, lines })
    }

    /// Parses a log.
    ///
    /// # Errors
    /// A line is not one of such a log.
    pub fn parse(text: &str) -> Result<Self> {
        let mut log = Self::default();
        for (at, line) in text.lines().map(str::trim).enumerate() {
            if let Some(rest) = line.strip_prefix("#[StartTime: ") {
                let seconds = rest
                    .split(' ')
                    .next()
                    .and_then(|word| word.parse::<f64>().ok());
                let started = seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
                log.started = started.with_context(|| format!("line {}: no time", at + 1))?;
            } else if !line.is_empty() && !line.starts_with(['#', '"']) {
                let line = LogLine::parse(line)
                    .with_context(|| format!("line {} is not an interval", at + 1))?;
                log.lines.push(line);
            }
        }
        Ok(log)
    }

    /// Histogram with a tag.
    ///
    /// # Errors
    /// The log has none, or it is damaged.
    pub fn tagged(&self, tag: &str) -> Result<Histogram<u64>> {
        let mut lines = self.lines.iter();
        lines
            .find(|line| line.tag.as_deref() == Some(tag))
            .ok_or_else(|| anyhow!("there is no {tag}"))?
            .histogram()
    }

    /// Lines of the run's seconds.
    pub fn seconds(&self) -> impl Iterator<Item = &LogLine> {
        self.lines.iter().filter(|line| line.tag.is_none())
    }
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tag) = &self.tag {
            write!(f, "Tag={tag},")?;
        }
        let (start, length) = (self.start.as_secs_f64(), self.length.as_secs_f64());
        let (max_ms, encoded) = (self.max_ms, &self.encoded);
        write!(f, "{start:.3},{length:.3},{max_ms:.3},{encoded}")
    }
}

impl fmt::Display for HdrLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "#[Histogram log format version 1.3]")?;
        let started = self.started.as_secs_f64();
        writeln!(f, "#[StartTime: {started:.3} (seconds since epoch)]")?;
        writeln!(f, "{LEGEND}")?;
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(tag: Option<&str>, millis: u64, values: &[u64]) -> LogLine {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        for value in values {
            histogram.record(*value).unwrap();
        }
        let times = (Duration::from_millis(millis), Duration::from_secs(1));
        LogLine::new(tag, times, &histogram).unwrap()
    }

    #[test]
    fn a_log_survives_its_text() {
        let log = HdrLog {
            started: Duration::from_millis(1_795_216_860_250),
            lines: vec![
                line(None, 0, &[1_000_000, 2_000_000]),
                line(None, 1500, &[]),
                line(Some(LATENCY), 250, &[5_000_000]),
            ],
        };
        let text = log.to_string();
        assert!(text.contains("\n0.000,1.000,2.001,HISTFAAA"), "{text}");
        assert!(text.contains("\nTag=window-latency,0.250,1.000,"), "{text}");
        let read = HdrLog::parse(&text).unwrap();
        assert_eq!(read.to_string(), text);
        assert_eq!(read.seconds().count(), 2);
        assert_eq!(read.tagged(LATENCY).unwrap().len(), 1);
        let error = read.tagged(REFUSAL).unwrap_err().to_string();
        assert_eq!(error, "there is no window-refusal");
    }

    #[test]
    fn a_log_of_the_java_tools_is_read() {
        let text = "#[Logged with jHiccup version 2.0.7]\r\n\
            #[StartTime: 1441812279.474 (seconds since epoch), Wed Sep 09 08:24:39 PDT 2015]\r\n\
            \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed\"\r\n\
            0.127,1.007,2.769,HISTFAAAAEV42pNpmSzMwMCgyAABTBDKT4GBgdnNYMcCBvsPEBEJISEuATEZMQ4u\
            ASkhIR4nrxg9v2lMaxhvMekILGZkKmcCAEf2CsI=\r\n";
        let log = HdrLog::parse(text).unwrap();
        assert_eq!(log.started.as_secs(), 1_441_812_279);
        let line = log.seconds().next().unwrap();
        assert_eq!(line.start, Duration::from_millis(127));
        assert_eq!(line.histogram().unwrap().len(), 741);
    }

    #[test]
    fn a_file_that_is_no_log_is_refused_with_its_line() {
        for (text, says) in [
            ("{\n", "line 1 is not an interval"),
            ("#\n1.0,1.0,1.0\n", "line 2 is not an interval"),
            ("-1.0,1.0,1.0,HIST\n", "line 1 is not an interval"),
            ("#[StartTime: soon]\n", "line 1: no time"),
        ] {
            let error = HdrLog::parse(text).unwrap_err().to_string();
            assert_eq!(error, says);
        }
        let damaged = HdrLog::parse("1.0,1.0,1.0,HIST\n").unwrap();
        assert!(damaged.lines[0].histogram().is_err());
    }
}
