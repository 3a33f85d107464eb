//! Dry run: takes all files through the mapping and the server's rules, and sends nothing.

use crate::chunk::{Chunk, ChunkReader};
use crate::event_counter::name_of;
use crate::event_counts::EventCounts;
use crate::files::SourceFile;
use crate::plan::Plan;
use crate::rejected_records::{Reject, RejectReason, RejectedBy};
use crate::request::{BodyPrefix, Request};
use crate::send::Validator;
use crate::stats::StageStats;
use millrace_rows::{Micros, counted};
use millrace_sources::Position;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of rejects shown for each code.
const SAMPLES_OF_CODE: usize = 3;
/// Bytes of a record or an event that are shown: findings are kept in memory and in the report.
const SHOWN_BYTES: usize = 16 << 10;

/// Settings of a dry run.
#[derive(Clone, Debug)]
pub struct Check {
    /// Mapping of the files.
    pub plan: Plan,
    /// The files.
    pub files: Vec<SourceFile>,
    /// Number of files read at once.
    pub files_parallel: usize,
    /// Most records to read of each file; `None` reads all.
    pub records_max: Option<u64>,
    /// Number of events shown.
    pub samples: usize,
}

/// Result of a dry run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Findings {
    /// Number of records read.
    pub records: u64,
    /// Number of records skipped on purpose.
    pub skipped: u64,
    /// Bytes of the files, compressed as they are; `None` if one of unknown length, such as
    /// standard input, was not read to its end.
    pub file_bytes: Option<u64>,
    /// Bytes of all requests, not compressed.
    pub request_bytes: u64,
    /// Requests that an import would send.
    pub requests: u64,
    /// Events that would be accepted, by day and name.
    pub events: EventCounts,
    /// Events that mappings generated besides these.
    pub generated: EventCounts,
    /// Time of the first event, in microseconds since 1970.
    pub first_micros: Option<i64>,
    /// Time of the last event, in microseconds since 1970.
    pub last_micros: Option<i64>,
    /// Number of files of each format.
    pub formats: BTreeMap<String, u64>,
    /// Number of times that each rule was applied.
    pub rules: BTreeMap<String, u64>,
    /// Number of rejects by code.
    pub rejected: BTreeMap<String, u64>,
    /// Some rejects of each code.
    pub rejects: Vec<Reject>,
    /// Some events, with the records that they were made of.
    pub samples: Vec<Sample>,
    /// Files that cannot be read to their end, with the reason.
    pub broken: Vec<(String, String)>,
}

/// An event with the record that it was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Name of the file.
    pub file: String,
    /// Text of the record.
    pub record: String,
    /// JSON of the event as it would be sent.
    pub event: String,
}

impl Findings {
    /// Number of records that would be rejected.
    #[must_use]
    pub fn rejected_count(&self) -> u64 {
        self.rejected.values().sum()
    }

    fn merge(&mut self, other: Self) {
        self.records += other.records;
        self.skipped += other.skipped;
        let both = self.file_bytes.zip(other.file_bytes);
        self.file_bytes = both.map(|(one, other)| one + other);
        self.request_bytes += other.request_bytes;
        self.requests += other.requests;
        self.events.merge(&other.events);
        self.generated.merge(&other.generated);
        let times = [other.first_micros, other.last_micros];
        self.extend_times(times.into_iter().flatten());
        let counts = [
            (&mut self.formats, other.formats),
            (&mut self.rules, other.rules),
            (&mut self.rejected, other.rejected),
        ];
        for (into, from) in counts {
            for (name, count) in from {
                *into.entry(name).or_default() += count;
            }
        }
        other.rejects.into_iter().for_each(|it| self.sample(it));
        self.samples.extend(other.samples);
        self.broken.extend(other.broken);
    }

    fn extend_times(&mut self, times: impl Iterator<Item = i64>) {
        for at in times {
            self.first_micros = Some(self.first_micros.map_or(at, |first| first.min(at)));
            self.last_micros = Some(self.last_micros.map_or(at, |last| last.max(at)));
        }
    }

    fn reject(&mut self, reject: Reject) {
        *self.rejected.entry(reject.code.clone()).or_default() += 1;
        self.sample(reject);
    }

    fn sample(&mut self, reject: Reject) {
        let known = self.rejects.iter().filter(|it| it.code == reject.code);
        if known.count() < SAMPLES_OF_CODE {
            let raw = shown(reject.raw.as_bytes());
            self.rejects.push(Reject { raw, ..reject });
        }
    }
}

/// Cuts a text to the bytes that are shown, and notes how many more there are.
fn shown(text: &[u8]) -> String {
    let mut shown = String::from_utf8_lossy(text.get(..SHOWN_BYTES).unwrap_or(text)).into_owned();
    if let Some(more) = text.len().checked_sub(SHOWN_BYTES).filter(|more| *more > 0) {
        shown.push_str(&format!("… ({} more)", counted(more as u64, "byte")));
    }
    shown
}

