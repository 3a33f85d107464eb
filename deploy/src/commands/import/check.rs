//! `millrace import check`: the dry run.

use super::options::{Common, SINGLE_RUN_OPTIONS, Sources};
use crate::commands::{Invocation, counted, table};
use crate::numbers::{count, up_to};
use crate::output;
use anyhow::{anyhow, bail};
use clap::Args;
use indicatif::HumanBytes;
use millrace_import::check::{Check, Findings, run as check};
use millrace_import::progress::ProgressReporter;
use millrace_import::stats::StageStats;
use millrace_rows::{Micros, shown};
use millrace_sources::time;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Import quota of a project without an approval.
const EVENTS_WITHOUT_APPROVAL: u64 = 20_000_000;
const EVENTS_PER_MINUTE_WITHOUT_APPROVAL: u64 = 10_000;
/// Most names of events that are listed.
const NAMES_MAX: usize = 20;

/// Arguments of `check`.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    sources: Sources,
    /// Fail this check if more records than this would be rejected: a number, or a share like 0.5%
    #[arg(long, value_name = "N|N%", default_value = "0", value_parser = max_bad)]
    max_bad: MaxBad,
    /// Number of sample events to show, beside the records that they are made of
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = count::<usize>)]
    samples: usize,
    /// Approximate limit of records to read of each file
    #[arg(long, value_name = "N", value_parser = count::<u64>)]
    records: Option<u64>,
    /// Events per minute to estimate the time by; 10000 is the limit without an approval
    #[arg(
        long,
        value_parser = count::<u64>,
        value_name = "N",
        default_value_t = EVENTS_PER_MINUTE_WITHOUT_APPROVAL
    )]
    events_per_minute: u64,
    /// Number of files that are read in parallel
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = up_to::<u8, 64>)]
    parallel_files: u8,
}

/// Tolerated number or share of rejected records.
#[derive(Clone, Copy, Debug)]
enum MaxBad {
    Count(u64),
    Percent(f64),
}

fn max_bad(text: &str) -> Result<MaxBad, String> {
    let wrong = || {
        "give a number of records, such as 100, or a percentage of them, such as 0.5%".to_owned()
    };
    match text.strip_suffix('%') {
        Some(share) => {
            let share: f64 = share.trim().parse().map_err(|_| wrong())?;
            if (0.0..=100.0).contains(&share) {
                Ok(MaxBad::Percent(share))
            } else {
                Err(wrong())
            }
        }
        None => text.parse().map(MaxBad::Count).map_err(|_| wrong()),
    }
}

impl MaxBad {
    #[allow(clippy::cast_precision_loss, reason = "a share of records")]
    fn allows(self, bad: u64, records: u64) -> bool {
        match self {
            Self::Count(max) => bad <= max,
            Self::Percent(share) => bad as f64 <= records as f64 * share / 100.0,
        }
    }
}

pub(super) fn run(arguments: &Arguments, invocation: &Invocation) -> anyhow::Result<()> {
    let staging = arguments.common.open()?;
    let stage = Check {
        plan: arguments.sources.plan()?,
        files: arguments.sources.files(&staging, invocation)?,
        files_parallel: usize::from(arguments.parallel_files),
        records_max: arguments.records,
        samples: arguments.samples,
    };
    let stats = Arc::new(StageStats::default());
    let reporter = ProgressReporter::start("check", &stats, arguments.common.audience());
    let found = check(&stage, &stats);
    drop(reporter);
    staging.write("check.json", &serde_json::to_string(&found)?)?;
    if arguments.common.json {
        output::print_json(&json!({ "stage": "check", "result": found }).to_string());
    } else {
        print_summary(&found, arguments, invocation);
    }
    exit_result(&found, arguments.max_bad)
}

fn exit_result(found: &Findings, max_bad: MaxBad) -> anyhow::Result<()> {
    if !found.broken.is_empty() {
        bail!(
            "{} cannot be read to the end",
            counted(found.broken.len() as u64, "file")
        );
    }
    let bad = found.rejected_count();
    if max_bad.allows(bad, found.records) {
        Ok(())
    } else {
        Err(anyhow!(
            "{bad} of {} would be rejected, more than --max-bad allows. Correct the mapping, or check with another --max-bad: `load` sends the others in any case, and keeps these",
            counted(found.records, "record")
        ))
    }
}

