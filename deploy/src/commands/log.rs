//! `millrace log`: inspects the log of acknowledged events. Works beside a running server, as it
//! changes nothing.

use super::{counted, table};
use crate::config::Config;
use crate::output;
use anyhow::bail;
use clap::Subcommand;
use millrace_log::fs::DiskFs;
use millrace_log::{Frame, Inspection, SegmentReport, inspect};
use millrace_rows::Lane;
use std::path::Path;

/// Subcommand of `millrace log`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// List segments, frames and damage; the exit status is 1 if something is damaged
    Inspect {
        /// List every frame and its sections
        #[arg(long)]
        frames: bool,
    },
}

/// Runs the command.
///
/// # Errors
/// When a log cannot be read or is damaged.
pub fn run(config: &Config, command: &Command) -> anyhow::Result<()> {
    let Command::Inspect { frames } = command;
    if !config.log_dir.exists() {
        bail!(
            "there is no log at {}; name its folder with --data-dir or --log-dir",
            config.log_dir.display()
        );
    }
    let mut damaged = false;
    for lane in Lane::ALL {
        let dir = config.log_dir.join(lane.name());
        if !dir.exists() {
            output::print(&format!("{}: no log at {}", lane.name(), dir.display()));
            continue;
        }
        damaged |= inspect_lane(lane, &dir, *frames)?;
    }
    if damaged {
        bail!("the log is damaged; what could not be read is listed above");
    }
    Ok(())
}

fn inspect_lane(lane: Lane, dir: &Path, frames: bool) -> anyhow::Result<bool> {
    let mut sections = Vec::new();
    let found = inspect(&DiskFs, dir, &mut |frame| {
        if frames {
            sections.extend(section_rows(frame));
        }
    })?;
    output::print(&format!("{} log in {}", lane.name(), dir.display()));
    let headings = [
        "SEGMENT",
        "FRAMES",
        "ROWS",
        "USED",
        "FILE",
        "SEQUENCES",
        "PROBLEMS",
    ];
    let rows = found.segments.iter().map(segment_row).collect();
    table::print(headings, rows, "There are no segments: nothing waits.");
    if frames {
        let headings = [
            "POSITION", "SEQUENCE", "TABLE", "MONTH", "ROWS", "BYTES", "ON DISK",
        ];
        table::print(headings, sections, "There are no frames.");
    }
    match &found.checkpoint {
        Ok(Some(bytes)) => {
            let size = counted(bytes.len() as u64, "byte");
            output::print(&format!("checkpoint of {size}\n"));
        }
        Ok(None) => output::print("no checkpoint yet\n"),
        Err(error) => output::print(&format!("{error}\n")),
    }
    Ok(is_damaged(&found))
}

fn section_rows(frame: &Frame) -> Vec<[String; 7]> {
    let sections = frame.sections.iter().map(|section| {
        let header = &section.header;
        [
            frame.position.to_string(),
            frame.sequence.to_string(),
            header
                .insert_target
                .split('(')
                .next()
                .unwrap_or_default()
                .to_owned(),
            header.month.to_string(),
            header.rows.to_string(),
            header.uncompressed_bytes.to_string(),
            section.blocks_bytes.to_string(),
        ]
    });
    sections.collect()
}

fn segment_row(segment: &SegmentReport) -> [String; 7] {
    let sequences = segment
        .sequences
        .map_or_else(String::new, |(first, last)| format!("{first}–{last}"));
    let unreadable: Vec<String> = segment
        .unreadable
        .iter()
        .map(|range| {
            format!(
                "{:?} at {}–{}: {}",
                range.kind, range.start, range.end, range.reason
            )
        })
        .collect();
    [
        segment.number.to_string(),
        segment.frames.to_string(),
        segment.rows.to_string(),
        segment.used_bytes.to_string(),
        segment.file_bytes.to_string(),
        sequences,
        if unreadable.is_empty() {
            "none".to_owned()
        } else {
            unreadable.join("; ")
        },
    ]
}

/// Returns true if the log is damaged. An incomplete tail is no damage: a running server may be
/// writing it.
fn is_damaged(found: &Inspection) -> bool {
    let in_segments = found
        .segments
        .iter()
        .flat_map(|segment| &segment.unreadable);
    found.checkpoint.is_err()
        || in_segments
            .into_iter()
            .any(|range| !matches!(range.kind, millrace_log::UnreadableKind::Tail))
}
