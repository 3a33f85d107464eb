//! Kills the server again and again and verifies the acknowledged events.
//!
//! A server starts on an empty folder, is loaded, killed, started again on the same folder, and so
//! on. Every few kills, and at the folder's end, ClickHouse is compared with the ledger of
//! acknowledged batches. Rows are counted with merges stopped, accepted and rejected events alike.
//! A new folder follows after some kills: the engine would otherwise spend its time on unmerged
//! parts.
//!
//! - [`mod@options`], [`layout`]: options of a test, layouts of the processes.
//! - [`kill`]: victims and times, drawn from a seed.
//! - [`subject`]: the processes, in one of two layouts.
//! - [`folder_run`]: a folder from its first start to its last comparison.
//! - [`power`]: power cuts with the kills, on [`disk`]s that allow them.
//! - [`check`]: the comparisons.
//! - [`strace`]: a kill at one system call of the engine.
//! - [`report`]: the results.

pub mod check;
pub mod disk;
pub mod folder_run;
pub mod kill;
pub mod options;
pub mod power;
pub mod report;
pub mod strace;
pub mod subject;

pub use options::Options;

use crate::stop::Stop;
use anyhow::Result;
use folder_run::FolderRun;
use kill::Kill;
use options::Layout;
use report::Report;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use tempfile::TempDir;

/// Runs the kills, unless stopped; `say` gets the progress.
///
/// Lost and doubled events are in the report and no error. A folder that cannot go on is in the
/// report, too, so that the findings of the others stay known.
///
/// # Errors
/// The options contradict each other.
pub fn crash(options: &Options, stop: &Stop, say: &(dyn Fn(&str) + Sync)) -> Result<Report> {
    options.check()?;
    let folder_kills = options.folder_kills;
    let kills = kill::draw(&options.kinds, options.kills, folder_kills, options.seed);
    let folders: Vec<&[Kill]> = kills.chunks(folder_kills as usize).collect();
    let next = AtomicUsize::new(0);
    let report = Mutex::new(Report::new(options.seed));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.min(folders.len()) {
            scope.spawn(|| {
                while let Some((number, kills)) = take(&next, &folders) {
                    if stop.is_asked() {
                        return;
                    }
                    let folder_report = run_folder(options, number, kills, stop, say);
                    if !folder_report.failures.is_empty() {
                        stop.ask();
                    }
                    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                    report.add(folder_report);
                }
            });
        }
    });
    Ok(report.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn take<'a>(next: &AtomicUsize, folders: &[&'a [Kill]]) -> Option<(usize, &'a [Kill])> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    Some((number, *folders.get(number)?))
}

/// Runs one folder, which is kept if anything is wrong with it.
fn run_folder(
    options: &Options,
    number: usize,
    kills: &[Kill],
    stop: &Stop,
    say: &(dyn Fn(&str) + Sync),
) -> Report {
    let layout = options.layouts.iter().cycle().nth(number);
    let layout = layout.copied().unwrap_or(Layout::Serve);
    let dir = match TempDir::with_prefix_in("millrace-crash-", &options.dir) {
        Ok(dir) => dir,
        Err(error) => return Report::of_failure(&error.into()),
    };
    let report = match FolderRun::new(options, layout, dir.path(), say) {
        Ok(folder_run) => folder_run.run(kills, stop),
        Err(error) => Report::of_failure(&error),
    };
    if !(report.wrongs.is_empty() && report.failures.is_empty()) {
        say(&format!("the folder is kept: {}", dir.keep().display()));
    }
    report
}
