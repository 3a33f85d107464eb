//! Which chunks are acknowledged.
//!
//! Chunks of a file are acknowledged in any order and recorded in the file's: a chunk is recorded when all before it
//! are. First its rejects are on the disk, then the line that says so.

use crate::chunk::Chunk;
use crate::files::SourceFile;
use crate::journal::{EventState, Journal, Passed, Refused, Runs, Standing};
use crate::reject::{By, Reason, Reject, Rejects};
use crate::replay::Origin;
use crate::send::Delivered;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;

/// A record of a chunk: the place of its source, and its ordinal there.
type Key = (u32, u64);

/// A chunk whose requests are under way.
#[derive(Debug)]
struct Underway {
    id: u64,
    sources: Vec<Origin>,
    requests_left: usize,
    passed: Passed,
    replayed: HashMap<Key, Option<Standing>>,
    /// The reject of each record that has one, and how far its event got.
    rejects: BTreeMap<Key, (Reject, EventState)>,
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
    /// Records that were left out as they were brought in before.
    pub(super) left_out: u64,
    /// Lines of a file of rejects that are too long to be sent again.
    pub(super) passed_over: Vec<String>,
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
            left_out: 0,
            passed_over: Vec::new(),
        }
    }

    /// A chunk is on its way.
    pub(super) fn begin(&mut self, file: &SourceFile, chunk: &mut Chunk) -> Ticket {
        let name = file.name();
        let passed = Passed {
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
            ..Passed::default()
        };
        let rejects = std::mem::take(&mut chunk.rejects).into_iter();
        let rejects = rejects.map(|it| ((it.source, it.reject.ordinal), (it.reject, it.event)));
        let replayed = std::mem::take(&mut chunk.replayed).into_iter();
        self.next_id += 1;
        let id = self.next_id;
        let underway = Underway {
            id,
            sources: std::mem::take(&mut chunk.sources),
            requests_left: chunk.requests.len(),
            passed,
            replayed: replayed
                .map(|it| ((it.source, it.ordinal), it.standing))
                .collect(),
            rejects: rejects.collect(),
        };
        self.left_out += chunk.left_out;
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
        let (mut rejects, mut passed) = (Vec::new(), Vec::new());
        for mut chunk in self.ready.drain(..) {
            chunk.conclude();
            rejects.extend(chunk.rejects.into_values().map(|(reject, _)| reject));
            passed.push(chunk.passed);
        }
        let rejects_bytes = self.rejects.append(&rejects)?;
        passed
            .iter_mut()
            .for_each(|it| it.rejects_bytes = rejects_bytes);
        self.journal.append(passed)
    }

    /// Goes on with a file of rejects that was written anew.
    pub(super) fn reopen(&mut self, rejects: &Path) -> anyhow::Result<()> {
        self.rejects = Rejects::append_to(rejects)?;
        Ok(())
    }

    /// Records that a file is begun anew, or done with.
    pub(super) fn note(&mut self, file: &SourceFile, is_end: bool) -> anyhow::Result<()> {
        self.journal.append(vec![Passed {
            file: file.name(),
            file_bytes: file.bytes,
            is_end,
            rejects_bytes: self.rejects.bytes(),
            ..Passed::default()
        }])
    }
}

impl Underway {
    fn refuse(&mut self, delivered: &Delivered) {
        let is_counted = delivered.counted.is_some();
        if let Some((day, name)) = &delivered.counted {
            self.passed.accepted.remove(*day, name);
        }
        let key = (delivered.source, delivered.at.ordinal);
        if self.rejects.contains_key(&key) && !is_counted {
            // The record is refused already, and what was made beside its event comes with it again.
            return;
        }
        let Some(source) = self.sources.get(delivered.source as usize) else {
            return;
        };
        let refusal = &delivered.refusal;
        let reason = Reason {
            by: By::Server,
            code: &refusal.code,
            field: refusal.field(),
            message: &refusal.detail,
        };
        let (at, raw) = (delivered.at, &delivered.raw);
        let reject = Reject::new(&source.file, source.format, at, raw, reason);
        let event = if is_counted {
            EventState::Made
        } else {
            EventState::Accepted
        };
        self.rejects.insert(key, (reject, event));
    }

    /// Sums up what became of its records.
    fn conclude(&mut self) {
        let mut lists: BTreeMap<(u32, &str, EventState), Runs> = BTreeMap::new();
        for ((source, ordinal), (reject, event)) in &self.rejects {
            let list = lists.entry((*source, &reject.code, *event)).or_default();
            list.insert(*ordinal);
            *self.passed.rejected.entry(reject.code.clone()).or_default() += 1;
        }
        let file = |source: u32| {
            let origin = self.sources.get(source as usize);
            origin.map(|origin| origin.file.clone()).unwrap_or_default()
        };
        self.passed.refused = lists
            .into_iter()
            .map(|((source, code, event), ordinals)| Refused {
                file: file(source),
                code: code.to_owned(),
                event,
                ordinals,
            })
            .collect();
        for (key, standing) in &self.replayed {
            if let Some(standing) = standing {
                let code = standing.code.to_string();
                *self.passed.replayed.entry(code).or_default() += 1;
            }
            if !self.rejects.contains_key(key) {
                self.passed.settled.insert(&file(key.0), key.1);
            }
        }
    }
}
