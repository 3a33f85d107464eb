//! Which chunks are acknowledged.
//!
//! Chunks of a file are acknowledged in any order and recorded in the file's: a chunk is recorded when all before it
//! are. First its rejects are on the disk, then the line that says so.

use crate::files::SourceFile;
use crate::journal::{Journal, Passed};
use crate::reject::{By, Reason, Reject, Rejects};
use crate::send::Delivered;
use std::collections::{HashMap, VecDeque};

/// A chunk whose requests are under way.
#[derive(Debug)]
struct Underway {
    id: u64,
    file: String,
    format: &'static str,
    requests_left: usize,
    passed: Passed,
    rejects: Vec<Reject>,
}

/// Chunks under way, and the record of those that were acknowledged.
#[derive(Debug)]
pub(super) struct Tracker {
    journal: Journal,
    rejects: Rejects,
    files: HashMap<String, VecDeque<Underway>>,
    /// Acknowledged with all before them, and not recorded yet.
    ready: Vec<Underway>,
    next_id: u64,
}

/// The name of a chunk among those under way.
#[derive(Clone, Debug)]
pub(super) struct Ticket {
    file: String,
    id: u64,
}

impl Tracker {
    pub(super) fn new(journal: Journal, rejects: Rejects) -> Self {
        Self {
            journal,
            rejects,
            files: HashMap::new(),
            ready: Vec::new(),
            next_id: 0,
        }
    }

    /// A chunk is on its way.
    pub(super) fn begin(
        &mut self,
        file: &SourceFile,
        format: &'static str,
        chunk: &mut crate::chunk::Chunk,
    ) -> Ticket {
        let name = file.name();
        let rejects = std::mem::take(&mut chunk.rejects);
        let mut passed = Passed {
            file: name.clone(),
            file_bytes: file.bytes,
            next: chunk.next,
            is_end: chunk.is_end,
            records: chunk.records,
            skipped: chunk.skipped,
            made: chunk.made.without(&chunk.made_before),
            accepted: std::mem::take(&mut chunk.made),
            generated: std::mem::take(&mut chunk.generated),
            replayed: std::mem::take(&mut chunk.replayed),
            ..Passed::default()
        };
        for reject in &rejects {
            *passed.rejected.entry(reject.code.clone()).or_default() += 1;
        }
        self.next_id += 1;
        let id = self.next_id;
        let underway = Underway {
            id,
            file: name.clone(),
            format,
            requests_left: chunk.requests.len(),
            passed,
            rejects,
        };
        self.files
            .entry(name.clone())
            .or_default()
            .push_back(underway);
        let ticket = Ticket { file: name, id };
        self.settle(&ticket.file);
        ticket
    }

    /// A request of a chunk was answered.
    pub(super) fn answered(&mut self, ticket: &Ticket, refused: &[Delivered]) {
        let chunks = self.files.get_mut(&ticket.file);
        let found = chunks.and_then(|chunks| chunks.iter_mut().find(|chunk| chunk.id == ticket.id));
        if let Some(chunk) = found {
            chunk.requests_left = chunk.requests_left.saturating_sub(1);
            for delivered in refused {
                chunk.refuse(delivered);
            }
        }
        self.settle(&ticket.file);
    }

    /// Moves chunks of a file that are done to those that are to be recorded.
    fn settle(&mut self, file: &str) {
        let Some(chunks) = self.files.get_mut(file) else {
            return;
        };
        while let Some(done) = chunks.pop_front_if(|chunk| chunk.requests_left == 0) {
            self.ready.push(done);
        }
    }

    /// Records what is to be recorded.
    pub(super) fn record(&mut self) -> anyhow::Result<()> {
        if self.ready.is_empty() {
            return Ok(());
        }
        let rejects: Vec<_> = self
            .ready
            .iter_mut()
            .flat_map(|chunk| std::mem::take(&mut chunk.rejects))
            .collect();
        let bytes = self.rejects.append(&rejects)?;
        let passed = self.ready.drain(..).map(|chunk| Passed {
            rejects_bytes: bytes,
            ..chunk.passed
        });
        self.journal.append(passed.collect())
    }
}

impl Underway {
    fn refuse(&mut self, delivered: &Delivered) {
        if let Some((day, name)) = &delivered.counted {
            self.passed.accepted.remove(*day, name);
        }
        let refusal = &delivered.refusal;
        let codes = &mut self.passed.rejected;
        *codes.entry(refusal.code.clone()).or_default() += 1;
        let reason = Reason {
            by: By::Server,
            code: &refusal.code,
            field: refusal.field(),
            message: &refusal.detail,
        };
        let reject = Reject::new(
            &self.file,
            self.format,
            delivered.at,
            &delivered.raw,
            reason,
        );
        self.rejects.push(reject);
    }
}
