//! Log on the real disk, compared with the disk's capacity.

use super::bare::append_and_sync;
use super::bench::Bench;
use super::figure::{FigureName, Unit};
use super::findings::{Cell, Findings};
use super::load::BATCHES;
use super::rounds::Rounds;
use super::server::{Contestant, Server};
use super::store::Store;
use crate::plan::Plan;
use crate::summary::Summary;
use anyhow::Result;

const MIB: usize = 1 << 20;

/// A run, with the bytes that it wrote to the log.
pub struct Logged {
    /// Summary of the run.
    pub summary: Summary,
    /// Bytes written to the log per acknowledged event; for a log in memory, bytes of rows.
    pub bytes_per_event: f64,
    /// Mean number of bytes made durable by one sync.
    pub frame_bytes: f64,
}

/// Runs a plan and reads from the server how many bytes it wrote.
///
/// # Errors
/// The run fails, or the server's metrics cannot be read.
pub fn logged(bench: &Bench<'_>, server: &Server, plan: &Plan) -> Result<Logged> {
    let counts = || -> Result<[f64; 3]> {
        Ok([
            server.written_bytes()? as f64,
            server.metric("millrace_log_row_bytes_total")?,
            server.metric("millrace_log_sync_seconds_count")?,
        ])
    };
    let [written_before, rows_before, syncs_before] = counts()?;
    let summary = bench.run(plan)?;
    let [written, rows, syncs] = counts()?;
    // Only a disk counts written bytes; for a log in memory the rows are the nearest figure.
    let bytes = match written - written_before {
        0.0 => rows - rows_before,
        bytes => bytes,
    };
    Ok(Logged {
        bytes_per_event: bytes / summary.run.acknowledged_events as f64,
        frame_bytes: bytes / (syncs - syncs_before).max(1.0),
        summary,
    })
}

struct DiskRound {
    disk: Logged,
    memory_events_per_second: f64,
    bare_bytes_per_second: f64,
}

impl DiskRound {
    fn events_per_second(&self) -> f64 {
        self.disk.summary.events_per_second
    }

    fn bytes_per_second(&self) -> f64 {
        self.events_per_second() * self.disk.bytes_per_event
    }
}

/// Measures the server on disk and in memory and the bare loop with frames of the same size, in
/// turn.
///
/// # Errors
/// A server does not start, a run fails, or the disk refuses.
pub fn measure(bench: &mut Bench<'_>) -> Result<Findings> {
    let rounds = bench.rounds("", |bench| Ok((round(bench)?, String::new())))?;
    let mut findings = table(&rounds);
    for bytes in [MIB, 8 * MIB] {
        let bare = append_and_sync(bench, Store::Disk, bytes, bench.effort.window)?;
        findings.row([
            format!("bare append + fdatasync of {} MiB", bytes / MIB).into(),
            Cell::Absent,
            megabytes(bare.bytes_per_second),
            Cell::Grouped(bytes as f64),
            Cell::Absent,
        ]);
    }
    Ok(findings)
}

fn round(bench: &Bench<'_>) -> Result<DiskRound> {
    let disk = ours(bench, Store::Disk)?;
    let memory = ours(bench, Store::Memory)?;
    let frame_bytes = disk.frame_bytes as usize;
    let bare = append_and_sync(bench, Store::Disk, frame_bytes, bench.effort.window)?;
    Ok(DiskRound {
        disk,
        memory_events_per_second: memory.summary.events_per_second,
        bare_bytes_per_second: bare.bytes_per_second,
    })
}

fn ours(bench: &Bench<'_>, store: Store) -> Result<Logged> {
    let contestant = Contestant::Ours { workers: 1, store };
    let server = Server::start(bench, contestant)?;
    let mut plan = bench.plan(&server, contestant.cpus());
    BATCHES.apply(&mut plan);
    logged(bench, &server, &plan)
}

fn table(rounds: &Rounds<DiskRound>) -> Findings {
    let mut findings = Findings::with_columns(&[
        "",
        "events/s",
        "log MB/s",
        "bytes a sync",
        "Millrace on disk ÷ this",
    ]);
    let events_per_second = rounds.median(DiskRound::events_per_second);
    let frame_bytes = rounds.median(|it| it.disk.frame_bytes);
    let of_memory = rounds.median(|it| it.events_per_second() / it.memory_events_per_second);
    let of_bare = rounds.median(|it| it.bytes_per_second() / it.bare_bytes_per_second);
    findings.row([
        "Millrace on disk".into(),
        Cell::Grouped(events_per_second),
        megabytes(rounds.median(DiskRound::bytes_per_second)),
        Cell::Grouped(frame_bytes),
        Cell::Ratio(1.0),
    ]);
    findings.row([
        "Millrace in memory".into(),
        Cell::Grouped(rounds.median(|it| it.memory_events_per_second)),
        Cell::Absent,
        Cell::Absent,
        Cell::Ratio(of_memory),
    ]);
    findings.row([
        "bare append + fdatasync of the same size".into(),
        Cell::Absent,
        megabytes(rounds.median(|it| it.bare_bytes_per_second)),
        Cell::Grouped(frame_bytes),
        Cell::Ratio(of_bare),
    ]);
    findings.note(
        "250 events of 998 B a request, 16 connections. Rows are compressed, so log bytes are \
         about an eighth of the events'.",
    );
    for (subject, unit, value) in [
        ("Millrace on disk", Unit::EventsPerSecond, events_per_second),
        ("of memory", Unit::Ratio, of_memory),
        ("of bare append and fdatasync", Unit::Ratio, of_bare),
    ] {
        findings.figure(FigureName::new(subject, unit), value);
    }
    findings
}

fn megabytes(bytes_per_second: f64) -> Cell {
    Cell::Decimals(bytes_per_second / 1e6, 1)
}
