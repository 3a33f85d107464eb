//! Log of imports: what is counted of it, kept for it, and recounted after a crash.

use super::ImportCount;
use crate::log_panic::LogPanic;
use crate::pipeline::Pipeline;
use crate::ship::{Layout, unpacked};
use millrace_log::panic_point::{PanicPoint, pass};
use millrace_log::{FrameSection, LogHandle, Position, ReadError, Reader, ReleaseError};
use millrace_rows::{Lane, ProjectId, Table};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thiserror::Error;

/// Reason why the log of imports could not be counted.
#[derive(Debug, Error)]
pub enum RecountError {
    /// The log cannot be read; trying again may help.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Counting panicked, as it would again.
    #[error(transparent)]
    Panicked(#[from] LogPanic),
}

impl Pipeline {
    /// Events of imports that were counted since the start.
    #[must_use]
    pub fn import_count(&self) -> ImportCount {
        self.0.input(Lane::Historical).import_counter.so_far()
    }

    /// Counts the events of earlier starts in the log of imports from a position on, by project.
    /// Blocks.
    ///
    /// # Errors
    /// If the log cannot be read, or counting it panics.
    pub fn recount_imports(
        &self,
        from: Position,
    ) -> Result<BTreeMap<ProjectId, u64>, RecountError> {
        recount(&self.0.input(Lane::Historical).log, from)
    }

    /// Keeps the log of imports from a position on, shipped or not; frames below may be released.
    /// Blocks.
    ///
    /// # Errors
    /// If a segment could not be taken away for good; the log is then poisoned.
    pub fn keep_historical_from(&self, position: Position) -> Result<(), ReleaseError> {
        let input = self.0.input(Lane::Historical);
        input.retention.keep_from(&input.log, position)
    }
}

/// Counts the events of frames that were written before the log was opened.
fn recount(log: &LogHandle, from: Position) -> Result<BTreeMap<ProjectId, u64>, RecountError> {
    let mut recount = Recount {
        reader: log.reader(from),
        end: log.opened_at(),
        frame: None,
        counted: BTreeMap::new(),
    };
    // After a panic it is only asked where it was.
    match catch_unwind(AssertUnwindSafe(|| recount.run())) {
        Ok(Ok(())) => Ok(recount.counted),
        Ok(Err(error)) => Err(error.into()),
        Err(panic) => Err(LogPanic::new(recount.place(), &*panic).into()),
    }
}

/// Recount of the events in a part of the log.
struct Recount {
    reader: Reader,
    /// End of the part.
    end: Position,
    /// Frame whose sections are counted.
    frame: Option<Position>,
    counted: BTreeMap<ProjectId, u64>,
}

impl Recount {
    fn run(&mut self) -> Result<(), ReadError> {
        pass(PanicPoint::ImportsRecounted);
        loop {
            self.frame = None;
            let frame = match self.reader.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(()),
                Err(error @ ReadError::Corrupt { .. }) => {
                    tracing::error!(
                        "imported events in a damaged part of the log are not counted: {error}"
                    );
                    if self.reader.skip_damage()?.is_none() {
                        return Ok(());
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            if frame.end > self.end {
                return Ok(());
            }
            self.frame = Some(frame.position);
            for section in &frame.sections {
                count_section(&mut self.reader, section, &mut self.counted)?;
            }
        }
    }

    /// Position of the frame that is read or counted.
    fn place(&self) -> Position {
        self.frame.unwrap_or_else(|| self.reader.position())
    }
}

fn count_section(
    reader: &mut Reader,
    section: &FrameSection,
    counted: &mut BTreeMap<ProjectId, u64>,
) -> Result<(), ReadError> {
    let target = &*section.header.insert_target;
    if Table::of_insert_target(target) != Some(Table::Events) {
        return Ok(());
    }
    let blocks = match reader.read_blocks(section) {
        Ok(blocks) => blocks,
        Err(error @ ReadError::Corrupt { .. }) => {
            tracing::error!(
                "imported events in a damaged part of the log are not counted: {error}"
            );
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let rows = unpacked(&[blocks]).unwrap_or_default();
    let layout = Layout::of(target);
    let found = layout.and_then(|layout| layout.rows(&rows).ok());
    for row in found.unwrap_or_default() {
        if let Some(project_id) = row.project_id {
            *counted.entry(project_id).or_default() += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_blocks::Compressor;
    use millrace_log::testing::MemoryFs;
    use millrace_log::{Log, LogOptions, Section, SectionHeader};
    use millrace_rows::{EventRow, Micros, Month};
    use std::sync::Arc;
    use uuid::Uuid;

    fn open(fs: &MemoryFs) -> Log {
        let options = LogOptions {
            dir: "/log".into(),
            segment_bytes: 1 << 20,
            bytes_max: 1 << 30,
        };
        Log::open(options, Arc::new(fs.clone())).unwrap().0
    }

    /// Appends a frame with an event; returns its position.
    fn append(log: &mut Log) -> Position {
        let row = EventRow {
            uuid: Uuid::nil(),
            event: b"e",
            properties: &[b"{}"],
            timestamp: Micros(5),
            team_id: ProjectId(7),
            distinct_id: b"somebody",
            created_at: Micros(6),
            historical_migration: true,
        };
        let (mut bytes, mut blocks) = (Vec::new(), Vec::new());
        row.append_to(&mut bytes);
        Compressor::new().compress_into(&bytes, &mut blocks);
        let header = SectionHeader {
            insert_target: Table::Events.insert_target().to_owned(),
            month: Month::of(Micros(5)).0,
            rows: 1,
            uncompressed_bytes: bytes.len() as u64,
            keys: vec![row.key().to_bytes()],
        };
        let section = Section {
            header: &header,
            blocks: &blocks,
        };
        let frame = log.append(&[section]).unwrap();
        log.sync().unwrap();
        frame
    }

    #[test]
    fn a_panic_of_the_recount_names_the_frame_that_it_was_at() {
        let fs = MemoryFs::new();
        let mut log = open(&fs);
        let frames = [append(&mut log), append(&mut log)];
        drop(log);
        let log = open(&fs);
        let counted = recount(&log.handle(), Position::FIRST).unwrap();
        assert_eq!(counted, BTreeMap::from([(ProjectId(7), 2)]));
        // A frame takes a read for its headers and one for its rows.
        for reads in 0..4 {
            fs.set_panic_after_reads(reads);
            let expected = LogPanic {
                at: frames[reads as usize / 2],
                reason: "a mistake of ours".to_owned(),
            };
            match recount(&log.handle(), Position::FIRST) {
                Err(RecountError::Panicked(panic)) => {
                    assert_eq!(panic, expected, "after {reads} reads");
                }
                other => panic!("after {reads} reads: {other:?}"),
            }
        }
    }
}
