//! The load stage: turns files into requests, sends them to the server, and records acknowledged
//! chunks.
//!
//! Threads read files and make requests of them; the calling thread sends. The work in progress is
//! bounded: each reader holds one chunk, one more waits in the channel, and the sender takes the
//! next when no request of the last waits.
//!
//! | Module | Holds |
//! |---|---|
//! | `settings` | settings of an import |
//! | `order` | the order in which files are read |
//! | `reader` | the threads that read |
//! | `resend` | rejects that are sent again |
//! | `sender` | the loop that sends |
//! | `tracker` | acknowledged chunks, in the order of their file |

mod order;
mod reader;
mod resend;
mod sender;
mod settings;
mod tracker;

pub use settings::Load;

use crate::files::SourceFile;
use crate::journal::{ANY_MAPPING, Journal, JournalHeader, Lock, Progress};
use crate::rejected_records::{Rejects, convert};
use crate::request::BodyPrefix;
use crate::send::{Stop, Target};
use crate::staging::LoadFolder;
use crate::stats::StageStats;
use anyhow::{Context, ensure};
use millrace_sources::Position;
use reader::PriorRecords;
use sender::SendResult;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tracker::Tracker;

/// Version of the journal's format.
const VERSION: u32 = 1;

/// Result of an import.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Content of the journal, of earlier runs too.
    pub progress: Progress,
    /// Files that could not be read to their end, with the reason.
    pub broken: Vec<(String, String)>,
    /// Reason for which it stopped early, if it did.
    pub stop: Option<Stop>,
    /// Number of records left out because a resend had brought them in before.
    pub left_out: u64,
    /// Lines of a file of rejects that are too long to be sent again, as `file:line`. They stay in
    /// their file.
    pub passed_over: Vec<String>,
}

/// Runs an import until it ends or has to stop.
///
/// # Errors
/// The import cannot start, or the staging folder cannot be written.
pub fn run(load: &Load, stats: &Arc<StageStats>) -> anyhow::Result<Outcome> {
    let target = Target::new(&load.url, load.compression)?;
    let folder = load.staging.load(&load.project_key);
    // Held until the last write to the folder.
    let lock = Lock::take(&folder.journal())?;
    if load.is_restart {
        folder.empty(&lock)?;
    }
    refuse_rejects_without_journal(&folder, &lock)?;
    let (journal, progress) = Journal::open(&lock, &journal_header(load))?;
    let (rejects, bytes) = (folder.rejects(), progress.sum.rejects_bytes);
    convert(&folder.packed_rejects(), &rejects, bytes)?;
    let rejects = Rejects::open(&rejects, bytes, &folder.journal())?;
    let uploader = Uploader {
        load,
        target,
        stats,
        folder: &folder,
    };
    let mut tracker = Tracker::new(journal, rejects);
    let ended = match &load.rejects {
        Some(rejects) => uploader.resend(rejects, &mut tracker)?,
        None => {
            let mut work = Vec::new();
            for file in &load.files {
                work.extend(progress.of(file)?.map(|at| (file.clone(), at)));
            }
            uploader.send(work, PriorRecords::Settled(&progress.settled), &mut tracker)?
        }
    };
    let (left_out, passed_over) = (tracker.left_out, std::mem::take(&mut tracker.passed_over));
    drop(tracker);
    let progress = Journal::read(&folder.journal())?;
    if progress.files.is_empty() {
        folder.remove(&lock)?;
    }
    Ok(Outcome {
        progress,
        broken: ended.broken,
        stop: ended.stop,
        left_out,
        passed_over,
    })
}

/// Refuses a folder with rejects but no journal: they may have been mended by hand, and a new
/// journal would not list them.
fn refuse_rejects_without_journal(folder: &LoadFolder, lock: &Lock) -> anyhow::Result<()> {
    if lock.journal_bytes()? > 0 {
        return Ok(());
    }
    let is_empty = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len()) == 0;
    for rejects in [
        folder.rejects(),
        folder.packed_rejects(),
        folder.resending(),
    ] {
        ensure!(
            is_empty(&rejects),
            "{} has records of an import whose journal is gone. Move it elsewhere, and send what is in it by \
             `millrace import load --rejects` once this import is done",
            rejects.display()
        );
    }
    Ok(())
}

/// Sends the files or rejects of an import.
struct Uploader<'a> {
    load: &'a Load,
    target: Target,
    stats: &'a Arc<StageStats>,
    folder: &'a LoadFolder,
}

impl Uploader<'_> {
    /// Sends files, each from its position on.
    fn send(
        &self,
        work: Vec<(SourceFile, Position)>,
        known: PriorRecords<'_>,
        tracker: &mut Tracker,
    ) -> anyhow::Result<SendResult> {
        let (load, stats) = (self.load, self.stats);
        work.iter().for_each(|(file, _)| stats.expect(file.bytes));
        let work = order::by_time(work, &load.plan);
        let queue = Mutex::new(VecDeque::from(work));
        let prefix = BodyPrefix::new(&load.project_key);
        let compression = self.target.compression();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        std::thread::scope(|scope| {
            let (sender, receiver) = tokio::sync::mpsc::channel(1);
            for _ in 0..load.files_parallel.max(1) {
                let sender = sender.clone();
                let (queue, prefix) = (&queue, &prefix);
                scope.spawn(move || {
                    reader::read(load, queue, known, prefix, compression, stats, &sender);
                });
            }
            drop(sender);
            runtime.block_on(sender::send(
                load,
                self.target.clone(),
                receiver,
                tracker,
                stats,
            ))
        })
    }
}

fn journal_header(load: &Load) -> JournalHeader {
    let source = load.plan.format.map_or("", millrace_sources::Format::name);
    JournalHeader {
        version: VERSION,
        url: load.url.clone(),
        project_key: load.project_key.clone(),
        source: [source.to_owned(), load.plan.project.clone()],
        mapping: if load.rejects.is_some() {
            ANY_MAPPING.to_owned()
        } else {
            load.plan.digest.clone()
        },
    }
}