/// Reads all files and reports the findings.
#[must_use]
pub fn run(check: &Check, stats: &StageStats) -> Findings {
    let queue: VecDeque<_> = check.files.iter().collect();
    for file in &check.files {
        stats.expect(file.bytes);
    }
    let queue = Mutex::new(queue);
    let total = Mutex::new(Findings {
        file_bytes: Some(0),
        ..Findings::default()
    });
    std::thread::scope(|scope| {
        for _ in 0..check.files_parallel.max(1) {
            scope.spawn(|| {
                loop {
                    let next = queue
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .pop_front();
                    let Some(file) = next else {
                        return;
                    };
                    let found = FileCheck::new(check, file, stats).run();
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    total.merge(found);
                    total.samples.truncate(check.samples);
                }
            });
        }
    });
    let mut total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    total.broken.sort();
    total
}

/// The dry run of one file.
struct FileCheck<'a> {
    check: &'a Check,
    file: &'a SourceFile,
    stats: &'a StageStats,
    validator: Validator,
    found: Findings,
}

impl<'a> FileCheck<'a> {
    fn new(check: &'a Check, file: &'a SourceFile, stats: &'a StageStats) -> Self {
        Self {
            check,
            file,
            stats,
            validator: Validator::default(),
            found: Findings {
                file_bytes: file.known_bytes(),
                ..Findings::default()
            },
        }
    }

    fn run(mut self) -> Findings {
        if let Err(message) = self.chunks() {
            self.found.broken.push((self.file.name(), message));
        }
        self.found
    }

    fn chunks(&mut self) -> Result<(), String> {
        let prefix = BodyPrefix::new("check");
        // The length of standard input and pipes is known only at their end.
        let own = self.file.known_bytes().is_none().then(Arc::default);
        let counter: &Arc<AtomicU64> = own.as_ref().unwrap_or(self.stats.bytes_read());
        let before = counter.load(Ordering::Relaxed);
        let reader = ChunkReader::open(
            self.file,
            &self.check.plan,
            &prefix,
            Position::default(),
            counter,
        );
        let mut reader = reader.map_err(|error| error.to_string())?;
        let is_plain = counter.load(Ordering::Relaxed) == before;
        let format = reader.format().name();
        self.found.formats.insert(format.to_owned(), 1);
        let (mut offset, mut counted) = (0, 0);
        let ended = loop {
            let next = reader.next_chunk();
            if let Some(own) = &own {
                let read = own.load(Ordering::Relaxed);
                self.stats.read_bytes(read - counted);
                counted = read;
            }
            match next {
                Ok(None) => {
                    self.found.file_bytes =
                        self.found.file_bytes.or(own.is_some().then_some(counted));
                    break Ok(());
                }
                Err(error) => break Err(error.to_string()),
                Ok(Some(chunk)) => {
                    if is_plain {
                        counter.fetch_add(chunk.next.offset - offset, Ordering::Relaxed);
                        offset = chunk.next.offset;
                    }
                    self.chunk(chunk, format);
                }
            }
            let is_enough = self
                .check
                .records_max
                .is_some_and(|max| self.found.records >= max);
            if is_enough {
                break Ok(());
            }
        };
        self.found.rules = reader.counts();
        ended
    }

    fn chunk(&mut self, chunk: Chunk, format: &'static str) {
        let found = &mut self.found;
        found.records += chunk.records;
        found.skipped += chunk.skipped;
        found.events.merge(&chunk.made);
        found.generated.merge(&chunk.generated);
        let times = chunk
            .times
            .map(|(Micros(first), Micros(last))| [first, last]);
        found.extend_times(times.into_iter().flatten());
        self.stats.rejected(chunk.rejects.len() as u64);
        self.stats.skipped(chunk.skipped);
        for rejected in chunk.rejects {
            found.reject(rejected.reject);
        }
        for request in &chunk.requests {
            self.request(request, format);
        }
    }

    fn request(&mut self, request: &Request, format: &'static str) {
        let name = self.file.name();
        let found = &mut self.found;
        found.requests += 1;
        found.request_bytes += request.body.len() as u64;
        for sent in &request.events {
            if found.samples.len() >= self.check.samples {
                break;
            }
            found.samples.push(Sample {
                file: name.clone(),
                record: shown(&request.record(sent)),
                event: shown(request.event(sent)),
            });
        }
        let refused = self.validator.refused(request);
        self.stats.rejected(refused.len() as u64);
        self.stats
            .accepted((request.events.len() - refused.len()) as u64);
        for refusal in refused {
            let Some(sent) = request.events.get(refusal.index) else {
                continue;
            };
            if let Some(day) = sent.counted {
                found.events.remove(day, &name_of(request.name(sent)));
            }
            let reason = RejectReason {
                by: RejectedBy::Server,
                code: &refusal.code,
                field: refusal.field(),
                message: &refusal.detail,
            };
            let record = request.record(sent);
            found.reject(Reject::new(&name, format, sent.at, &record, reason));
        }
    }
}
