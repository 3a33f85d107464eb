//! Splits a file into chunks: ranges that are imported, acknowledged and recorded as a whole.
//!
//! The content of a chunk depends only on its position, the file and the plan. A chunk that is
//! sent again after a crash gives the same requests, which the server recognises.

mod limits;
mod rejects;
mod writer;

pub use limits::ChunkLimits;
pub use rejects::{ChunkReject, ReplayedReject};

use crate::event_counter::EventCounter;
use crate::event_counts::EventCounts;
use crate::files::SourceFile;
use crate::journal::{EventState, RecordSet, RecordStatus, Refusals};
use crate::plan::Plan;
use crate::rejected_records::{Reject, RejectReason, RejectedBy};
use crate::replay::{Origin, Replay, Source};
use crate::request::{BodyPrefix, Request};
use crate::rules::Applier;
use millrace_rows::Micros;
use millrace_sources::{Events, FileError, Format, Framing, Position, framing};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use writer::{ChunkBuilder, RecordWriter};

/// A range of a file, ready to be sent.
#[derive(Debug)]
pub struct Chunk {
    /// Position of its first record.
    pub at: Position,
    /// Position of the next chunk.
    pub next: Position,
    /// True if the file ends with this chunk.
    pub is_end: bool,
    /// Number of records in it.
    pub records: u64,
    /// Number of records skipped on purpose.
    pub skipped: u64,
    /// Requests with its events, each of one month, in the order of the months.
    pub requests: Vec<Request>,
    /// Events of the chunk by day and name, without generated ones.
    pub made: EventCounts,
    /// Events of `made` that were counted before, as they replay events that the server refused.
    pub made_before: EventCounts,
    /// Generated events by day and name.
    pub generated: EventCounts,
    /// Times of its first and its last event.
    pub times: Option<(Micros, Micros)>,
    /// Records that gave no event.
    pub rejects: Vec<ChunkReject>,
    /// Files of its records: the one that is read, or those named by the rejects that it replays.
    pub sources: Vec<Origin>,
    /// Rejects that it replays.
    pub replayed: Vec<ReplayedReject>,
    /// Number of records left out because a resend brought them in before.
    pub left_out: u64,
}

/// Reads the chunks of one file.
pub struct ChunkReader<'a> {
    source: Source,
    framing: Box<dyn Framing>,
    /// Sources of the records, if the file is one of rejects.
    replay: Option<Replay<'a>>,
    /// Records to leave out.
    settled: Option<&'a RecordSet>,
    applier: Option<Applier<'a>>,
    prefix: BodyPrefix,
    limits: ChunkLimits,
    at: Position,
    is_end: bool,
    events: Events,
    /// Number of times that each rule of the source's mapping was applied.
    notes: BTreeMap<&'static str, u64>,
    counter: EventCounter,
}

impl<'a> ChunkReader<'a> {
    /// Opens a file at a position.
    ///
    /// # Errors
    /// The file cannot be read, or its format is unknown.
    pub fn open(
        file: &SourceFile,
        plan: &'a Plan,
        prefix: &BodyPrefix,
        at: Position,
        read_bytes: &Arc<AtomicU64>,
    ) -> Result<Self, FileError> {
        let (format, input) = file.format(plan, read_bytes)?;
        let framing = if plan.is_replay {
            framing::json(input, at)?
        } else {
            format.open(input, at, &plan.options)?
        };
        Ok(Self {
            source: Source::new(file.name(), format, plan)?,
            framing,
            replay: None,
            settled: None,
            applier: (!plan.rules.is_empty()).then(|| Applier::new(&plan.rules)),
            prefix: prefix.clone(),
            limits: ChunkLimits::default(),
            at,
            is_end: false,
            events: Events::default(),
            notes: BTreeMap::new(),
            counter: EventCounter::default(),
        })
    }

