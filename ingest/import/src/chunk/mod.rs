//! A file in chunks: stretches that are imported, acknowledged and recorded as a whole.
//!
//! What is in a chunk depends on where it begins, the file and the plan, and on nothing else. So a chunk that is sent
//! again after a crash gives the same requests, which the server knows again.

mod writer;

use crate::files::SourceFile;
use crate::journal::{EventState, Known, Records, Refusals, Standing};
use crate::plan::Plan;
use crate::reject::{By, Reason, Reject};
use crate::replay::{Origin, Replay, Source};
use crate::request::{Head, Request};
use crate::rules::Applier;
use crate::tallier::Tallier;
use crate::tally::Tally;
use millrace_rows::Micros;
use millrace_sources::{Events, FileError, Format, Framing, Position, framing};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use writer::{Filling, Writer};

/// Where chunks and requests are cut.
#[derive(Clone, Copy, Debug)]
pub struct Cuts {
    /// Bytes of a chunk's requests and rejects, past which it ends.
    pub chunk_bytes: usize,
    /// Records of a chunk, past which it ends: those that are left out have no bytes.
    pub chunk_records: u64,
    /// Bytes of a request.
    pub request_bytes: usize,
    /// Events of a request.
    pub request_events: usize,
}

impl Default for Cuts {
    fn default() -> Self {
        Self {
            chunk_bytes: 16 << 20,
            chunk_records: 100_000,
            request_bytes: 4 << 20,
            request_events: 5_000,
        }
    }
}

/// A stretch of a file, ready to be sent.
#[derive(Debug)]
pub struct Chunk {
    /// Where it begins.
    pub at: Position,
    /// Where the next one begins.
    pub next: Position,
    /// Whether the file ends there.
    pub is_end: bool,
    /// Records in it.
    pub records: u64,
    /// Records that were left out on purpose.
    pub skipped: u64,
    /// Its events, each request of one month, in the order of the months.
    pub requests: Vec<Request>,
    /// Its events by day and name, without generated ones.
    pub made: Tally,
    /// Those of `made` that were counted before, as they replay what the server refused.
    pub made_before: Tally,
    /// Generated events by day and name.
    pub generated: Tally,
    /// The times of its first and its last event.
    pub times: Option<(Micros, Micros)>,
    /// Records that gave no event.
    pub rejects: Vec<Rejected>,
    /// Where its records come from: its file, or those that the rejects name which it replays.
    pub sources: Vec<Origin>,
    /// The rejects that it replays.
    pub replayed: Vec<Replayed>,
    /// Records that were brought in before.
    pub left_out: u64,
}

/// A record that gave no event.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// Which of the chunk's sources it is of.
    pub source: u32,
    /// How far its event got.
    pub event: EventState,
    /// Itself, with the reason.
    pub reject: Reject,
}

/// A reject that is replayed.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Which of the chunk's sources it is of.
    pub source: u32,
    /// Which record there.
    pub ordinal: u64,
    /// What it was refused for; `None` when it was not refused in this import.
    pub standing: Option<Standing>,
}

/// Reads the chunks of one file.
pub struct ChunkReader<'a> {
    source: Source,
    framing: Box<dyn Framing>,
    /// When the file is one of rejects: each record of it says where it came from.
    replay: Option<Replay<'a>>,
    /// Records to leave out.
    settled: Option<&'a Records>,
    applier: Option<Applier<'a>>,
    head: Head,
    cuts: Cuts,
    at: Position,
    is_end: bool,
    events: Events,
    /// How often each rule of the source's mapping was applied.
    notes: BTreeMap<&'static str, u64>,
    tallier: Tallier,
}

