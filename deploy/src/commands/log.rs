//! `millrace log`: inspects the log of acknowledged events. Works beside a running server, as it
//! changes nothing.

use super::list_format::{ListFormat, print_object};
use super::{counted, table};
use crate::config::Config;
use crate::output;
use anyhow::bail;
use clap::Subcommand;
use millrace_log::fs::DiskFs;
use millrace_log::{Frame, Inspection, SegmentReport, inspect};
use millrace_rows::Lane;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Subcommand of `millrace log`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// List segments, frames and damage; the exit status is 1 if something is damaged
    Inspect {
        /// List every frame and its sections
        #[arg(long)]
        frames: bool,
        /// Format of the list
        #[command(flatten)]
        format: ListFormat,
    },
}

/// Runs the command.
///
/// # Errors
/// When a log cannot be read or is damaged.
pub fn run(config: &Config, command: &Command) -> anyhow::Result<()> {
    let Command::Inspect { frames, format } = command;
    if !config.log_dir.exists() {
        bail!(
            "there is no log at {}; name its folder with --data-dir or --log-dir",
            config.log_dir.display()
        );
    }
    let (mut damaged, mut lanes) = (false, Vec::new());
    for lane in Lane::ALL {
        let dir = config.log_dir.join(lane.name());
        if dir.exists() {
            let inspected = InspectedLane::read(lane, dir, *frames)?;
            damaged |= is_damaged(&inspected.found);
            match format.is_json() {
                true => lanes.push(inspected.object()),
                false => inspected.print(*frames),
            }
        } else if !format.is_json() {
            output::print(&format!("{}: no log at {}", lane.name(), dir.display()));
        }
    }
    if format.is_json() {
        print_object(&json!({ "lanes": lanes, "is_damaged": damaged }));
    }
    if damaged {
        bail!("the log is damaged; what could not be read is listed above");
    }
    Ok(())
}

/// Section of a frame.
struct SectionRow {
    position: String,
    sequence: u64,
    table: String,
    month: String,
    rows: u64,
    bytes: u64,
    bytes_on_disk: u64,
}

/// Log of a lane as it was read.
struct InspectedLane {
    lane: Lane,
    dir: PathBuf,
    found: Inspection,
    /// Sections of all frames, if they were asked for.
    sections: Vec<SectionRow>,
}

impl InspectedLane {
    fn read(lane: Lane, dir: PathBuf, frames: bool) -> anyhow::Result<Self> {
        let mut sections = Vec::new();
        let found = inspect(&DiskFs, &dir, &mut |frame| {
            if frames {
                sections.extend(sections_of(frame));
            }
        })?;
        Ok(Self {
            lane,
            dir,
            found,
            sections,
        })
    }

    fn print(&self, frames: bool) {
        let (found, dir) = (&self.found, self.dir.display());
        output::print(&format!("{} log in {dir}", self.lane.name()));
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
            let rows = self.sections.iter().map(SectionRow::cells).collect();
            table::print(headings, rows, "There are no frames.");
        }
        match &found.checkpoint {
            Ok(Some(bytes)) => {
                let size = counted(bytes.len() as u64, "byte");
                output::print(&format!("checkpoint of {size}\n"));
            }
            Ok(None) => output::print("no checkpoint yet\n"),
            Err(error) => output::print(&format!("{error}\n")),
        }
    }

    fn object(&self) -> Value {
        let found = &self.found;
        let segments: Vec<Value> = found.segments.iter().map(segment_object).collect();
        let sections: Vec<Value> = self.sections.iter().map(SectionRow::object).collect();
        let (bytes, error) = match &found.checkpoint {
            Ok(bytes) => (bytes.as_ref().map(Vec::len), None),
            Err(error) => (None, Some(error.to_string())),
        };
        json!({
            "lane": self.lane.name(),
            "dir": self.dir.to_string_lossy(),
            "segments": segments,
            "sections": sections,
            "checkpoint_bytes": bytes,
            "checkpoint_error": error,
        })
    }
}

impl SectionRow {
    fn cells(&self) -> [String; 7] {
        [
            self.position.clone(),
            self.sequence.to_string(),
            self.table.clone(),
            self.month.clone(),
            self.rows.to_string(),
            self.bytes.to_string(),
            self.bytes_on_disk.to_string(),
        ]
    }

    fn object(&self) -> Value {
        json!({
            "position": self.position,
            "sequence": self.sequence,
            "table": self.table,
            "month": self.month,
            "rows": self.rows,
            "bytes": self.bytes,
            "bytes_on_disk": self.bytes_on_disk,
        })
    }
}

fn sections_of(frame: &Frame) -> impl Iterator<Item = SectionRow> {
    frame.sections.iter().map(move |section| {
        let header = &section.header;
        let table = header.insert_target.split('(').next().unwrap_or_default();
        SectionRow {
            position: frame.position.to_string(),
            sequence: frame.sequence,
            table: table.to_owned(),
            month: header.month.to_string(),
            rows: u64::from(header.rows),
            bytes: header.uncompressed_bytes,
            bytes_on_disk: section.blocks_bytes,
        }
    })
}

fn segment_object(segment: &SegmentReport) -> Value {
    let unreadable = segment.unreadable.iter().map(|range| {
        json!({
            "kind": format!("{:?}", range.kind),
            "start": range.start.to_string(),
            "end": range.end.to_string(),
            "reason": range.reason,
        })
    });
    let unreadable: Vec<Value> = unreadable.collect();
    json!({
        "number": segment.number,
        "frames": segment.frames,
        "rows": segment.rows,
        "used_bytes": segment.used_bytes,
        "file_bytes": segment.file_bytes,
        "first_sequence": segment.sequences.map(|(first, _)| first),
        "last_sequence": segment.sequences.map(|(_, last)| last),
        "unreadable": unreadable,
    })
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