fn print_summary(found: &Findings, arguments: &Arguments, invocation: &Invocation) {
    let events = found.events.total();
    let formats: Vec<_> = found
        .formats
        .iter()
        .map(|(format, files)| format!("{files} {format}"))
        .collect();
    output::print(&format!(
        "Files             {} ({})\nRecords           {}\nEvents            {events}{}\nSkipped           {}\n\
         Rejected          {}\nFirst event       {}\nLast event        {}\nTo send           {} in {}, not compressed",
        if formats.is_empty() {
            "none that can be read".to_owned()
        } else {
            formats.join(", ")
        },
        found.file_bytes.map_or_else(
            || "of unknown size".to_owned(),
            |bytes| HumanBytes(bytes).to_string()
        ),
        found.records,
        match found.generated.total() {
            0 => String::new(),
            count => format!(", and {count} that the mapping creates from them"),
        },
        found.skipped,
        found.rejected_count(),
        instant(found.first_micros),
        instant(found.last_micros),
        HumanBytes(found.request_bytes),
        counted(found.requests, "request"),
    ));
    estimate(
        events + found.generated.total(),
        arguments.events_per_minute,
        invocation,
    );
    lists(found);
    for sample in &found.samples {
        output::print(&format!(
            "\n{}\n  from {}\n  to   {}",
            shown(&sample.file),
            shortened(&sample.record),
            shortened(&sample.event)
        ));
    }
    for (file, message) in &found.broken {
        let (file, message) = (shown(file), shown(message));
        output::print(&format!("\n{file} cannot be read to its end: {message}"));
    }
    if !found.broken.is_empty() || events == 0 {
        return;
    }
    let without: Vec<_> = SINGLE_RUN_OPTIONS
        .into_iter()
        .filter(|it| *it != "files")
        .collect();
    // `load` sends valid records and keeps the others; this command was asked if these are too
    // many.
    let words = match arguments
        .max_bad
        .allows(found.rejected_count(), found.records)
    {
        true => "Send them",
        false => "Send them without what would be rejected, which is kept to be corrected",
    };
    output::print(&format!(
        "\n{words}:\n  {}",
        invocation.command("import load", &without)
    ));
}

fn estimate(events: u64, events_per_minute: u64, invocation: &Invocation) {
    output::print(&format!(
        "Estimated time    {}",
        estimated(events, events_per_minute)
    ));
    let seconds = seconds_at(events, events_per_minute);
    if events > EVENTS_WITHOUT_APPROVAL
        || (seconds > 3600 && events_per_minute == EVENTS_PER_MINUTE_WITHOUT_APPROVAL)
    {
        output::print(&format!(
            "Without an approval a project may import {}, {} a minute. The operator approves more with:\n  {} --project-id PROJECT_ID \
             --total-events {events} --events-per-minute 6000000",
            counted(EVENTS_WITHOUT_APPROVAL, "event"),
            counted(EVENTS_PER_MINUTE_WITHOUT_APPROVAL, "event"),
            invocation.command("migrations approve", &[])
        ));
    }
}

/// Seconds that an import takes at a rate limit: the events of the first minute are accepted at
/// once.
fn seconds_at(events: u64, events_per_minute: u64) -> u64 {
    let later = u128::from(events.saturating_sub(events_per_minute));
    let seconds = (later * 60).div_ceil(u128::from(events_per_minute.max(1)));
    u64::try_from(seconds).unwrap_or(u64::MAX)
}

fn estimated(events: u64, events_per_minute: u64) -> String {
    let limit = format!("{} a minute", counted(events_per_minute, "event"));
    match seconds_at(events, events_per_minute) {
        0 => format!("as fast as the server accepts them, below {limit}"),
        seconds => {
            let time = indicatif::HumanDuration(Duration::from_secs(seconds));
            format!("{time} at {limit}")
        }
    }
}

fn lists(found: &Findings) {
    let names = found.events.by_name();
    let more = names.len().saturating_sub(NAMES_MAX);
    let rows = names.iter().take(NAMES_MAX);
    let rows = rows.map(|(name, count)| [(*name).to_owned(), count.to_string()]);
    output::print("");
    table::print(["EVENT", "COUNT"], rows.collect(), "There is no event.");
    if more > 0 {
        output::print(&format!("and {}", counted(more as u64, "other name")));
    }
    if !found.rules.is_empty() {
        let rows = found.rules.iter();
        let rows = rows.map(|(rule, count)| [rule.clone(), count.to_string()]);
        output::print("");
        table::print(["RULE", "APPLIED"], rows.collect(), "");
    }
    if !found.rejected.is_empty() {
        let rows = found.rejected.iter();
        let rows = rows.map(|(code, count)| [code.clone(), count.to_string()]);
        output::print("");
        table::print(["REJECTED AS", "RECORDS"], rows.collect(), "");
    }
    for reject in &found.rejects {
        output::print(&format!(
            "\n{}:{} (byte {}) {}: {}\n  {}",
            shown(&reject.file),
            reject.line,
            reject.byte_offset,
            shown(&reject.code),
            shown(&reject.message),
            shortened(&reject.raw)
        ));
    }
}

/// Shortens a record for people, in one line.
fn shortened(text: &str) -> String {
    const LETTERS_MAX: usize = 400;
    let short: String = text.chars().take(LETTERS_MAX).collect();
    let is_cut = short.len() < text.len();
    let end = if is_cut { "…" } else { "" };
    format!("{}{end}", shown(&short))
}

fn instant(micros: Option<i64>) -> String {
    let Some(micros) = micros else {
        return "none".to_owned();
    };
    let mut text = Vec::new();
    time::write(&mut text, Micros(micros));
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimated_time_is_the_wait_that_the_limit_causes() {
        let below = "as fast as the server accepts them, below";
        let table = [
            (2, 10_000, format!("{below} 10,000 events a minute")),
            (10_000, 10_000, format!("{below} 10,000 events a minute")),
            (
                10_001,
                10_000,
                "1 second at 10,000 events a minute".to_owned(),
            ),
            (
                20_000,
                10_000,
                "60 seconds at 10,000 events a minute".to_owned(),
            ),
            (3, 1, "2 minutes at 1 event a minute".to_owned()),
        ];
        for (events, limit, expected) in table {
            assert_eq!(estimated(events, limit), expected);
        }
        assert_eq!(seconds_at(u64::MAX, 0), u64::MAX);
    }
}
