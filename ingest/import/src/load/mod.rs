//! The stage that imports: files into requests, requests to the server, and a record of what was acknowledged.
//!
//! Threads read files and make requests of them; the calling thread sends. What is under way is bounded: each reader has
//! a chunk in its hands, one waits for the sender, and the sender takes the next when less than a round of requests is
//! left.
//!
//! | Module | Holds |
//! |---|---|
//! | `reading` | the threads that read |
//! | `sending` | the loop that sends |
//! | `tracker` | which chunks are acknowledged, in the order of their file |

mod order;
mod reading;
mod sending;
mod tracker;

use crate::chunk::Cuts;
use crate::files::SourceFile;
use crate::journal::{ANY, Heading, Journal, Progress};
use crate::meter::Meter;
use crate::plan::Plan;
use crate::reject::Rejects;
use crate::request::Head;
use crate::send::{Compression, Stop, Target};
use crate::staging::Staging;
use anyhow::Context;
use std::collections::VecDeque;
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
    /// The folder that keeps how far it is.
    pub staging: Staging,
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
}

/// Runs an import to its end, or to where it cannot go on.
///
/// # Errors
/// When it cannot begin, or the staging folder cannot be written.
pub fn run(load: &Load, meter: &Arc<Meter>) -> anyhow::Result<Outcome> {
    let folder = load.staging.load(&load.project_key)?;
    let (journal, progress) = Journal::open(&folder.journal(), &heading(load))?;
    let rejects = Rejects::open(&folder.rejects(), progress.sum.rejects_bytes)
        .with_context(|| format!("cannot write {}", folder.rejects().display()))?;
    let target = Target::new(&load.url, load.compression)?;
    let mut work = Vec::new();
    for file in &load.files {
        if let Some(at) = progress.of(file, load.plan.is_replay)? {
            meter.expect(file.bytes);
            work.push((file.clone(), at));
        }
    }
    let work = order::by_time(work, &load.plan);
    let queue = Mutex::new(VecDeque::from(work));
    let mut tracker = Tracker::new(journal, rejects);
    let head = Head::new(&load.project_key);
    let compression = target.compression();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let ended = std::thread::scope(|scope| {
        let (give, take) = tokio::sync::mpsc::channel(1);
        for _ in 0..load.files_parallel.max(1) {
            let give = give.clone();
            let (queue, head) = (&queue, &head);
            scope.spawn(move || reading::read(load, queue, head, compression, meter, &give));
        }
        drop(give);
        runtime.block_on(sending::send(load, target, take, &mut tracker, meter))
    })?;
    Ok(Outcome {
        progress: Journal::read(&folder.journal())?,
        broken: ended.broken,
        stop: ended.stop,
    })
}

fn heading(load: &Load) -> Heading {
    let source = load.plan.format.map_or("", millrace_sources::Format::name);
    Heading {
        version: VERSION,
        url: load.url.clone(),
        project_key: load.project_key.clone(),
        source: [source.to_owned(), load.plan.project.clone()],
        mapping: if load.plan.is_replay {
            ANY.to_owned()
        } else {
            load.plan.digest.clone()
        },
    }
}
