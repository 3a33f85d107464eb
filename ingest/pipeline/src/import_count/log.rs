//! Log of imports: what is counted of it, kept for it, and recounted after a crash.

use super::ImportCount;
use crate::pipeline::Pipeline;
use crate::ship::{Layout, unpacked};
use millrace_log::{FrameSection, LogHandle, Position, ReadError, Reader, ReleaseError};
use millrace_rows::{Lane, ProjectId, Table};
use std::collections::BTreeMap;

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
    /// If the log cannot be read.
    pub fn recount_imports(&self, from: Position) -> Result<BTreeMap<ProjectId, u64>, ReadError> {
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
fn recount(log: &LogHandle, from: Position) -> Result<BTreeMap<ProjectId, u64>, ReadError> {
    let mut counted = BTreeMap::new();
    let mut reader = log.reader(from);
    let end = log.opened_at();
    loop {
        let frame = match reader.next() {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok(counted),
            Err(error @ ReadError::Corrupt { .. }) => {
                tracing::error!(
                    "imported events in a damaged part of the log are not counted: {error}"
                );
                if reader.skip_damage()?.is_none() {
                    return Ok(counted);
                }
                continue;
            }
            Err(error) => return Err(error),
        };
        if frame.end > end {
            return Ok(counted);
        }
        for section in &frame.sections {
            count_section(&mut reader, section, &mut counted)?;
        }
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
