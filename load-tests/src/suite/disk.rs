//! Log on the real disk, compared with the disk's capacity.

use super::bare::{Bare, append_and_sync};
use super::bench::Bench;
use super::load::BATCHES;
use super::outcome::{Outcome, median, ratio};
use super::server::{Contestant, Server};
use super::store::Store;
use crate::digits::grouped;
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

/// Measures the server on disk and in memory and the bare loop with frames of the same size, in
/// turn.
///
/// # Errors
/// A server does not start, a run fails, or the disk refuses.
pub fn measure(bench: &mut Bench<'_>) -> Result<Outcome> {
    let (mut disk, mut memory, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..bench.effort.rounds {
        bench.say(&format!("  round {} of {}", round + 1, bench.effort.rounds));
        let run = ours(bench, Store::Disk)?;
        memory.push(ours(bench, Store::Memory)?.summary.events_per_second);
        let frame_bytes = run.frame_bytes as usize;
        bare.push(append_and_sync(
            bench,
            Store::Disk,
            frame_bytes,
            bench.effort.window,
        )?);
        disk.push(run);
    }
    let mut outcome = table(&disk, &memory, &bare);
    for bytes in [MIB, 8 * MIB] {
        let bare = append_and_sync(bench, Store::Disk, bytes, bench.effort.window)?;
        outcome.row([
            format!("bare append + fdatasync of {} MiB", bytes / MIB),
            "–".to_owned(),
            megabytes(bare.bytes_per_second),
            grouped(bytes as f64),
            "–".to_owned(),
        ]);
    }
    Ok(outcome)
}

fn ours(bench: &Bench<'_>, store: Store) -> Result<Logged> {
    let contestant = Contestant::Ours { workers: 1, store };
    let server = Server::start(bench, contestant)?;
    let mut plan = bench.plan(&server, contestant.cpus());
    BATCHES.apply(&mut plan);
    logged(bench, &server, &plan)
}

fn table(disk: &[Logged], memory: &[f64], bare: &[Bare]) -> Outcome {
    let mut outcome = Outcome::with_columns(&[
        "",
        "events/s",
        "log MB/s",
        "bytes a sync",
        "Millrace on disk ÷ this",
    ]);
    let each = |of: &dyn Fn(&Logged) -> f64| disk.iter().map(of).collect::<Vec<_>>();
    let events = each(&|run| run.summary.events_per_second);
    let bytes = each(&|run| run.summary.events_per_second * run.bytes_per_event);
    let frame = median(&each(&|run| run.frame_bytes));
    let bare: Vec<_> = bare.iter().map(|bare| bare.bytes_per_second).collect();
    let by = |ours: &[f64], theirs: &[f64]| {
        let each: Vec<_> = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
        median(&each)
    };
    let (of_memory, of_bare) = (by(&events, memory), by(&bytes, &bare));
    outcome.row([
        "Millrace on disk".to_owned(),
        grouped(median(&events)),
        megabytes(median(&bytes)),
        grouped(frame),
        ratio(1.0, 1.0),
    ]);
    outcome.row([
        "Millrace in memory".to_owned(),
        grouped(median(memory)),
        "–".to_owned(),
        "–".to_owned(),
        ratio(of_memory, 1.0),
    ]);
    outcome.row([
        "bare append + fdatasync of the same size".to_owned(),
        "–".to_owned(),
        megabytes(median(&bare)),
        grouped(frame),
        ratio(of_bare, 1.0),
    ]);
    outcome.notes.push(
        "250 events of 998 B a request, 16 connections. Rows are compressed, so log bytes are \
         about an eighth of the events'."
            .to_owned(),
    );
    outcome.figure("Millrace on disk: events_per_second", median(&events));
    outcome.figure("of memory: ratio", of_memory);
    outcome.figure("of bare append and fdatasync: ratio", of_bare);
    outcome
}

fn megabytes(bytes_per_second: f64) -> String {
    format!("{:.1}", bytes_per_second / 1e6)
}