    /// Sets the limits on chunks and requests.
    #[must_use]
    pub fn with_limits(mut self, limits: ChunkLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Reads the file as one of rejects.
    #[must_use]
    pub fn replaying(mut self, plan: &'a Plan, refusals: &'a Refusals) -> Self {
        self.replay = Some(Replay::new(plan, refusals));
        self
    }

    /// Leaves out records that were settled before.
    #[must_use]
    pub fn without(mut self, settled: &'a RecordSet) -> Self {
        self.settled = (!settled.is_empty()).then_some(settled);
        self
    }

    /// Format of the file.
    #[must_use]
    pub fn format(&self) -> Format {
        self.source.format
    }

    /// Number of times that each rule was applied: those of the source's mapping and the user's.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let notes = self
            .notes
            .iter()
            .map(|(rule, count)| ((*rule).to_owned(), *count));
        let applied = self.applier.iter().flat_map(|applier| &applier.counts);
        notes
            .chain(applied.map(|(rule, count)| (rule.clone(), *count)))
            .collect()
    }

    /// Reads the next chunk; `None` after the last one, whose `is_end` is true.
    ///
    /// # Errors
    /// The file cannot be read further.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk>, FileError> {
        if self.is_end {
            return Ok(None);
        }
        let at = self.at;
        let mut chunk = ChunkBuilder::default();
        while chunk.bytes < self.limits.chunk_bytes && chunk.records < self.limits.chunk_records {
            if !self.record(&mut chunk)? {
                self.is_end = true;
                break;
            }
        }
        for (month, request) in std::mem::take(&mut chunk.open) {
            chunk.full.entry(month).or_default().push(request.finish());
        }
        Ok(Some(Chunk {
            at,
            next: self.at,
            is_end: self.is_end,
            records: chunk.records,
            skipped: chunk.skipped,
            requests: chunk.full.into_values().flatten().collect(),
            made: self.counter.take(),
            made_before: chunk.made_before,
            generated: chunk.generated,
            times: chunk.times,
            sources: match &self.replay {
                Some(replay) => replay.origins(),
                None => vec![self.source.origin()],
            },
            replayed: chunk.replayed,
            left_out: chunk.left_out,
            rejects: chunk.rejects,
        }))
    }

    /// Adds the next record to the chunk; returns false at the end of the file.
    fn record(&mut self, chunk: &mut ChunkBuilder) -> Result<bool, FileError> {
        let Some(record) = self.framing.next()? else {
            return Ok(false);
        };
        self.at = record.next;
        chunk.records += 1;
        self.events.clear();
        let ordinal = record.at.ordinal;
        let is_settled = |settled: &RecordSet| settled.contains(&self.source.file, ordinal);
        if self.settled.is_some_and(is_settled) {
            chunk.left_out += 1;
            return Ok(true);
        }
        let mut source = &mut self.source;
        let (mut at, mut raw, mut source_index) = (record.at, record.raw, 0);
        let (mut mapped, mut before) = (record.error.map_or(Ok(()), Err), EventState::None);
        let reject;
        if let (Some(replay), Ok(())) = (&mut self.replay, &mapped) {
            match replay.read(raw) {
                Ok((_, RecordStatus::Settled, _)) => {
                    chunk.left_out += 1;
                    return Ok(true);
                }
                Ok((found, status, from)) => {
                    before = chunk.replay(&found, status, from);
                    (at, source_index) = (found.position(), from);
                    reject = found;
                    raw = reject.raw.as_bytes();
                    source = replay.source(from).unwrap_or(source);
                }
                Err(error) => mapped = Err(error),
            }
        }
        let mapped = mapped.and_then(|()| source.mapping.map(raw, &mut self.events));
        for note in self.events.notes() {
            *self.notes.entry(note).or_default() += 1;
        }
        let mut writer = RecordWriter {
            events: &self.events,
            applier: self.applier.as_mut(),
            ids: &mut source.ids,
            stem: &source.stem,
            limits: self.limits,
            prefix: &self.prefix,
            counter: &mut self.counter,
            source: u32::try_from(source_index).unwrap_or(u32::MAX),
            before,
            is_written: false,
        };
        let written = mapped.and_then(|()| writer.record(at, raw, chunk));
        if let Err(error) = written {
            let event = writer.reached();
            let reason = RejectReason {
                by: RejectedBy::Mapping,
                code: error.code,
                field: error.field.as_deref(),
                message: &error.message,
            };
            let reject = Reject::new(&source.file, source.format.name(), at, raw, reason);
            // Rejects are in memory until the chunk is sent, like its requests.
            chunk.bytes += reject.raw.len();
            chunk.rejects.push(ChunkReject {
                source: writer.source,
                event,
                reject,
            });
        }
        Ok(true)
    }
}
