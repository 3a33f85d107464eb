//! Kills the server again and again and counts what it had acknowledged.
//!
//! A server of its own is started on an empty folder, loaded, killed, started again on what is
//! there, and so on; every few kills, and at the folder's end, ClickHouse is compared with the ledger
//! of what was acknowledged. Rows are counted plainly, with merges stopped, accepted and rejected
//! events alike. Then comes the next folder: the engine would otherwise spend its time on parts that
//! nobody merges.
//!
//! - [`kill`]: who is killed, and when; drawn from a seed.
//! - [`subject`]: the processes, in one of two layouts.
//! - [`life`]: a folder from its first start to its last comparison.
//! - [`power`]: power cuts beside the kills, on [`disk`]s that allow it.
//! - [`check`]: that comparison.
//! - [`strace`]: a kill at one system call of the engine.
//! - [`report`]: what came of it.

pub mod check;
pub mod disk;
pub mod kill;
pub mod life;
pub mod power;
pub mod report;
pub mod strace;
pub mod subject;

use crate::run::Stop;
use anyhow::{Result, ensure};
use disk::FileSystem;
use kill::{Kill, Kind};
use life::Life;
use report::Report;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use subject::Layout;
use tempfile::TempDir;

/// What is to be done, and with what.
#[derive(Clone, Debug)]
pub struct Options {
    /// The server's program, built with the feature `failpoints` if any of the kinds needs it.
    pub server: PathBuf,
    /// Data folders are made in here, and removed but for those with something wrong in them.
    pub dir: PathBuf,
    /// Kills in all.
    pub kills: u32,
    /// Kills after which the next folder is begun.
    pub folder_kills: u32,
    /// Kills after which ClickHouse is compared with the ledger.
    pub check_kills: u32,
    /// Kinds of kills, all equally often.
    pub kinds: Vec<Kind>,
    /// Which processes there are; folders take them in turn.
    pub layouts: Vec<Layout>,
    /// What is on the disks of who is killed, if these lose their power, too.
    pub power: Option<FileSystem>,
    /// Folders at the same time.
    pub jobs: usize,
    /// Decides kinds, moments and order.
    pub seed: u64,
    /// Events sent per second to one server.
    pub events_per_second: f64,
    /// Part of the requests that are historical, 0 to 1.
    pub historical_share: f64,
    /// Part of the requests with an event to be rejected, 0 to 1.
    pub rejected_share: f64,
}

impl Options {
    /// Every kind of kill and both layouts.
    #[must_use]
    pub fn new(server: PathBuf, dir: PathBuf, kills: u32) -> Self {
        Self {
            server,
            dir,
            kills,
            folder_kills: 25,
            check_kills: 10,
            kinds: Kind::all(),
            layouts: Layout::ALL.to_vec(),
            power: None,
            jobs: 1,
            seed: rand::random(),
            events_per_second: 8_000.0,
            historical_share: 0.25,
            rejected_share: 0.25,
        }
    }

    fn check(&self) -> Result<()> {
        ensure!(
            !self.kinds.is_empty(),
            "there is no kind of kill to choose from"
        );
        ensure!(
            !self.layouts.is_empty(),
            "there is no layout to choose from"
        );
        ensure!(self.kills > 0, "--kills must be at least 1");
        ensure!(self.folder_kills > 0, "--folder-kills must be at least 1");
        ensure!(self.check_kills > 0, "--check-kills must be at least 1");
        ensure!(self.jobs > 0, "--jobs must be at least 1");
        Ok(())
    }
}

/// Kills so often, unless stopped; `say` is told what is going on.
///
/// What is lost or doubled is in the report and no error, and so is what kept a folder from going on:
/// what the others found stays known.
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
                    let lived = live(options, number, kills, stop, say);
                    if !lived.failures.is_empty() {
                        stop.ask();
                    }
                    let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
                    report.add(lived);
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

/// One folder, which is kept if anything is wrong with it.
fn live(
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
    let report = match Life::new(options, layout, dir.path(), say) {
        Ok(life) => life.live(kills, stop),
        Err(error) => Report::of_failure(&error),
    };
    if !(report.wrongs.is_empty() && report.failures.is_empty()) {
        say(&format!(
            "what is there is kept in {}",
            dir.keep().display()
        ));
    }
    report
}
