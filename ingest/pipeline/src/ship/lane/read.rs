//! Reads frames from the log into the plan.

use super::state::Reading;
use super::{PAUSE, READ_EVERY, ShipError, Shipper};
use crate::log_panic::LogPanic;
use crate::ship::section::{InsertKey, Section, SectionPosition};
use crate::ship::sink::Sink;
use metrics::counter;
use millrace_log::panic_point::{PanicPoint, pass};
use millrace_log::{Frame, FrameSection, ReadError, Reader};
use millrace_rows::{Month, RowKey};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

/// Frames read from the log at a time, before the plan is asked for batches.
const FRAMES_MAX: usize = 512;

impl<K: Sink> Shipper<K> {
    /// Reads the next frames. True when there are more and the plan has capacity for them.
    ///
    /// # Errors
    /// When reading panics: it would again, for ever. The error names segment and position, for who
    /// has to move the segment away.
    pub(super) async fn read(&mut self) -> Result<bool, ShipError> {
        let synced = *self.synced.borrow_and_update();
        if !self.plan.has_capacity() || self.reading.has_read(synced) {
            return Ok(false);
        }
        let Some(reader) = self.reader.take() else {
            return Ok(false);
        };
        let lane = self.context.lane;
        let read = spawn_blocking(move || read_frames(reader)).await;
        let read = read.map_err(|error| ShipError::Task(error.to_string()))?;
        let read = read.map_err(|panic| ShipError::Task(format!("the {lane} log: {panic}")))?;
        self.reader = Some(read.reader);
        self.reading = Reading::Behind;
        let count = read.frames.len();
        for frame in read.frames {
            self.gather(frame);
        }
        match read.error {
            None if count == FRAMES_MAX => Ok(self.plan.has_capacity()),
            None => {
                self.plan.reached(synced);
                self.reading = Reading::AtEnd {
                    end: synced,
                    rest_over: Instant::now() + READ_EVERY,
                };
                Ok(false)
            }
            Some(error) => {
                self.pass_damage(&error).await?;
                Ok(false)
            }
        }
    }

    fn gather(&mut self, frame: Frame) {
        let now = self.started.elapsed();
        let rows = frame.sections.iter().map(|it| u64::from(it.header.rows));
        self.unshipped.count(frame.position, rows.sum());
        let mut sections = Vec::with_capacity(frame.sections.len());
        for (section, source) in (0_u32..).zip(frame.sections) {
            let position = SectionPosition {
                frame: frame.position,
                section,
            };
            sections.push(self.known(position, source));
        }
        self.plan.gather(frame.end, sections, now);
    }

    /// Converts a section for the plan, with one shared copy of its insert target.
    fn known(
        &mut self,
        position: SectionPosition,
        mut source: FrameSection,
    ) -> (InsertKey, Section<FrameSection>) {
        let header = std::mem::take(&mut source.header);
        let known = self.targets.get(header.insert_target.as_str()).cloned();
        let insert_target = known.unwrap_or_else(|| {
            let target: Arc<str> = header.insert_target.into();
            self.targets.insert(Arc::clone(&target));
            target
        });
        let key = InsertKey {
            insert_target,
            month: Month(header.month),
        };
        let section = Section {
            position,
            rows: header.rows,
            row_bytes: header.uncompressed_bytes,
            keys: header.keys.into_iter().map(RowKey::from_bytes).collect(),
            is_suspect: false,
            source,
        };
        (key, section)
    }

    /// Skips damage that arose since the log was opened: sound frames behind it must still ship. A
    /// disk that cannot read some sectors is tried for seconds, on a thread that may block.
    async fn pass_damage(&mut self, error: &ReadError) -> Result<(), ShipError> {
        tracing::error!("the log cannot be read: {error}");
        let skipped = match (error, self.reader.take()) {
            (ReadError::Corrupt { .. }, Some(mut reader)) => {
                let skip = move || (reader.skip_damage(), reader);
                let skipped = spawn_blocking(skip).await;
                let lane = self.context.lane;
                let (skipped, reader) = skipped.map_err(|panic| {
                    ShipError::Task(format!("the {lane} log: {error}; skipping it: {panic}"))
                })?;
                self.reader = Some(reader);
                skipped.ok().flatten()
            }
            (_, reader) => {
                self.reader = reader;
                None
            }
        };
        self.paused_until = Instant::now() + PAUSE;
        if let Some(skipped) = skipped {
            counter!("millrace_log_damaged_total", "lane" => self.context.lane).increment(1);
            let kept = skipped.copy.map_or_else(
                || "nowhere: copy its segment before it is deleted".to_owned(),
                |path| path.display().to_string(),
            );
            tracing::error!(
                "passed over damage from {} to {}, whose bytes are kept in {kept}",
                skipped.start,
                skipped.end
            );
            self.plan.gather(skipped.end, [], self.started.elapsed());
        }
        Ok(())
    }
}

struct ReadFrames {
    reader: Reader,
    frames: Vec<Frame>,
    error: Option<ReadError>,
}

/// Reads the next frames. A panic is an error that says where.
fn read_frames(mut reader: Reader) -> Result<ReadFrames, LogPanic> {
    let mut frames = Vec::new();
    let mut error = None;
    while frames.len() < FRAMES_MAX {
        // After a panic the reader is only asked where it was.
        let next = catch_unwind(AssertUnwindSafe(|| {
            let next = reader.next();
            if matches!(next, Ok(Some(_))) {
                pass(PanicPoint::FrameRead);
            }
            next
        }));
        match next.map_err(|panic| LogPanic::new(reader.position(), &*panic))? {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => break,
            Err(failure) => {
                error = Some(failure);
                break;
            }
        }
    }
    Ok(ReadFrames {
        reader,
        frames,
        error,
    })
}
