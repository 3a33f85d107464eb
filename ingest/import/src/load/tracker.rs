//! Tracks which chunks are acknowledged.
//!
//! Chunks of a file are acknowledged in any order and recorded in the file's: a chunk is recorded
//! when all before it are. Its rejects are synced before its line in the journal.

use crate::chunk::Chunk;
use crate::files::SourceFile;
use crate::journal::{EventState, ImportedChunk, Journal, OpenRefusal, OrdinalSet, RefusedRecords};
use crate::rejected_records::{Reject, RejectReason, RejectedBy, Rejects};
use crate::replay::Origin;
use crate::send::RefusedEvent;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;

/// Key of a record in a chunk: the index of its source, and its ordinal there.
type Key = (u32, u64);

/// A chunk whose requests are in flight or waiting.
#[derive(Debug)]
struct PendingChunk {
    id: u64,
    sources: Vec<Origin>,
    requests_left: usize,
    imported: ImportedChunk,
    replayed: HashMap<Key, Option<OpenRefusal>>,
    /// Reject of each record that has one, and the state that its event reached.
    rejects: BTreeMap<Key, (Reject, EventState)>,
}

/// Keeps the pending chunks, and records the acknowledged ones.
#[derive(Debug)]
pub(super) struct Tracker {
    journal: Journal,
    rejects: Rejects,
    files: HashMap<String, VecDeque<PendingChunk>>,
    /// Chunks acknowledged with all before them, and not recorded yet.
    ready: Vec<PendingChunk>,
    next_id: u64,
    /// Number of records left out because they were brought in before.
    pub(super) left_out: u64,
    /// Lines of a file of rejects that are too long to be sent again.
    pub(super) passed_over: Vec<String>,
}

/// Identifies a pending chunk.
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
            left_out: 0,
            passed_over: Vec::new(),
        }
    }

    /// Adds a chunk whose requests will be sent.
    pub(super) fn begin(&mut self, file: &SourceFile, chunk: &mut Chunk) -> Ticket {
        let name = file.name();
        let imported = ImportedChunk {
            file: name.clone(),
            file_bytes: file.bytes,
            next: chunk.next,
            is_end: chunk.is_end,
            records: chunk.records,
            skipped: chunk.skipped,
            made: chunk.made.without(&chunk.made_before),
            accepted: std::mem::take(&mut chunk.made),
            generated: std::mem::take(&mut chunk.generated),
            left_out: chunk.left_out,
            ..ImportedChunk::default()
        };
        let rejects = std::mem::take(&mut chunk.rejects).into_iter();
        let rejects = rejects.map(|it| ((it.source, it.reject.ordinal), (it.reject, it.event)));
        let replayed = std::mem::take(&mut chunk.replayed).into_iter();
        self.next_id += 1;
        let id = self.next_id;
        let pending = PendingChunk {
            id,
            sources: std::mem::take(&mut chunk.sources),
            requests_left: chunk.requests.len(),
            imported,
            replayed: replayed
                .map(|it| ((it.source, it.ordinal), it.open_refusal))
                .collect(),
            rejects: rejects.collect(),
        };
        self.left_out += chunk.left_out;
        self.files
            .entry(name.clone())
            .or_default()
            .push_back(pending);
        let ticket = Ticket { file: name, id };
        self.settle(&ticket.file);
        ticket
    }

    /// Notes that a request of a chunk was acknowledged, with the refused events.
    pub(super) fn acknowledged(&mut self, ticket: &Ticket, refused: &[RefusedEvent]) {
        let chunks = self.files.get_mut(&ticket.file);
        let found = chunks.and_then(|chunks| chunks.iter_mut().find(|chunk| chunk.id == ticket.id));
        if let Some(chunk) = found {
            chunk.requests_left = chunk.requests_left.saturating_sub(1);
            for event in refused {
                chunk.refuse(event);
            }
        }
        self.settle(&ticket.file);
    }

    /// Moves the finished chunks of a file to those that are ready to be recorded.
    fn settle(&mut self, file: &str) {
        let Some(chunks) = self.files.get_mut(file) else {
            return;
        };
        while let Some(done) = chunks.pop_front_if(|chunk| chunk.requests_left == 0) {
            self.ready.push(done);
        }
    }

    /// Records the chunks that are ready.
    pub(super) fn record(&mut self) -> anyhow::Result<()> {
        if self.ready.is_empty() {
            return Ok(());
        }
        let (mut rejects, mut imported) = (Vec::new(), Vec::new());
        for mut chunk in self.ready.drain(..) {
            chunk.sum_up();
            rejects.extend(chunk.rejects.into_values().map(|(reject, _)| reject));
            imported.push(chunk.imported);
        }
        let rejects_bytes = self.rejects.append(&rejects)?;
        imported
            .iter_mut()
            .for_each(|it| it.rejects_bytes = rejects_bytes);
        self.journal.append(imported)
    }

    /// Reopens the file of rejects after it was rewritten.
    pub(super) fn reopen(&mut self, rejects: &Path) -> anyhow::Result<()> {
        self.rejects = Rejects::append_to(rejects)?;
        Ok(())
    }

    /// Records that a file starts from the beginning, or is done.
    pub(super) fn record_file(&mut self, file: &SourceFile, is_end: bool) -> anyhow::Result<()> {
        self.journal.append(vec![ImportedChunk {
            file: file.name(),
            file_bytes: file.bytes,
            is_end,
            rejects_bytes: self.rejects.bytes(),
            ..ImportedChunk::default()
        }])
    }
}

impl PendingChunk {
    fn refuse(&mut self, refused: &RefusedEvent) {
        let is_counted = refused.counted.is_some();
        if let Some((day, name)) = &refused.counted {
            self.imported.accepted.remove(*day, name);
        }
        let key = (refused.source, refused.at.ordinal);
        if self.rejects.contains_key(&key) && !is_counted {
            // The record is refused already; its replay will generate this event again.
            return;
        }
        let Some(source) = self.sources.get(refused.source as usize) else {
            return;
        };
        let refusal = &refused.refusal;
        let reason = RejectReason {
            by: RejectedBy::Server,
            code: &refusal.code,
            field: refusal.field(),
            message: &refusal.detail,
        };
        let (at, raw) = (refused.at, &refused.raw);
        let reject = Reject::new(&source.file, source.format, at, raw, reason);
        let event = if is_counted {
            EventState::Made
        } else {
            EventState::Accepted
        };
        self.rejects.insert(key, (reject, event));
    }

    /// Sums up the refused and settled records for the journal.
    fn sum_up(&mut self) {
        let mut lists: BTreeMap<(u32, &str, EventState), OrdinalSet> = BTreeMap::new();
        for ((source, ordinal), (reject, event)) in &self.rejects {
            let list = lists.entry((*source, &reject.code, *event)).or_default();
            list.insert(*ordinal);
            *self
                .imported
                .rejected
                .entry(reject.code.clone())
                .or_default() += 1;
        }
        let file = |source: u32| {
            let origin = self.sources.get(source as usize);
            origin.map(|origin| origin.file.clone()).unwrap_or_default()
        };
        self.imported.refused = lists
            .into_iter()
            .map(|((source, code, event), ordinals)| RefusedRecords {
                file: file(source),
                code: code.to_owned(),
                event,
                ordinals,
            })
            .collect();
        for (key, open_refusal) in &self.replayed {
            if let Some(open_refusal) = open_refusal {
                let code = open_refusal.code.to_string();
                *self.imported.replayed.entry(code).or_default() += 1;
            }
            if !self.rejects.contains_key(key) {
                self.imported.settled.insert(&file(key.0), key.1);
            }
        }
    }
}
