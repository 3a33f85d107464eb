//! Recount of imported events from the log.

use crate::ship::{Layout, unpacked};
use millrace_log::{FrameSection, LogHandle, Position, ReadError, Reader};
use millrace_rows::{Table, TeamId};
use std::collections::BTreeMap;

/// Counts the events of frames that were written before the log was opened.
pub fn recount(log: &LogHandle, from: Position) -> Result<BTreeMap<TeamId, u64>, ReadError> {
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
    counted: &mut BTreeMap<TeamId, u64>,
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
        if let Some(team_id) = row.team_id {
            *counted.entry(team_id).or_default() += 1;
        }
    }
    Ok(())
}
