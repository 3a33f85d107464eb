//! The stage that imports: files into requests, requests to the server, and a record of what was acknowledged.
//!
//! Threads read files and make requests of them; the calling thread sends. What is under way is bounded: each reader has
//! a chunk in its hands, one waits for the sender, and the sender takes the next when less than a round of requests is
//! left.
//!
//! | Module | Holds |
//! |---|---|
//! | `reading` | the threads that read |
//! | `resend` | rejects that are sent again |
//! | `sending` | the loop that sends |
//! | `tracker` | which chunks are acknowledged, in the order of their file |

mod order;
mod reading;
mod resend;
mod sending;
mod tracker;

use crate::chunk::Cuts;
use crate::files::SourceFile;
use crate::journal::{ANY, Heading, Journal, Lock, Progress};
use crate::meter::Meter;
use crate::plan::Plan;
use crate::reject::{Rejects, convert};
use crate::request::Head;
use crate::send::{Compression, Stop, Target};
use crate::staging::{LoadFolder, Staging};
use anyhow::{Context, ensure};
use millrace_sources::Position;
use reading::Known;
use sending::Ended;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracker::Tracker;

/// Version of the journal.
const VERSION: u32 = 1;

/// An import.
#[derive(Clone, Debug)]
pub struct Load {
    /// The server, such as `http://127.0.0.1:8000`.
    pub url: String,
    /// Whose events they are there.
    pub project_key: String,
    /// What is done with the files.
    pub plan: Plan,
    /// The files.
    pub files: Vec<SourceFile>,
    /// A file of rejects whose records are sent again, in place of files.
    pub rejects: Option<PathBuf>,
    /// The folder that keeps how far it is.
    pub staging: Staging,
    /// Whether it begins anew, whatever was done.
    pub is_restart: bool,
    /// Files that are read at once.
    pub files_parallel: usize,
    /// Requests under way at once, at most.
    pub requests_parallel: usize,
    /// How bodies are compressed; what pays without.
    pub compression: Option<Compression>,
    /// How long the server may take nothing before the import stops.
    pub patience: Duration,
    /// Where chunks and requests are cut.
    pub cuts: Cuts,
}

/// How an import ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What the journal says, of earlier runs too.
    pub progress: Progress,
    /// Files that could not be read to their end, with the reason.
    pub broken: Vec<(String, String)>,
    /// Why it stopped, if it did.
    pub stop: Option<Stop>,
    /// Records that were left out, as a resend had brought them in before.
    pub left_out: u64,
    /// Lines of a file of rejects that are too long to be sent again, as `file:line`. They stay where they are.
    pub passed_over: Vec<String>,
}

/// Runs an import to its end, or to where it cannot go on.
///
/// # Errors
/// When it cannot begin, or the staging folder cannot be written.
pub fn run(load: &Load, meter: &Arc<Meter>) -> anyhow::Result<Outcome> {
    let target = Target::new(&load.url, load.compression)?;
    let folder = load.staging.load(&load.project_key);
    // Held until nothing of the folder is written or removed any more.
    let lock = Lock::take(&folder.journal())?;
    if load.is_restart {
        folder.empty(&lock)?;
    }
    keep_rejects_of_others(&folder, &lock)?;
    let (journal, progress) = Journal::open(&lock, &heading(load))?;
    let (rejects, bytes) = (folder.rejects(), progress.sum.rejects_bytes);
    convert(&folder.packed_rejects(), &rejects, bytes)?;
    let rejects = Rejects::open(&rejects, bytes, &folder.journal())?;
    let sending = Sending {
        load,
        target,
        meter,
        folder: &folder,
    };
    let mut tracker = Tracker::new(journal, rejects);
    let ended = match &load.rejects {
        Some(rejects) => sending.resend(rejects, &mut tracker)?,
        None => {
            let mut work = Vec::new();
            for file in &load.files {
                work.extend(progress.of(file)?.map(|at| (file.clone(), at)));
            }
            sending.send(work, Known::Settled(&progress.settled), &mut tracker)?
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

/// Refuses a folder with rejects and no journal: they may have been mended by hand, and a new journal has none of them.
fn keep_rejects_of_others(folder: &LoadFolder, lock: &Lock) -> anyhow::Result<()> {
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

/// An import that sends.
struct Sending<'a> {
    load: &'a Load,
    target: Target,
    meter: &'a Arc<Meter>,
    folder: &'a LoadFolder,
}

impl Sending<'_> {
    /// Sends files, each from where it goes on.
    fn send(
        &self,
        work: Vec<(SourceFile, Position)>,
        known: Known<'_>,
        tracker: &mut Tracker,
    ) -> anyhow::Result<Ended> {
        let (load, meter) = (self.load, self.meter);
        work.iter().for_each(|(file, _)| meter.expect(file.bytes));
        let work = order::by_time(work, &load.plan);
        let queue = Mutex::new(VecDeque::from(work));
        let head = Head::new(&load.project_key);
        let compression = self.target.compression();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        std::thread::scope(|scope| {
            let (give, take) = tokio::sync::mpsc::channel(1);
            for _ in 0..load.files_parallel.max(1) {
                let give = give.clone();
                let (queue, head) = (&queue, &head);
                scope.spawn(move || {
                    reading::read(load, queue, known, head, compression, meter, &give);
                });
            }
            drop(give);
            runtime.block_on(sending::send(
                load,
                self.target.clone(),
                take,
                tracker,
                meter,
            ))
        })
    }
}

fn heading(load: &Load) -> Heading {
    let source = load.plan.format.map_or("", millrace_sources::Format::name);
    Heading {
        version: VERSION,
        url: load.url.clone(),
        project_key: load.project_key.clone(),
        source: [source.to_owned(), load.plan.project.clone()],
        mapping: if load.rejects.is_some() {
            ANY.to_owned()
        } else {
            load.plan.digest.clone()
        },
    }
}