impl<'a> ChunkReader<'a> {
    /// Opens a file at a position.
    ///
    /// # Errors
    /// When it cannot be read, or is of no format that is known.
    pub fn open(
        file: &SourceFile,
        plan: &'a Plan,
        head: &Head,
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
            head: head.clone(),
            cuts: Cuts::default(),
            at,
            is_end: false,
            events: Events::default(),
            notes: BTreeMap::new(),
            tallier: Tallier::default(),
        })
    }

    /// The same with other cuts.
    #[must_use]
    pub fn with_cuts(mut self, cuts: Cuts) -> Self {
        self.cuts = cuts;
        self
    }

    /// The same for a file of rejects, of which so much is known.
    #[must_use]
    pub fn replaying(mut self, plan: &'a Plan, refusals: &'a Refusals) -> Self {
        self.replay = Some(Replay::new(plan, refusals));
        self
    }

    /// The same without some records.
    #[must_use]
    pub fn without(mut self, settled: &'a Records) -> Self {
        self.settled = (!settled.is_empty()).then_some(settled);
        self
    }

    /// What the file is.
    #[must_use]
    pub fn format(&self) -> Format {
        self.source.format
    }

    /// How often each rule was applied: those of the source's mapping, then the user's.
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

    /// The next chunk; `None` behind the last, which says that it is the last.
    ///
    /// # Errors
    /// When the file cannot be read on.
    pub fn next_chunk(&mut self) -> Result<Option<Chunk>, FileError> {
        if self.is_end {
            return Ok(None);
        }
        let at = self.at;
        let mut filling = Filling::default();
        while filling.bytes < self.cuts.chunk_bytes && filling.records < self.cuts.chunk_records {
            if !self.record(&mut filling)? {
                self.is_end = true;
                break;
            }
        }
        for (month, draft) in std::mem::take(&mut filling.open) {
            filling.full.entry(month).or_default().push(draft.finish());
        }
        Ok(Some(Chunk {
            at,
            next: self.at,
            is_end: self.is_end,
            records: filling.records,
            skipped: filling.skipped,
            requests: filling.full.into_values().flatten().collect(),
            made: self.tallier.take(),
            made_before: filling.made_before,
            generated: filling.generated,
            times: filling.times,
            sources: match &self.replay {
                Some(replay) => replay.origins(),
                None => vec![self.source.origin()],
            },
            replayed: filling.replayed,
            left_out: filling.left_out,
            rejects: filling.rejects,
        }))
    }

    /// Takes a record in; false at the end of the file.
    fn record(&mut self, filling: &mut Filling) -> Result<bool, FileError> {
        let Some(record) = self.framing.next()? else {
            return Ok(false);
        };
        self.at = record.next;
        filling.records += 1;
        self.events.clear();
        let ordinal = record.at.ordinal;
        let is_settled = |settled: &Records| settled.contains(&self.source.file, ordinal);
        if self.settled.is_some_and(is_settled) {
            filling.left_out += 1;
            return Ok(true);
        }
        let mut source = &mut self.source;
        let (mut at, mut raw, mut place) = (record.at, record.raw, 0);
        let (mut mapped, mut before) = (record.fault.map_or(Ok(()), Err), EventState::None);
        let reject;
        if let (Some(replay), Ok(())) = (&mut self.replay, &mapped) {
            match replay.read(raw) {
                Ok((_, Known::Settled, _)) => {
                    filling.left_out += 1;
                    return Ok(true);
                }
                Ok((found, known, from)) => {
                    before = filling.replay(&found, known, from);
                    (at, place) = (found.position(), from);
                    reject = found;
                    raw = reject.raw.as_bytes();
                    source = replay.source(from).unwrap_or(source);
                }
                Err(fault) => mapped = Err(fault),
            }
        }
        let mapped = mapped.and_then(|()| source.mapping.map(raw, &mut self.events));
        for note in self.events.notes() {
            *self.notes.entry(note).or_default() += 1;
        }
        let mut writer = Writer {
            events: &self.events,
            applier: self.applier.as_mut(),
            ids: &mut source.ids,
            stem: &source.stem,
            cuts: self.cuts,
            head: &self.head,
            tallier: &mut self.tallier,
            source: u32::try_from(place).unwrap_or(u32::MAX),
            before,
            is_written: false,
        };
        let written = mapped.and_then(|()| writer.record(at, raw, filling));
        if let Err(fault) = written {
            let event = writer.reached();
            let reason = Reason {
                by: By::Mapping,
                code: fault.code,
                field: fault.field.as_deref(),
                message: &fault.message,
            };
            let reject = Reject::new(&source.file, source.format.name(), at, raw, reason);
            // They are in memory until the chunk is sent, as its requests are.
            filling.bytes += reject.raw.len();
            filling.rejects.push(Rejected {
                source: writer.source,
                event,
                reject,
            });
        }
        Ok(true)
    }
}
