//! Memory needed for large files, in a separate process, as the process's memory is measured.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

use millrace_rows::testing::number_from_env;
use millrace_sources::testing::generate;
use millrace_sources::{Events, Format, Input, Options, Position};
use std::io::{self, Read};

/// Size of the files, unless `MILLRACE_FILE_MIB` says otherwise.
const FILE_MIB: u64 = 40;
const GROWTH_BYTES_MAX: u64 = 16 << 20;

fn file_bytes() -> u64 {
    number_from_env("MILLRACE_FILE_MIB", FILE_MIB) << 20
}

/// Reader of a header and endlessly repeated lines.
struct RepeatedLines {
    header: Vec<u8>,
    lines: Vec<u8>,
    read: u64,
    at: usize,
    bytes_max: u64,
}

impl Read for RepeatedLines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let is_header = (self.read as usize) < self.header.len();
        let from = if is_header {
            &self.header[self.read as usize..]
        } else {
            &self.lines[self.at..]
        };
        if self.read >= self.bytes_max {
            return Ok(0);
        }
        let count = buffer.len().min(from.len());
        buffer[..count].copy_from_slice(&from[..count]);
        self.read += count as u64;
        if !is_header {
            self.at = (self.at + count) % self.lines.len();
        }
        Ok(count)
    }
}

/// Reads a file of `bytes_max` bytes and returns the number of records.
fn read(format: Format, bytes_max: u64) -> u64 {
    let mut file = Vec::new();
    generate(format, 1_000, 1, &mut file).unwrap();
    let header_end = match format {
        Format::Csv => file.iter().position(|byte| *byte == b'\n').unwrap() + 1,
        _ => 0,
    };
    let lines = file.split_off(header_end);
    let input = RepeatedLines {
        header: file,
        lines,
        read: 0,
        at: 0,
        bytes_max,
    };
    let options = Options::default();
    let mut mapping = format.mapping(&options).unwrap();
    let mut framing = format
        .open(
            Input::Stream(Box::new(input)),
            Position::default(),
            &options,
        )
        .unwrap();
    let mut events = Events::default();
    let mut records = 0;
    while let Some(record) = framing.next().unwrap() {
        records += 1;
        events.clear();
        // The last line may be cut.
        let _ = mapping.map(record.raw, &mut events);
    }
    records
}

/// Peak memory of this process.
fn memory_peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn a_large_file_needs_no_more_memory_than_a_small_one() {
    for format in [Format::Mixpanel, Format::Snowplow, Format::Csv] {
        assert!(read(format, 4 << 20) > 1_000);
        let before = memory_peak_bytes();
        let records = read(format, file_bytes());
        let grown = memory_peak_bytes() - before;
        println!(
            "{}: {records} records, {grown} bytes more at the peak",
            format.name()
        );
        assert!(grown < GROWTH_BYTES_MAX, "{format:?}: {grown} bytes");
    }
}
